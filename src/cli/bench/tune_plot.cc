/// What `unisono bench --tune --plot` draws: for each collective, every algorithm's time over the best one's against the size, a band up to
/// 1.15, and a ring around what was chosen.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "cli/bench/tune.h"
#include "plan/select.h"

namespace unisono::cli {

namespace {

constexpr double kWidth = 300, kHeight = 190, kLeft = 44, kTop = 30, kGapX = 26, kGapY = 66, kMostRatio = 4;
constexpr int kColumns = 3;
constexpr std::array<std::string_view, 8> kColours = {"#0969da", "#cf222e", "#1a7f37", "#9a6700",
                                                      "#8250df", "#bf3989", "#1b7c83", "#57606a"};

/// One collective and one kind of memory.
class Panel {
 public:
  Panel(std::vector<const TunePoint*> points, double x, double y) : points_(std::move(points)), x_(x), y_(y) {
    std::sort(points_.begin(), points_.end(),
              [](const TunePoint* a, const TunePoint* b) { return a->bytes < b->bytes; });
  }

  std::string svg() const { return frame() + lines() + rings(); }

 private:
  double across(std::int64_t bytes) const {
    const double first = position(points_.front()->bytes), last = position(points_.back()->bytes);
    return x_ + (last > first ? (position(bytes) - first) / (last - first) : 0.5) * kWidth;
  }
  static double position(std::int64_t bytes) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
  }
  /// Logarithmic from 1 to kMostRatio; what is slower lies on the edge.
  double up(double ratio) const {
    return y_ + kHeight * (1 - std::log(std::clamp(ratio, 1.0, kMostRatio)) / std::log(kMostRatio));
  }

  std::string frame() const {
    const TunePoint& p = *points_.front();
    std::string text = fmt::format(
        "<text class=\"head\" x=\"{:.0f}\" y=\"{:.0f}\">{}{}</text>\n<rect class=\"band\" x=\"{:.0f}\" y=\"{:.1f}\" "
        "width=\"{:.0f}\" height=\"{:.1f}\"/>\n<rect class=\"frame\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" "
        "height=\"{:.0f}\"/>\n",
        x_, y_ - 8, name_of(p.collective), p.shared_buffers ? ", shared buffers" : "", x_, up(1.15), kWidth,
        up(1) - up(1.15), x_, y_, kWidth, kHeight);
    for (const double ratio : {1.0, 1.15, 1.5, 2.0, 3.0, 4.0})
      text +=
          fmt::format("<text class=\"tick right\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n", x_ - 5, up(ratio) + 4, ratio);
    for (const TunePoint* point : points_)
      text += fmt::format("<text class=\"tick middle\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", across(point->bytes),
                          y_ + kHeight + 14, plan::format_size(point->bytes));
    return text;
  }

  std::map<std::string_view, std::string> curves() const {
    std::map<std::string_view, std::string> curves;
    for (const TunePoint* p : points_)
      for (std::size_t i = 0; i < p->candidates.size(); i++)
        curves[p->candidates[i].algorithm->name] += fmt::format("{:.1f},{:.1f} ", across(p->bytes), up(p->ratio(i)));
    return curves;
  }

  std::string lines() const {
    std::string text;
    std::size_t number = 0;
    double at = x_;
    for (const auto& [name, places] : curves()) {
      const std::string_view colour = kColours[number++ % kColours.size()];
      text += fmt::format("<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n", colour, places);
      const double wide = 5.2 * static_cast<double>(name.size()) + 10;
      const bool wraps = at + wide > x_ + kWidth + kGapX && at > x_;
      if (wraps) at = x_;
      row_ += wraps;
      text += fmt::format("<text class=\"tick\" x=\"{:.0f}\" y=\"{:.0f}\" style=\"fill:{}\">{}</text>\n", at,
                          y_ + kHeight + 28 + 11 * row_, colour, name);
      at += wide;
    }
    return text;
  }

  std::string rings() const {
    std::string text;
    for (const TunePoint* p : points_)
      text += fmt::format("<circle class=\"chosen\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"/>\n", across(p->bytes),
                          up(p->behind(p->chosen)));
    return text;
  }

  std::vector<const TunePoint*> points_;
  double x_, y_;
  mutable int row_ = 0;
};

constexpr std::string_view kStyle = R"(<style>
  svg { background: #ffffff } text { font: 10px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 } .head { font-size: 12px; font-weight: 600 } .tick { font-size: 9px; fill: #57606a }
  .right { text-anchor: end } .middle { text-anchor: middle } .frame { fill: none; stroke: #d0d7de } .band { fill: #dafbe1 }
  .line { fill: none; stroke-width: 1.4 } .chosen { fill: none; stroke: #1f2328; stroke-width: 1.4 }
</style>
)";

}  // namespace

std::string plot_svg(const std::vector<TunePoint>& points, const std::string& title) {
  std::map<std::pair<Collective, bool>, std::vector<const TunePoint*>> groups;
  for (const TunePoint& p : points) groups[{p.collective, p.shared_buffers}].push_back(&p);
  std::string body;
  int number = 0;
  for (const auto& [key, own] : groups) {
    const int column = number % kColumns, row = number / kColumns;
    const double x = kLeft + column * (kWidth + kLeft + kGapX), y = 40 + kTop + row * (kHeight + kTop + kGapY);
    body += Panel(own, x, y).svg();
    number++;
  }
  const int rows = (number + kColumns - 1) / kColumns;
  const double height = 40 + rows * (kHeight + kTop + kGapY);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n{}<text class=\"title\" "
      "x=\"10\" y=\"22\">{}: time over the best algorithm's, by bytes; ring: chosen; green: up to "
      "1.15</text>\n{}</svg>\n",
      kColumns * (kWidth + kLeft + kGapX) + 10, height, title, kStyle, title, body);
}

}  // namespace unisono::cli
