/// What `unisono bench --tune --plot` draws: for each collective and kind of memory, every
/// algorithm's time over the best one's against the size, a band up to kMostBehind, and a ring
/// around what runs. An algorithm has one look in all panels and all plots; below a panel is its
/// key, which also says in words where it was chosen.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "cli/bench/tune.h"
#include "plan/registry.h"
#include "plan/select.h"

namespace unisono::cli {

namespace {

constexpr double kWidth = 300, kHeight = 190, kLeft = 54, kTop = 30, kGapX = 26, kHead = 60, kMostRatio = 4;
constexpr double kKeyTop = 32, kKeyLine = 13,
                 kKeyBottom = 14;  // below the frame: sizes, then a line for each algorithm
constexpr int kColumns = 3;

/// How an algorithm is drawn.
struct Look {
  std::string_view colour, dashes;
};
// Apart for colour-blind eyes, too (Okabe and Ito), and on white.
constexpr std::array<std::string_view, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#000000", "#56b4e9", "#e69f00"};
constexpr std::array<std::string_view, 5> kDashes = {"none", "6 3", "2 2", "8 2 2 2", "12 4"};

/// A look for each name in the table of algorithms, no two alike. Those of one collective differ in
/// colour as far as there are colours.
class Looks {
 public:
  Looks() {
    for (const plan::Algorithm& a : plan::algorithms())
      if (!looks_.contains(a.name)) looks_[a.name] = next(a.name);
  }
  const Look& of(std::string_view name) const { return looks_.at(name); }

 private:
  /// The first that is free, of the colour that the fewest have beside whom it is drawn.
  Look next(std::string_view name) {
    std::map<std::string_view, std::size_t> beside;
    for (const plan::Algorithm& a : plan::algorithms()) {
      if (a.name != name) continue;
      for (const plan::Algorithm& other : plan::algorithms())
        if (other.collective == a.collective && looks_.contains(other.name)) beside[looks_[other.name].colour]++;
    }
    Look best;
    for (const std::string_view dashes : kDashes)
      for (const std::string_view colour : kColours)
        if (!used_.contains({colour, dashes}) && (best.colour.empty() || beside[colour] < beside[best.colour]))
          best = {colour, dashes};
    used_.insert({best.colour, best.dashes});
    return best;
  }

  std::map<std::string_view, Look> looks_;
  std::set<std::pair<std::string_view, std::string_view>> used_;
};

/// One collective and one kind of memory.
class Panel {
 public:
  Panel(std::vector<const TunePoint*> points, const Looks& looks) : points_(std::move(points)), looks_(looks) {
    std::sort(points_.begin(), points_.end(),
              [](const TunePoint* a, const TunePoint* b) { return a->bytes < b->bytes; });
    for (const TunePoint* p : points_)
      for (std::size_t i = 0; i < p->candidates.size(); i++)
        curves_[p->candidates[i].algorithm->name].push_back({p, i});
  }

  /// Of the key, below the frame.
  double key_height() const { return kKeyTop + kKeyLine * static_cast<double>(curves_.size()) + kKeyBottom; }

  /// With the frame's upper left corner there. `number` makes its names unlike other panels'.
  std::string svg(double x, double y, int number) {
    x_ = x, y_ = y;
    return frame(number) + fmt::format("<g clip-path=\"url(#panel{})\">\n{}</g>\n", number, lines()) + rings() + key();
  }

 private:
  struct Place {
    const TunePoint* point;
    std::size_t candidate;
    double ratio() const { return point->ratio(candidate); }
  };

  static double position(std::int64_t bytes) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
  }
  double across(std::int64_t bytes) const {
    const double first = position(points_.front()->bytes), last = position(points_.back()->bytes);
    return x_ + (last > first ? (position(bytes) - first) / (last - first) : 0.5) * kWidth;
  }
  /// Logarithmic from 1 to kMostRatio; what is slower lies above the frame, which cuts it off.
  double up(double ratio) const { return y_ + kHeight * (1 - std::log(std::max(ratio, 1.0)) / std::log(kMostRatio)); }

  std::string frame(int number) const {
    const TunePoint& p = *points_.front();
    std::string text = fmt::format(
        "<clipPath id=\"panel{}\"><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/></clipPath>\n"
        "<text class=\"head\" x=\"{:.0f}\" y=\"{:.0f}\">{}{}</text>\n",
        number, x_ - 4, y_, kWidth + 8, kHeight + 4, x_, y_ - 8, name_of(p.collective),
        p.shared_buffers ? ", shared buffers" : "");
    text += fmt::format(
        "<rect class=\"band\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\"/>\n<rect class=\"frame\" "
        "x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
        x_, up(kMostBehind), kWidth, up(1) - up(kMostBehind), x_, y_, kWidth, kHeight);
    for (const double ratio : {1.0, kMostBehind, 1.5, 2.0, 3.0, kMostRatio})
      text += fmt::format("<text class=\"tick right\" x=\"{:.0f}\" y=\"{:.1f}\">{} x</text>\n", x_ - 9, up(ratio) + 3,
                          ratio);
    constexpr double kLabel = 30;  // wide
    double free = x_ - kLabel;
    for (const TunePoint* point : points_) {
      const double at = across(point->bytes);
      text += fmt::format("<line class=\"frame\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\"/>\n", at,
                          y_ + kHeight, y_ + kHeight + 4);
      if (at < free || point->bytes == 0) continue;
      free = at + kLabel;
      text += fmt::format("<text class=\"tick middle\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", at, y_ + kHeight + 16,
                          plan::format_size(point->bytes));
    }
    return text;
  }

  /// A dot is what was measured; a line leads the eye to the next size, unless it was not measured
  /// there.
  std::string lines() const {
    std::string text;
    for (const auto& [name, places] : curves_) {
      const Look& look = looks_.of(name);
      std::string corners, dots;
      const auto end_line = [&] {
        text += fmt::format("<polyline class=\"line\" stroke=\"{}\" stroke-dasharray=\"{}\" points=\"{}\"/>\n",
                            look.colour, look.dashes, corners);
        corners.clear();
      };
      auto next = points_.begin();
      for (const Place& place : places) {
        if (*next != place.point && !corners.empty()) end_line();
        next = std::ranges::find(points_, place.point) + 1;
        const double cx = across(place.point->bytes), cy = up(place.ratio());
        corners += fmt::format("{:.1f},{:.1f} ", cx, cy);
        dots += fmt::format("<circle class=\"dot\" fill=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>\n", look.colour,
                            cx, cy);
      }
      end_line();
      text += dots;
    }
    return text;
  }

  std::string rings() const {
    std::string text;
    for (const TunePoint* p : points_) {
      const std::size_t runs = p->runs(p->chosen);
      text += fmt::format("<circle class=\"chosen\" stroke=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>\n",
                          looks_.of(p->candidates[runs].algorithm->name).colour, across(p->bytes),
                          up(std::min(p->ratio(runs), kMostRatio)));
    }
    return text;
  }

  /// The sizes of those for which `holds`, neighbours together: "16K-1M, 16M"; "all sizes"; empty.
  template <class Holds>
  std::string sizes_where(const Holds& holds) const {
    std::string text;
    std::size_t number = 0;
    for (std::size_t i = 0; i < points_.size(); i++) {
      if (!holds(*points_[i])) continue;
      std::size_t last = i;
      while (last + 1 < points_.size() && holds(*points_[last + 1])) last++;
      number += last - i + 1;
      text += (text.empty() ? "" : ", ") + plan::format_size(points_[i]->bytes);
      if (last > i) text += "-" + plan::format_size(points_[last]->bytes);
      i = last;
    }
    if (number == points_.size() && number > 1) return "all sizes";
    return text == "0" ? "always" : text;  // a barrier has no size
  }

  /// What an algorithm was chosen for, in words.
  std::string role_of(std::string_view name) const {
    const auto is = [name](const TunePoint& p, std::size_t candidate) {
      return p.candidates[candidate].algorithm->name == name;
    };
    const std::string chosen = sizes_where([&](const TunePoint& p) { return is(p, p.chosen); });
    const std::string rival =
        sizes_where([&](const TunePoint& p) { return p.runs(p.chosen) != p.chosen && is(p, p.runs(p.chosen)); });
    std::string words = chosen.empty() ? "" : "chosen: " + chosen;
    if (!rival.empty()) words += (words.empty() ? "" : "; ") + ("rival, faster: " + rival);
    return words;
  }

  std::string key() const {
    constexpr double kSample = 30, kNameEnd = 140;
    std::string text;
    double y = y_ + kHeight + kKeyTop;
    for (const auto& [name, places] : curves_) {
      const Look& look = looks_.of(name);
      const std::string role = role_of(name);
      const bool off = std::ranges::all_of(places, [](const Place& p) { return p.ratio() > kMostRatio; });
      text += fmt::format(
          "<line class=\"line\" stroke=\"{}\" stroke-dasharray=\"{}\" x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.0f}\" "
          "y2=\"{:.0f}\"/>\n<text class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
          look.colour, look.dashes, x_, x_ + kSample, y, y, role.empty() ? "key" : "key told", x_ + kSample + 6, y + 3,
          name);
      const std::string words = !role.empty() ? role : off ? fmt::format("above {} x, not drawn", kMostRatio) : "";
      if (!words.empty())
        text +=
            fmt::format("<text class=\"tick\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x_ + kNameEnd + 6, y + 3, words);
      y += kKeyLine;
    }
    return text;
  }

  std::vector<const TunePoint*> points_;
  const Looks& looks_;
  std::map<std::string_view, std::vector<Place>> curves_;
  double x_ = 0, y_ = 0;
};

constexpr std::string_view kStyle = R"(<style>
  svg { background: #ffffff } text { font: 10px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-size: 14px; font-weight: 600 } .head { font-size: 12px; font-weight: 600 }
  .tick { font-size: 9px; fill: #57606a } .told { font-weight: 600 }
  .right { text-anchor: end } .middle { text-anchor: middle } .frame { fill: none; stroke: #d0d7de }
  .band { fill: #e6f4ea } .line { fill: none; stroke-width: 1.6 } .chosen { fill: none; stroke-width: 1.8 }
</style>
)";

}  // namespace

std::string plot_svg(const std::vector<TunePoint>& points, const std::string& title) {
  std::map<std::pair<Collective, bool>, std::vector<const TunePoint*>> groups;
  for (const TunePoint& p : points) groups[{p.collective, p.shared_buffers}].push_back(&p);
  const Looks looks;
  std::vector<Panel> panels;
  for (auto& [key, own] : groups) panels.emplace_back(own, looks);

  std::string body;
  double y = kHead;
  for (std::size_t begin = 0; begin < panels.size(); begin += kColumns) {
    double below = 0;
    for (std::size_t i = begin; i < std::min(begin + kColumns, panels.size()); i++) {
      const double x = kLeft + static_cast<double>(i - begin) * (kWidth + kLeft + kGapX);
      body += panels[i].svg(x, y + kTop, static_cast<int>(i));
      below = std::max(below, panels[i].key_height());
    }
    y += kTop + kHeight + below;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}"
      "<text class=\"title\" x=\"10\" y=\"22\">{}: each algorithm's time over the best one's, by bytes</text>\n"
      "<text x=\"10\" y=\"38\">A ring is around what runs: the algorithm that was chosen or, where that was faster, "
      "its rival, "
      "which programs try beside it. Green: up to {} x the best. What is slower than {} x leaves the frame at the "
      "top.</text>\n"
      "<text x=\"10\" y=\"52\">An algorithm has one colour and one kind of line in all panels.</text>\n{}</svg>\n",
      kColumns * (kWidth + kLeft + kGapX) + 10, y, title, kStyle, title, kMostBehind, kMostRatio, body);
}

}  // namespace unisono::cli
