#include "apps/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "apps/markup.h"
#include "fmt/format.h"

namespace tahmin::cli {

namespace {

constexpr double kWidth = 960, kHeight = 320, kLeft = 60, kRight = 20, kTop = 40, kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

// A round number of the form 1, 2 or 5 times a power of ten with at most eight steps up to `max`.
double TickStep(double max) {
  double step = std::pow(10, std::floor(std::log10(max)) - 1);
  for (int i = 0; max / step > 8; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

std::string Text(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     EscapeMarkup(text));
}

std::string Line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

// The same index, the same colour in every chart of a report.
std::string SeriesColor(size_t index) {
  constexpr std::array<const char*, 8> kPalette = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                   "#56b4e9", "#d55e00", "#999933", "#555555"};
  return kPalette[index % kPalette.size()];
}

// The frame that both kinds of chart share: y axis with ticks and the label.
class Frame {
 public:
  Frame(double y_max, std::string_view y_label) : y_max_(y_max) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
        "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n",
        kWidth, kHeight);
    const double step = TickStep(y_max);
    for (int i = 0; i * step <= y_max * 1.0001; ++i) {
      svg_ += Line(kLeft, Y(i * step), kWidth - kRight, Y(i * step), "stroke=\"#ddd\"");
      svg_ += Text(kLeft - 6, Y(i * step) + 4, "end", fmt::format("{:.6g}", i * step));
    }
    svg_ += fmt::format(
        "<text transform=\"translate(16 {:.1f}) rotate(-90)\" "
        "text-anchor=\"middle\">{}</text>\n",
        kTop + kPlotHeight / 2, EscapeMarkup(y_label));
  }
  double Y(double value) const {
    return kTop + kPlotHeight * (1 - std::clamp(value / y_max_, 0.0, 1.0));
  }
  void Add(const std::string& markup) { svg_ += markup; }
  // One more name in the legend above the plot.
  void AddName(size_t index, std::string_view name) {
    constexpr double kCharacterWidth = 7.5;
    Add(fmt::format("<rect x=\"{:.1f}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                    name_x_, SeriesColor(index)));
    Add(Text(name_x_ + 17, 20, "start", name));
    name_x_ += 35 + kCharacterWidth * static_cast<double>(name.size());
  }
  std::string Finish() { return svg_ + "</svg>\n"; }

 private:
  double y_max_;
  double name_x_ = kLeft;
  std::string svg_;
};

}  // namespace

std::string BarChart(const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, double reference,
                     std::string_view y_label) {
  double highest = reference;
  for (const BarSeries& bars : series)
    for (size_t i = 0; i < categories.size(); ++i)
      highest = std::max({highest, bars.values[i], bars.highs[i]});
  Frame frame(highest * 1.05, y_label);
  for (size_t k = 0; k < series.size(); ++k) frame.AddName(k, series[k].name);
  const double group_width = kPlotWidth / std::max<size_t>(1, categories.size());
  const double bar_width = 0.8 * group_width / std::max<size_t>(1, series.size());
  for (size_t i = 0; i < categories.size(); ++i) {
    const double group_left = kLeft + group_width * (i + 0.1);
    for (size_t k = 0; k < series.size(); ++k) {
      const BarSeries& bars = series[k];
      if (bars.values[i] <= 0) continue;
      const double x = group_left + bar_width * k, y = frame.Y(bars.values[i]);
      frame.Add(
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                      "fill=\"{}\"><title>{} {}: {:.2f}</title></rect>\n",
                      x, y, 0.9 * bar_width, frame.Y(0) - y, SeriesColor(k),
                      EscapeMarkup(bars.name), EscapeMarkup(categories[i]), bars.values[i]));
      frame.Add(Line(x + 0.45 * bar_width, frame.Y(bars.lows[i]), x + 0.45 * bar_width,
                     frame.Y(bars.highs[i]), "stroke=\"#222\""));
    }
    frame.Add(
        Text(kLeft + group_width * (i + 0.5), kHeight - kBottom + 18, "middle", categories[i]));
  }
  frame.Add(Line(kLeft, frame.Y(reference), kWidth - kRight, frame.Y(reference),
                 "stroke=\"#222\" stroke-dasharray=\"6 4\""));
  return frame.Finish();
}

std::string LineChart(const std::vector<LineSeries>& series, std::string_view x_label,
                      std::string_view y_label, double y_max) {
  double x_max = 1, highest = y_max;
  for (const LineSeries& line : series) {
    for (const double x : line.x) x_max = std::max(x_max, x);
    for (const double y : line.y)
      if (y_max == 0) highest = std::max(highest, 1.05 * y);
  }
  Frame frame(highest > 0 ? highest : 1, y_label);
  const auto x_at = [&](double x) { return kLeft + kPlotWidth * x / (1.02 * x_max); };
  const double step = std::max(1.0, TickStep(x_max));
  for (int i = 0; i * step <= x_max; ++i)
    frame.Add(
        Text(x_at(i * step), kHeight - kBottom + 18, "middle", fmt::format("{:.6g}", i * step)));
  frame.Add(Text(kLeft + kPlotWidth / 2, kHeight - kBottom + 38, "middle", x_label));
  for (size_t k = 0; k < series.size(); ++k) {
    frame.AddName(k, series[k].name);
    std::string points;
    for (size_t i = 0; i < series[k].x.size(); ++i) {
      const double x = x_at(series[k].x[i]), y = frame.Y(series[k].y[i]);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      frame.Add(fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: "
          "{:.6g}, {:.3g}</title></circle>\n",
          x, y, SeriesColor(k), EscapeMarkup(series[k].name), series[k].x[i], series[k].y[i]));
    }
    frame.Add(fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", points,
                          SeriesColor(k)));
  }
  return frame.Finish();
}

}  // namespace tahmin::cli
