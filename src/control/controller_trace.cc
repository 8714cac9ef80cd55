#include "control/controller_trace.h"

#include <cstddef>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace tahmin {
namespace {

constexpr std::string_view kHeader = "tahmin-controller-trace 3";
constexpr size_t kMostListed = 1 << 16;  // of any list: more is damage

// Words of one line, separated by spaces.
class LineWriter {
 public:
  LineWriter(std::string* trace, std::string_view event) : trace_(trace) { *trace_ += event; }
  ~LineWriter() { trace_->push_back('\n'); }
  template <typename... T>
  void Add(const T&... values) {
    (AddWord(values), ...);
  }
  void AddTree(const DraftTree& tree) {
    Add(tree.size());
    for (const DraftNode& node : tree.nodes)
      Add(node.token, node.parent, node.confidence, node.is_probe ? 1 : 0);
  }
  void AddBudget(const DraftBudget& budget) {
    Add("=", budget.max_tokens, budget.max_depth, budget.max_width, budget.max_catch_up,
        budget.spare_choices);
  }
  void AddKept(const std::vector<bool>& kept) {
    Add("=");
    for (const bool is_kept : kept) Add(is_kept ? 1 : 0);
  }

 private:
  template <typename Integer>
  void AddWord(Integer value) {
    *trace_ += ' ';
    *trace_ += std::to_string(value);
  }
  void AddWord(float value) { *trace_ += fmt::format(" {}", value); }
  void AddWord(double value) { *trace_ += fmt::format(" {}", value); }
  void AddWord(const char* word) { (*trace_ += ' ') += word; }

  std::string* const trace_;
};

class LineReader {
 public:
  explicit LineReader(const std::string& line) : words_(line) {}
  template <typename... T>
  bool Read(T*... values) {
    return (static_cast<bool>(words_ >> *values) && ...);
  }
  // A length, then that many items.
  template <typename Item, typename ReadItem>
  bool ReadList(std::vector<Item>* items, ReadItem read_item) {
    size_t size = 0;
    if (!Read(&size) || size > kMostListed) return false;
    items->resize(size);
    for (Item& item : *items)
      if (!read_item(&item)) return false;
    return true;
  }
  bool ReadTree(DraftTree* tree) {
    int32_t next = 0;
    return ReadList(&tree->nodes, [&](DraftNode* node) {
      const bool is_read = Read(&node->token, &node->parent, &node->confidence, &node->is_probe);
      return is_read && node->parent >= kRoot && node->parent < next++;
    });
  }
  // What stands behind the sign of equality.
  bool ReadChoice(std::string* choice) {
    std::string sign;
    if (!Read(&sign) || sign != "=") return false;
    std::getline(words_, *choice);
    return true;
  }

 private:
  std::istringstream words_;
};

class Replay {
 public:
  absl::StatusOr<ReplayReport> Run(std::string_view trace) {
    std::istringstream lines{std::string(trace)};
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      if (line_ == 1 ? line == kHeader : Event(line)) continue;
      return absl::InvalidArgumentError(
          fmt::format("controller trace, line {}: not understood: {}", line_, line.substr(0, 60)));
    }
    if (controller_ == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("controller trace: expected '{}' and the options", kHeader));
    }
    return std::move(report_);
  }

 private:
  bool Event(const std::string& line) {
    LineReader reader(line);
    std::string event;
    if (!reader.Read(&event)) return false;
    if (event == "options") return Options(reader);
    if (controller_ == nullptr) return false;
    if (event == "request") return Request(reader);
    if (event == "step") return Step(reader);
    if (event == "budget") return Budget(reader);
    if (event == "select") return Select(reader);
    return event == "update" && Update(reader);
  }

  bool Options(LineReader& reader) {
    AdaptiveOptions options;
    const bool is_read =
        reader.Read(&options.max_tokens) &&
        reader.ReadList(&options.drafters,
                        [&](AdaptiveDrafter* drafter) {
                          return reader.Read(&drafter->width, &drafter->costs_per_token,
                                             &drafter->pass_ms);
                        }) &&
        reader.ReadList(&options.verify_cost,
                        [&](RowCost* cost) { return reader.Read(&cost->rows, &cost->ms); });
    if (!is_read || controller_ != nullptr) return false;
    num_drafters_ = options.drafters.size();
    controller_ = MakeAdaptiveController(options);
    return true;
  }

  bool Request(LineReader& reader) {
    RequestOutlook outlook;
    if (!reader.Read(&outlook.prompt_tokens, &outlook.cached_prompt_tokens, &outlook.prefill_ms))
      return false;
    controller_->BeginRequest(outlook);
    return true;
  }

  bool Step(LineReader& reader) {
    StepOutlook outlook;
    if (!reader.Read(&outlook.num_tokens, &outlook.tokens_left)) return false;
    controller_->BeginStep(outlook);
    ++report_.num_steps;
    return true;
  }

  bool Budget(LineReader& reader) {
    size_t drafter = 0;
    DraftTree so_far;
    std::string recorded;
    if (!reader.Read(&drafter) || drafter >= num_drafters_ || !reader.ReadTree(&so_far) ||
        !reader.ReadChoice(&recorded)) {
      return false;
    }
    std::string chosen;
    LineWriter(&chosen, "")
        .AddBudget(controller_->BudgetFor(static_cast<int32_t>(drafter), so_far));
    Compare(recorded, chosen);
    return true;
  }

  bool Select(LineReader& reader) {
    int32_t max_tokens = 0;
    DraftTree merged;
    std::string recorded;
    if (!reader.Read(&max_tokens) || !reader.ReadTree(&merged) || !reader.ReadChoice(&recorded))
      return false;
    std::string chosen;
    LineWriter(&chosen, "").AddKept(controller_->Select(merged, max_tokens));
    Compare(recorded, chosen);
    return true;
  }

  bool Update(LineReader& reader) {
    StepStats stats;
    const auto read_outcome = [&](NodeOutcome* outcome) {
      return reader.Read(&outcome->depth, &outcome->confidence, &outcome->is_accepted) &&
             outcome->depth >= 1;
    };
    const auto read_drafter = [&](DrafterStep* step) {
      return reader.Read(&step->was_called, &step->num_proposed, &step->num_levels,
                         &step->num_submitted, &step->num_accepted, &step->draft_ms,
                         &step->observe_ms) &&
             (step->num_proposed == 0 || step->num_levels >= 1) &&
             reader.ReadList(&step->outcomes, read_outcome);
    };
    if (!reader.Read(&stats.num_tokens, &stats.num_drafted, &stats.num_tested, &stats.num_accepted,
                     &stats.num_committed, &stats.draft_ms, &stats.verify_ms, &stats.total_ms,
                     &stats.root_confidence) ||
        !reader.ReadList(&stats.drafters, read_drafter) || stats.drafters.size() != num_drafters_) {
      return false;
    }
    controller_->Update(stats);
    return true;
  }

  // `chosen` is " = choice\n" as a LineWriter leaves it.
  void Compare(const std::string& recorded, const std::string& chosen) {
    ++report_.num_choices;
    const std::string choice = chosen.substr(2, chosen.size() - 3);
    if (choice == recorded) return;
    report_.differences.push_back(
        fmt::format("line {}: expected{}, found{}", line_, recorded, choice));
  }

  std::unique_ptr<AdaptiveController> controller_;
  size_t num_drafters_ = 0;
  int64_t line_ = 0;
  ReplayReport report_;
};

}  // namespace

absl::StatusOr<ReplayReport> ReplayTrace(std::string_view trace) { return Replay().Run(trace); }

TraceRecorder::TraceRecorder(AdaptiveController& controller, std::string* trace)
    : controller_(controller), trace_(trace) {
  const AdaptiveOptions& options = controller.Options();
  *trace_ += fmt::format("{}\n", kHeader);
  LineWriter line(trace_, "options");
  line.Add(options.max_tokens, options.drafters.size());
  for (const AdaptiveDrafter& drafter : options.drafters)
    line.Add(drafter.width, drafter.costs_per_token ? 1 : 0, drafter.pass_ms);
  line.Add(options.verify_cost.size());
  for (const RowCost& cost : options.verify_cost) line.Add(cost.rows, cost.ms);
}

void TraceRecorder::BeginRequest(const RequestOutlook& outlook) {
  LineWriter(trace_, "request")
      .Add(outlook.prompt_tokens, outlook.cached_prompt_tokens, outlook.prefill_ms);
  controller_.BeginRequest(outlook);
}

void TraceRecorder::BeginStep(const StepOutlook& outlook) {
  LineWriter(trace_, "step").Add(outlook.num_tokens, outlook.tokens_left);
  controller_.BeginStep(outlook);
}

DraftBudget TraceRecorder::BudgetFor(int32_t drafter, const DraftTree& so_far) {
  LineWriter line(trace_, "budget");
  line.Add(drafter);
  line.AddTree(so_far);
  const DraftBudget budget = controller_.BudgetFor(drafter, so_far);
  line.AddBudget(budget);
  return budget;
}

std::vector<float> TraceRecorder::AcceptanceOf(int32_t drafter, const DraftTree& own) const {
  return controller_.AcceptanceOf(drafter, own);
}

std::vector<bool> TraceRecorder::Select(const DraftTree& merged, int32_t max_tokens) const {
  LineWriter line(trace_, "select");
  line.Add(max_tokens);
  line.AddTree(merged);
  const std::vector<bool> kept = controller_.Select(merged, max_tokens);
  line.AddKept(kept);
  return kept;
}

void TraceRecorder::Update(const StepStats& stats) {
  {
    LineWriter line(trace_, "update");
    line.Add(stats.num_tokens, stats.num_drafted, stats.num_tested, stats.num_accepted,
             stats.num_committed, stats.draft_ms, stats.verify_ms, stats.total_ms,
             stats.root_confidence, stats.drafters.size());
    for (const DrafterStep& step : stats.drafters) {
      line.Add(step.was_called ? 1 : 0, step.num_proposed, step.num_levels, step.num_submitted,
               step.num_accepted, step.draft_ms, step.observe_ms, step.outcomes.size());
      for (const NodeOutcome& outcome : step.outcomes)
        line.Add(outcome.depth, outcome.confidence, outcome.is_accepted ? 1 : 0);
    }
  }
  controller_.Update(stats);
}

double TraceRecorder::VerifyMs(int32_t num_drafted) const {
  return controller_.VerifyMs(num_drafted);
}

}  // namespace tahmin
