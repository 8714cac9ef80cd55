// Small charts as SVG text, for reports that open in a browser without a network; each is a file of
// its own too, its legend included.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tahmin::cli {

struct BarSeries {
  std::string name;
  // By category. A value <= 0 draws no bar; low and high are the ends of its whisker.
  std::vector<double> values, lows, highs;
};

// Groups of bars over `categories`, with a dashed line at `reference` (plain decoding).
std::string BarChart(const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, double reference,
                     std::string_view y_label);

struct LineSeries {
  std::string name;
  std::vector<double> x, y;
};

// Lines with a dot a point; both axes start at 0. `y_max` 0: as high as the points.
std::string LineChart(const std::vector<LineSeries>& series, std::string_view x_label,
                      std::string_view y_label, double y_max = 0);

}  // namespace tahmin::cli
