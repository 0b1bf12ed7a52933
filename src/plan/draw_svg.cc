#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/draw.h"
#include "plan/draw_events.h"

namespace unisono::plan {

namespace {

constexpr double kLeft = 92, kTop = 74, kRight = 40, kBottom = 54;
constexpr double kLine = 15;     // height of a line of text
constexpr double kLetter = 7.0;  // width of a letter
constexpr double kTitle = 9.7;   // width of a letter of the title

double text_width(std::string_view text) { return static_cast<double>(text.size()) * kLetter; }

// Colours of equal lightness around the wheel, neighbours far apart (hue by the golden angle), as "#rrggbb".
std::string colour_of(std::int32_t rank) {
  constexpr double kLightness = 0.40, kSaturation = 0.62;
  const double hue = std::fmod(212.0 + rank * 137.508, 360.0) / 30;
  const auto channel = [&](double n) {
    const double k = std::fmod(n + hue, 12);
    const double light = kLightness - kSaturation * kLightness * std::clamp(std::min(k - 3, 9 - k), -1.0, 1.0);
    return static_cast<int>(std::lround(light * 255));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(8), channel(4));
}

class Drawing {
 public:
  explicit Drawing(std::span<const Plan> plans) : plans_(plans), events_(events_of(plans)) {
    std::size_t lines = 1;
    std::size_t messages = 0;
    for (const auto& rank : events_.work) {
      for (const auto& round : rank) {
        lines = std::max(lines, round.size());
        for (const auto& line : round) box_ = std::max(box_, text_width(line) + 14);
      }
    }
    double label = 0;
    for (const Arrow& arrow : events_.arrows) {
      label = std::max(label, text_width(arrow.blocks));
      messages += arrow.signal ? 0 : 1;
    }
    column_ = box_ + std::clamp(label * 1.6 + 70, 110.0, 320.0);
    lane_ = std::max(66.0, static_cast<double>(lines) * kLine + 34);
    legend_ = messages > 0 ? "arrows: messages and their blocks" : "dashed arrows: signals";
    if (reduces(plans.front().collective)) legend_ += "; + adds to a partial sum, = completes one";
  }

  std::string run() {
    open();
    grid();
    // Arrows first, so that boxes and labels stay legible above them.
    for (const Arrow& arrow : events_.arrows) draw(arrow);
    for (std::size_t r = 0; r < plans_.size(); r++) {
      for (std::int32_t t = 0; t <= events_.rounds; t++) draw_work(r, t);
    }
    svg_ += labels_;
    return svg_ + "</svg>\n";
  }

 private:
  double x(double round) const { return kLeft + box_ / 2 + round * column_; }
  double y(std::size_t rank) const { return kTop + (static_cast<double>(rank) + 0.5) * lane_; }
  double width() const { return x(events_.rounds) + box_ / 2 + kRight; }
  double height() const { return kTop + static_cast<double>(plans_.size()) * lane_ + kBottom; }

  void open() {
    const Plan& first = plans_.front();
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"11.5\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        std::max({width(), 16 + text_width(legend_) + 24, kTitle * 46}), height());
    const std::string root = rooted(first.collective) ? fmt::format(", root {}", first.shape.root) : "";
    text(kLeft - 76, 28,
         fmt::format("{} {}, {} ranks{}", name_of(first.collective), first.algorithm, plans_.size(), root),
         "font-size=\"16\" font-weight=\"bold\"");
    text(kLeft - 76, height() - 18, legend_, "fill=\"#666\"");
  }

  void grid() {
    for (std::size_t r = 0; r < plans_.size(); r++) {
      if (r % 2 == 0) {
        svg_ += fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"100%\" height=\"{:.1f}\" fill=\"#f6f7f9\"/>\n",
                            y(r) - lane_ / 2, lane_);
      }
      svg_ += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#c9ced6\"/>\n", x(0),
                          x(events_.rounds), y(r), y(r));
      text(16, y(r) + 4, fmt::format("rank {}", r),
           fmt::format("font-weight=\"bold\" fill=\"{}\"", colour_of(static_cast<std::int32_t>(r))));
    }
    const std::string_view word = plans_.front().staged ? "phase" : "round";
    for (std::int32_t t = 1; t <= events_.rounds; t++) {
      text(x(t - 0.5), kTop - 14, fmt::format("{} {}", word, t), "text-anchor=\"middle\" fill=\"#666\"");
    }
  }

  // From the right edge of one box to the left edge of another.
  void draw(const Arrow& arrow) {
    const auto from = static_cast<std::size_t>(arrow.from), to = static_cast<std::size_t>(arrow.to);
    const double x1 = x(arrow.start) + half_box(from, arrow.start), y1 = y(from);
    const double x2 = x(arrow.end) - half_box(to, arrow.end) - 1, y2 = y(to);
    const std::string colour = arrow.signal ? "#9aa3af" : colour_of(arrow.from);
    const std::string_view style =
        arrow.signal ? "stroke-dasharray=\"4 3\" stroke-width=\"1\"" : "stroke-width=\"1.6\"";
    svg_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" {}/>\n", x1, y1,
                        x2, y2, colour, style);
    const double length = std::hypot(x2 - x1, y2 - y1), dx = (x2 - x1) / length, dy = (y2 - y1) / length;
    svg_ += fmt::format("<path d=\"M{:.1f} {:.1f} L{:.1f} {:.1f} L{:.1f} {:.1f} Z\" fill=\"{}\"/>\n", x2, y2,
                        x2 - 8 * dx + 3.2 * dy, y2 - 8 * dy - 3.2 * dx, x2 - 8 * dx - 3.2 * dy, y2 - 8 * dy + 3.2 * dx,
                        colour);
    if (!arrow.blocks.empty()) label(arrow, x1, y1, dx, dy);
  }

  // On the arrow, a fixed way from its start: there arrows of different senders have not met yet.
  void label(const Arrow& arrow, double x1, double y1, double dx, double dy) {
    const double reach =
        std::min(lane_ * 0.36 / std::max(std::abs(dy), 0.05), (text_width(arrow.blocks) / 2 + 10) / std::max(dx, 0.2));
    const double cx = x1 + dx * reach, cy = y1 + dy * reach, w = text_width(arrow.blocks) + 6;
    labels_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" rx=\"3\" fill=\"#fff\" "
        "fill-opacity=\"0.9\"/>\n",
        cx - w / 2, cy - 7, w);
    labels_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n", cx, cy + 4,
                           colour_of(arrow.from), escaped(arrow.blocks));
  }

  double half_box(std::size_t rank, std::int32_t t) const {
    const auto& lines = events_.work[rank][static_cast<std::size_t>(t)];
    if (lines.empty()) return 4;
    double widest = 0;
    for (const auto& line : lines) widest = std::max(widest, text_width(line) + 14);
    return widest / 2;
  }

  void draw_work(std::size_t rank, std::int32_t t) {
    const auto& lines = events_.work[rank][static_cast<std::size_t>(t)];
    const double cx = x(t), cy = y(rank), half = half_box(rank, t);
    if (lines.empty()) {
      svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#aab1bc\"/>\n", cx, cy);
      return;
    }
    const double h = static_cast<double>(lines.size()) * kLine + 8;
    const bool completes = std::ranges::any_of(lines, [](const std::string& line) { return line.starts_with('='); });
    svg_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"1.2\"/>\n",
        cx - half, cy - h / 2, 2 * half, h, completes ? "#e7f4e8" : "#fff", completes ? "#3c8a45" : "#8b95a3");
    for (std::size_t i = 0; i < lines.size(); i++) {
      text(cx, cy - h / 2 + 4 + kLine * static_cast<double>(i) + 11.5, lines[i], "text-anchor=\"middle\"");
    }
  }

  void text(double at_x, double at_y, std::string_view words, std::string_view attributes) {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", at_x, at_y, attributes, escaped(words));
  }

  static std::string escaped(std::string_view words) {
    std::string result;
    for (const char c : words) {
      if (c == '<')
        result += "&lt;";
      else if (c == '>')
        result += "&gt;";
      else if (c == '&')
        result += "&amp;";
      else
        result += c;
    }
    return result;
  }

  std::span<const Plan> plans_;
  Events events_;
  double box_ = 12, column_ = 0, lane_ = 0;
  std::string legend_;
  std::string svg_, labels_;
};

}  // namespace

std::string draw_svg(std::span<const Plan> plans) { return Drawing(plans).run(); }

}  // namespace unisono::plan
