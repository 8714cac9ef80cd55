#include "apps/file_report.h"

#include <string>

#include "apps/terminal.h"
#include "fmt/format.h"
#include "kernels/isa.h"

namespace tahmin::cli {

namespace {

std::string ShapeOf(const GgufTensor& tensor) {
  std::string shape;
  for (int64_t dimension : tensor.dimensions)
    shape += fmt::format("{}{}", shape.empty() ? "" : " x ", dimension);
  return shape;
}

}  // namespace

nlohmann::json FileToJson(const GgufFile& file, const MemoryPlan& plan) {
  nlohmann::json metadata = nlohmann::json::object(), tensors = nlohmann::json::array();
  nlohmann::json rows = nlohmann::json::array(), isas = nlohmann::json::array();
  for (const GgufEntry& entry : file.entries())
    metadata[std::string(entry.key)] = FormatGgufValue(entry);
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"type", TensorTypeName(static_cast<uint32_t>(tensor.type))},
                       {"dimensions", tensor.dimensions},
                       {"bytes", tensor.bytes.size()}});
  }
  for (const MemoryPlanRow& row : plan.rows)
    rows.push_back({{"name", row.name}, {"bytes", row.bytes}});
  for (kernels::Isa isa : kernels::SupportedIsas()) isas.push_back(kernels::IsaName(isa));
  return {{"file", file.path()},
          {"version", file.version()},
          {"metadata", metadata},
          {"tensors", tensors},
          {"memory_plan", {{"rows", rows}, {"total_bytes", plan.total_bytes}}},
          {"isa", kernels::IsaName(kernels::ActiveIsa())},
          {"supported_isas", isas}};
}

void PrintFile(const GgufFile& file, const MemoryPlan& plan, bool list_tensors) {
  fmt::print("file      {} (GGUF v{}, {})\n", file.path(), file.version(),
             FormatBytes(file.file_bytes()));
  std::string isas;
  for (kernels::Isa isa : kernels::SupportedIsas())
    isas += fmt::format(" {}", kernels::IsaName(isa));
  fmt::print("isa       {} (this machine has:{})\n", kernels::IsaName(kernels::ActiveIsa()), isas);
  fmt::print("metadata\n");
  for (const GgufEntry& entry : file.entries())
    fmt::print("  {} = {}\n", entry.key, FormatGgufValue(entry));
  fmt::print("tensors   {}{}\n", file.tensors().size(),
             list_tensors ? "" : " (list them with --tensors)");
  for (const GgufTensor& tensor : file.tensors()) {
    if (!list_tensors) break;
    fmt::print("  {:<32} {:<6} {:<20} {}\n", tensor.name,
               TensorTypeName(static_cast<uint32_t>(tensor.type)), ShapeOf(tensor),
               FormatBytes(tensor.bytes.size()));
  }
  fmt::print("memory plan (plain decoding; a drafter's tables come on top)\n");
  for (const MemoryPlanRow& row : plan.rows)
    fmt::print("  {:<24} {}\n", row.name, FormatBytes(row.bytes));
  fmt::print("  {:<24} {}\n", "total", FormatBytes(plan.total_bytes));
}

}  // namespace tahmin::cli
