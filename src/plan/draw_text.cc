#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/draw.h"
#include "plan/draw_events.h"

namespace unisono::plan {

namespace {

using Cell = std::vector<std::string>;  // lines
using Row = std::vector<Cell>;          // by rank

// What happens in round `t`: the messages that are on their way, then the work that they make possible.
Row row_of(const Events& events, std::int32_t t, std::size_t ranks) {
  Row row(ranks);
  for (const Arrow& arrow : events.arrows) {
    if (arrow.signal) continue;
    const std::string blocks = arrow.blocks.empty() ? "" : ": " + arrow.blocks;
    if (arrow.start + 1 == t)
      row[static_cast<std::size_t>(arrow.from)].push_back(fmt::format("to {}{}", arrow.to, blocks));
  }
  for (const Arrow& arrow : events.arrows) {
    if (arrow.end != t) continue;
    Cell& cell = row[static_cast<std::size_t>(arrow.to)];
    const std::string blocks = arrow.blocks.empty() ? "" : ": " + arrow.blocks;
    if (!arrow.signal) {
      cell.push_back(fmt::format("from {}{}", arrow.from, blocks));
    } else if (!cell.empty() && cell.back().starts_with("wait")) {
      cell.back() += fmt::format(" {}", arrow.from);
    } else {
      cell.push_back(fmt::format("wait {}", arrow.from));
    }
  }
  for (std::size_t r = 0; r < ranks; r++) {
    for (const std::string& line : events.work[r][static_cast<std::size_t>(t)]) row[r].push_back(line);
  }
  return row;
}

}  // namespace

std::string draw_text(std::span<const Plan> plans) {
  const Events events = events_of(plans);
  const Plan& first = plans.front();
  std::vector<std::size_t> width(plans.size());
  std::vector<Row> rows;
  for (std::int32_t t = 0; t <= events.rounds; t++) rows.push_back(row_of(events, t, plans.size()));
  for (std::size_t r = 0; r < plans.size(); r++) {
    width[r] = fmt::format("rank {}", r).size();
    for (const Row& row : rows) {
      for (const std::string& line : row[r]) width[r] = std::max(width[r], line.size());
    }
  }

  std::string text =
      fmt::format("{} {}, {} ranks: {} {}{}\n\n", name_of(first.collective), first.algorithm, plans.size(),
                  events.rounds, first.staged ? "phase" : "round", events.rounds == 1 ? "" : "s");
  text += fmt::format("{:<7}", first.staged ? "phase" : "round");
  for (std::size_t r = 0; r < plans.size(); r++) text += fmt::format("  {:<{}}", fmt::format("rank {}", r), width[r]);
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
  for (std::size_t t = 0; t < rows.size(); t++) {
    std::size_t height = 0;
    for (const Cell& cell : rows[t]) height = std::max(height, cell.size());
    for (std::size_t line = 0; line < height; line++) {
      std::string out = fmt::format("{:<7}", line == 0 ? std::to_string(t) : "");
      for (std::size_t r = 0; r < plans.size(); r++) {
        const Cell& cell = rows[t][r];
        out += fmt::format("  {:<{}}", line < cell.size() ? cell[line] : "", width[r]);
      }
      out.erase(out.find_last_not_of(' ') + 1);
      text += out + '\n';
    }
  }
  text += fmt::format("\nnumbers are blocks{}\n",
                      reduces(first.collective) ? "; + adds to a partial sum, = completes one" : "");
  return text;
}

}  // namespace unisono::plan
