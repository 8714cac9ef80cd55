#include "bench/control/simulation_report.h"

#include <algorithm>
#include <iterator>

#include "base/bootstrap_interval.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace tahmin::bench {
namespace {

using nlohmann::json;

double TokensPerStep(const SimulatedText& text) {
  return static_cast<double>(text.output_tokens - 1) / text.num_steps;
}

size_t LongestName(const std::vector<SimulatedSetting>& settings) {
  size_t longest = 7;
  for (const SimulatedSetting& setting : settings) longest = std::max(longest, setting.name.size());
  return longest;
}

void AddTexts(const SimulatedSetting& setting, std::string* report) {
  fmt::format_to(std::back_inserter(*report),
                 "\n{}\n{:24} {:16} {:>7} {:>7} {:>8} {:>12} {:>12} {:>11}\n", setting.name, "text",
                 "group", "prompt", "output", "speed-up", "tokens/step", "draft share",
                 "draft from");
  for (const SimulatedText& text : setting.texts) {
    fmt::format_to(std::back_inserter(*report),
                   "{:24} {:16} {:7} {:7} {:8.2f} {:12.2f} {:12.2f} {:>11}\n", text.id, text.group,
                   text.prompt_tokens, text.output_tokens, text.Speedup(), TokensPerStep(text),
                   text.draft_ms / text.ms,
                   text.draft_begin > 0 ? std::to_string(text.draft_begin) : "-");
  }
}

void AddCalibration(const SimulatedSetting& setting, std::string* report) {
  fmt::format_to(std::back_inserter(*report), "\n{}\n{:12} {:>8} {:>9} {:>9}\n", setting.name,
                 "drafter", "nodes", "predicted", "accepted");
  for (const DrafterCalibration& drafter : setting.calibration) {
    for (const CalibrationBin& bin : drafter.bins) {
      if (bin.num_nodes == 0) continue;
      const auto nodes = static_cast<double>(bin.num_nodes);
      fmt::format_to(std::back_inserter(*report), "{:12} {:8} {:9.2f} {:9.2f}\n", drafter.drafter,
                     bin.num_nodes, bin.survival_sum / nodes,
                     static_cast<double>(bin.num_accepted) / nodes);
    }
  }
}

json TextsToJson(const SimulatedSetting& setting) {
  json list = json::array();
  for (const SimulatedText& text : setting.texts) {
    list.push_back({{"id", text.id},
                    {"group", text.group},
                    {"prompt_tokens", text.prompt_tokens},
                    {"output_tokens", text.output_tokens},
                    {"speedup", text.Speedup()},
                    {"tokens_per_step", TokensPerStep(text)},
                    {"ms", text.ms},
                    {"draft_ms", text.draft_ms},
                    {"draft_begin", text.draft_begin}});
  }
  return list;
}

json CalibrationToJson(const SimulatedSetting& setting) {
  json object = json::object();
  for (const DrafterCalibration& drafter : setting.calibration) {
    json bins = json::array();
    for (const CalibrationBin& bin : drafter.bins) {
      const auto nodes = static_cast<double>(std::max<int64_t>(1, bin.num_nodes));
      bins.push_back({{"nodes", bin.num_nodes},
                      {"predicted", bin.survival_sum / nodes},
                      {"accepted", static_cast<double>(bin.num_accepted) / nodes}});
    }
    object[drafter.drafter] = bins;
  }
  return object;
}

}  // namespace

SimulationSummary Summarize(const SimulatedSetting& simulated) {
  SimulationSummary summary;
  std::vector<double> speedups;
  std::map<std::string, std::vector<double>> of_group;
  double tokens = 0, steps = 0;
  for (const SimulatedText& text : simulated.texts) {
    const double speedup = text.Speedup();
    if (speedups.empty() || speedup < summary.worst) {
      summary.worst = speedup;
      summary.worst_id = text.id;
    }
    speedups.push_back(speedup);
    of_group[text.group].push_back(speedup);
    tokens += text.output_tokens - 1;
    steps += text.num_steps;
  }
  std::sort(speedups.begin(), speedups.end());
  summary.low = speedups[speedups.size() / 20];
  summary.speedup = GeometricMean(speedups);
  summary.tokens_per_step = tokens / steps;
  for (const auto& [group, values] : of_group) summary.by_group[group] = GeometricMean(values);
  return summary;
}

std::string ToTable(const std::vector<SimulatedSetting>& settings, const ReportParts& parts) {
  std::string report;
  const auto out = std::back_inserter(report);
  const size_t width = LongestName(settings);
  bool has_heading = false;
  for (const SimulatedSetting& setting : settings) {
    const SimulationSummary summary = Summarize(setting);
    if (!has_heading) {
      fmt::format_to(out, "{:{}} {:>8} {:>5} {:>6} {:>12}", "setting", width, "speed-up", "5 %",
                     "worst", "tokens/step");
      for (const auto& [group, speedup] : summary.by_group) fmt::format_to(out, "  {:>5}", group);
      report += "  worst text\n";
      has_heading = true;
    }
    fmt::format_to(out, "{:{}} {:8.3f} {:5.2f} {:6.2f} {:12.2f}", setting.name, width,
                   summary.speedup, summary.low, summary.worst, summary.tokens_per_step);
    for (const auto& [group, speedup] : summary.by_group) {
      fmt::format_to(out, "  {:{}.2f}", speedup, std::max<size_t>(5, group.size()));
    }
    fmt::format_to(out, "  {}\n", summary.worst_id);
  }
  for (const SimulatedSetting& setting : settings) {
    if (parts.texts) AddTexts(setting, &report);
    if (parts.calibration) AddCalibration(setting, &report);
  }
  return report;
}

std::string ToJsonLines(const std::vector<SimulatedSetting>& settings, const ReportParts& parts) {
  std::string lines;
  for (const SimulatedSetting& setting : settings) {
    const SimulationSummary summary = Summarize(setting);
    json object = {{"setting", setting.name},
                   {"speedup", summary.speedup},
                   {"speedup_low", summary.low},
                   {"speedup_worst", summary.worst},
                   {"worst_id", summary.worst_id},
                   {"tokens_per_step", summary.tokens_per_step},
                   {"speedup_by_group", summary.by_group}};
    if (parts.texts) object["texts"] = TextsToJson(setting);
    if (parts.calibration) object["calibration"] = CalibrationToJson(setting);
    lines += object.dump() + "\n";
  }
  return lines;
}

}  // namespace tahmin::bench
