// The file's own chat template, rendered by Jinja2 in its immutable sandbox with the settings of HF
// transformers. The interpreter lives only in the child process that renders: the sandbox bounds
// neither time nor memory, the child's limits do. The only file that knows Python.
#include <pybind11/embed.h>

#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "tokenizer/chat_template_forms.h"
#include "tokenizer/child_process.h"

namespace py = pybind11;

namespace tahmin {
namespace {

// What a reply is.
constexpr char kText = 'T';
constexpr char kTemplateError = 'E';
constexpr char kLimit = 'L';
constexpr char kNoJinja = 'J';

// Defines render(); the names it gives to templates are those that transformers gives.
constexpr const char kRenderer[] = R"python(
import json
from datetime import datetime
from jinja2 import nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class GenerationTag(Extension):
    """{% generation %} marks what the model writes; for a prompt it is plain text."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def raise_exception(message):
    raise TemplateError(message)


def strftime_now(format):
    return datetime.now().strftime(format)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def to_bytes(text):
    # Bytes of a message that are not UTF-8 come back as they went in.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def line_of(error):
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = None
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def describe(error):
    text = str(error)
    if not isinstance(error, TemplateError):
        text = type(error).__name__ + ": " + text
    line = line_of(error)
    where = "" if line is None else "line %d: " % line
    return to_bytes((where + text)[:2000])


def render(source, messages, begin_text, end_text, add_generation_prompt, output_bytes):
    try:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
        environment.filters["tojson"] = tojson
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = strftime_now
        template = environment.from_string(source)
        parts = []
        total = 0
        for part in template.generate(
                messages=messages, tools=None, documents=None, bos_token=begin_text,
                eos_token=end_text, add_generation_prompt=add_generation_prompt):
            part = to_bytes(part)
            total += len(part)
            if total > output_bytes:
                return "L", b"the output exceeds %d bytes" % output_bytes
            parts.append(part)
        return "T", b"".join(parts)
    except MemoryError:
        return "L", b"out of memory"
    except Exception as error:
        return "E", describe(error)
)python";

py::str ToPython(const std::string& bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

void StartInterpreter() {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  config.write_bytecode = 0;
  // Else the first python3 on PATH would say where modules lie.
  (void)PyConfig_SetBytesString(&config, &config.program_name, TAHMIN_PYTHON);
  (void)PyConfig_SetBytesString(&config, &config.executable, TAHMIN_PYTHON);
  py::initialize_interpreter(&config, 0, nullptr, /*add_program_dir_to_path=*/false);
}

struct Request {
  const std::string& source;
  const std::string& begin_text;
  const std::string& end_text;
  const std::vector<ChatMessage>& messages;
  bool add_generation_prompt;
  size_t output_bytes;
};

ChildReply CallRenderer(const Request& request) {
  py::dict scope;
  scope["__builtins__"] = py::module_::import("builtins");
  try {
    py::exec(kRenderer, scope);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    return ChildReply{kNoJinja, error.what()};
  }
  py::list messages;
  for (const ChatMessage& message : request.messages) {
    py::dict entry;
    entry["role"] = ToPython(message.role);
    entry["content"] = ToPython(message.content);
    messages.append(entry);
  }
  const py::tuple reply = scope["render"](ToPython(request.source), messages,
                                          ToPython(request.begin_text), ToPython(request.end_text),
                                          request.add_generation_prompt, request.output_bytes);
  return ChildReply{reply[0].cast<std::string>()[0], reply[1].cast<std::string>()};
}

ChildReply RenderInThisProcess(const Request& request) {
  try {
    StartInterpreter();
    return CallRenderer(request);
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_MemoryError)) return ChildReply{kLimit, "out of memory"};
    return ChildReply{kTemplateError, error.what()};
  } catch (const std::bad_alloc&) {
    return ChildReply{kLimit, "out of memory"};
  } catch (const std::exception& error) {
    return ChildReply{kNoJinja, error.what()};
  }
}

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(std::string source, std::string begin_text, std::string end_text,
                const ChatTemplateLimits& limits)
      : source_(std::move(source)),
        begin_text_(std::move(begin_text)),
        end_text_(std::move(end_text)),
        limits_(limits) {}

  absl::StatusOr<std::string> Render(const std::vector<ChatMessage>& messages,
                                     bool add_generation_prompt) const override {
    const Request request{source_,  begin_text_,           end_text_,
                          messages, add_generation_prompt, limits_.output_bytes};
    ChildLimits limits;
    limits.cpu_seconds = limits_.cpu_seconds;
    // A busy machine may give the child a fraction of a core.
    limits.wall_seconds = 10 + 10 * limits_.cpu_seconds;
    limits.memory_bytes = limits_.memory_bytes;
    limits.output_bytes = limits_.output_bytes;
    absl::StatusOr<ChildReply> reply =
        RunInChild(limits, [&request] { return RenderInThisProcess(request); });
    if (!reply.ok()) {
      return absl::Status(reply.status().code(),
                          fmt::format("chat template: {}", std::string(reply.status().message())));
    }
    switch (reply->kind) {
      case kText:
        return std::move(reply->text);
      case kLimit:
        return absl::ResourceExhaustedError(fmt::format("chat template: {}", reply->text));
      case kNoJinja:
        return absl::FailedPreconditionError(
            fmt::format("Jinja2 cannot be used ({}); choose a built-in form: {}", reply->text,
                        BuiltInTemplateNames()));
      default:
        return absl::InvalidArgumentError(fmt::format("chat template: {}", reply->text));
    }
  }

 private:
  std::string source_;
  std::string begin_text_;
  std::string end_text_;
  ChatTemplateLimits limits_;
};

}  // namespace

std::unique_ptr<ChatTemplate> CreateJinjaTemplate(std::string source, std::string begin_text,
                                                  std::string end_text,
                                                  const ChatTemplateLimits& limits) {
  return std::make_unique<JinjaTemplate>(std::move(source), std::move(begin_text),
                                         std::move(end_text), limits);
}

}  // namespace tahmin
