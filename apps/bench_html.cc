#include "apps/bench_html.h"

#include <algorithm>
#include <cstddef>

#include "apps/bench_report.h"
#include "apps/markup.h"
#include "apps/svg_chart.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr char kStyle[] =
    "body{font:15px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 "
    "1em;color:#222}"
    "svg{width:100%;font-size:12px}table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:3px 9px;border-bottom:1px solid #ddd;text-align:right}"
    "td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}"
    ".bad{color:#b00;font-weight:bold}";

// The drafters but plain decoding, and the groups, each in the order of the cells.
struct Names {
  std::vector<std::string> drafters, groups;
};

Names Collect(const std::vector<BenchCell>& cells) {
  Names names;
  const auto add = [](const std::string& name, std::vector<std::string>* to) {
    if (std::find(to->begin(), to->end(), name) == to->end()) to->push_back(name);
  };
  for (const BenchCell& cell : cells) {
    if (cell.drafter != "none") add(cell.drafter, &names.drafters);
    add(cell.group, &names.groups);
  }
  return names;
}

const BenchCell& Find(const std::vector<BenchCell>& cells, const std::string& drafter,
                      const std::string& group) {
  return *std::find_if(cells.begin(), cells.end(), [&](const BenchCell& cell) {
    return cell.drafter == drafter && cell.group == group;
  });
}

std::string SpeedupChart(const std::vector<BenchCell>& cells, const Names& names) {
  std::vector<BarSeries> series;
  for (const std::string& drafter : names.drafters) {
    BarSeries& bars = series.emplace_back();
    bars.name = drafter;
    for (const std::string& group : names.groups) {
      const BenchCell& cell = Find(cells, drafter, group);
      bars.values.push_back(cell.speedup);
      bars.lows.push_back(cell.interval.low);
      bars.highs.push_back(cell.interval.high);
    }
  }
  return BarChart(names.groups, series, 1.0, "speed-up over plain decoding");
}

std::string AcceptanceChart(const std::vector<BenchCell>& cells, const Names& names) {
  std::vector<LineSeries> series;
  for (const std::string& drafter : names.drafters) {
    LineSeries& line = series.emplace_back();
    line.name = drafter;
    line.y = Find(cells, drafter, kAllGroups).acceptance_by_depth;
    for (size_t i = 0; i < line.y.size(); ++i) line.x.push_back(static_cast<double>(i + 1));
  }
  return LineChart(series, "depth in the draft", "accepted / tested", 1.0);
}

std::string CostChart(const GroupCurves& curves) {
  std::vector<LineSeries> series;
  for (const auto& [group, curve] : curves) {
    LineSeries& line = series.emplace_back();
    line.name = group;
    for (const VerifyCostCurve::Point& point : curve.points) {
      line.x.push_back(point.rows);
      line.y.push_back(point.cost);
    }
  }
  return LineChart(series, "rows n in one pass", "T(n) / T(1)");
}

std::string Table(const std::vector<BenchCell>& cells) {
  std::string table =
      "<table><tr><th>drafter</th><th>group</th><th>prompts</th><th>speed-up (95 "
      "%)</th><th>predicted</th>"
      "<th>worst prompt</th><th>tokens/s</th><th>tokens/step</th><th>accepted</th><th>different "
      "text</th></tr>\n";
  for (const BenchCell& cell : cells) {
    const std::string worst =
        cell.num_prompts == 0 ? "-" : fmt::format("{:.2f} {}", cell.worst, cell.worst_id);
    table += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</"
        "td><td>{:.2f}</td>"
        "<td>{}</td><td{}>{}</td></tr>\n",
        EscapeMarkup(cell.drafter), EscapeMarkup(cell.group), cell.num_prompts, FormatSpeedup(cell),
        cell.predicted_speedup > 0 ? fmt::format("{:.2f}", cell.predicted_speedup) : "-",
        EscapeMarkup(worst), cell.tokens_per_second, cell.tokens_per_step,
        cell.drafted > 0 ? fmt::format("{:.1f} %", 100 * cell.acceptance) : "-",
        cell.num_different > 0 ? " class=\"bad\"" : "", cell.num_different);
  }
  return table + "</table>\n";
}

}  // namespace

std::string BenchPage(const BenchHeading& heading, const std::vector<BenchCell>& cells,
                      const GroupCurves& curves) {
  const Names names = Collect(cells);
  const std::string model =
      heading.draft.empty() ? heading.target : heading.target + ", draft model " + heading.draft;
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>tahmin "
      "bench</title><style>{}"
      "</style></head><body>\n<h1>Speculative decoding against plain decoding</h1>\n<p>{}<br/>{} "
      "threads, {}, "
      "{} rounds, {} tokens a run, temperature {:g}. Token ids are compared with plain decoding's "
      "before a time "
      "counts.</p>\n",
      kStyle, EscapeMarkup(model), heading.num_threads, EscapeMarkup(heading.isa), heading.rounds,
      heading.max_tokens, heading.temperature);
  page +=
      "<h2>Speed-up by group</h2>\n" + SpeedupChart(cells, names) +
      "<p>Geometric mean over prompts of the median over rounds, each against the plain run of its "
      "round. "
      "Whiskers: 95 % bootstrap interval over prompts and rounds. Dashed: plain decoding.</p>\n";
  page += "<h2>Acceptance by depth</h2>\n" + AcceptanceChart(cells, names) +
          "<p>Of the draft tokens that the acceptance rule looked at, the share that it kept; all "
          "groups.</p>\n";
  page += "<h2>What a pass over n rows costs</h2>\n" + CostChart(curves) +
          "<p>Measured after the runs, each group at its mean context.</p>\n";
  page += "<h2>All figures</h2>\n" + Table(cells) +
          "<p>predicted: tokens/step over the cost of a step, out of T(n) and the time spent "
          "drafting, both in units "
          "of a plain step.</p>\n</body></html>\n";
  return page;
}

}  // namespace tahmin::cli
