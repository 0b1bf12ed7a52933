#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

#include "cli/bench/tune.h"
#include "plan/registry.h"

namespace unisono::cli {
namespace {

/// All algorithms of a collective at a size; the first is the best, the others are slower by a
/// quarter each.
TunePoint point_of(Collective collective, std::int64_t bytes) {
  TunePoint p{collective, bytes, false, {}, 0, 0, 0};
  for (const plan::Algorithm& a : plan::algorithms())
    if (a.collective == collective)
      p.candidates.push_back({&a, {1e-5 * (1 + 0.25 * static_cast<double>(p.candidates.size()))}});
  return p;
}

/// Of each algorithm in the keys: how its line is drawn, and what is said of it.
struct Key {
  std::set<std::string> looks, words;
};
std::map<std::string, Key> keys_of(const std::string& svg) {
  const std::regex key(R"re(<line class="line" (stroke="[^"]+" stroke-dasharray="[^"]+")[^>]*/>\n)re"
                       R"re(<text class="key[^>]*>([^<]+)</text>\n(?:<text class="tick"[^>]*>([^<]*)</text>)?)re");
  std::map<std::string, Key> keys;
  for (std::sregex_iterator i(svg.begin(), svg.end(), key), end; i != end; ++i) {
    keys[(*i)[2]].looks.insert((*i)[1]);
    keys[(*i)[2]].words.insert((*i)[3]);
  }
  return keys;
}

TEST(TunePlot, AnAlgorithmHasOneLookAndNoOtherHasIt) {
  std::vector<TunePoint> points;
  for (int c = 0; c < kCollectives; c++) points.push_back(point_of(static_cast<Collective>(c), 4096));
  const auto keys = keys_of(plot_svg(points, "all"));
  std::set<std::string> names, looks;
  for (const plan::Algorithm& a : plan::algorithms()) names.insert(std::string(a.name));
  for (const auto& [name, key] : keys) {
    EXPECT_EQ(key.looks.size(), 1u) << name << " is drawn in several ways";
    EXPECT_TRUE(looks.insert(*key.looks.begin()).second) << name << " is drawn as another one";
  }
  EXPECT_EQ(keys.size(), names.size());
  // The same where there is less to draw.
  for (const auto& [name, key] : keys_of(plot_svg({points[1]}, "one"))) EXPECT_EQ(key.looks, keys.at(name).looks);
}

TEST(TunePlot, SaysInWordsWhatWasChosenWhere) {
  std::vector<TunePoint> points;
  for (int i = 0; i < 4; i++) points.push_back(point_of(Collective::all_reduce, 1024 << i));
  const std::string first(points[0].candidates[0].algorithm->name), second(points[0].candidates[1].algorithm->name),
      third(points[0].candidates[2].algorithm->name);
  EXPECT_EQ(keys_of(plot_svg(points, "")).at(first).words, std::set<std::string>{"chosen: all sizes"});
  points[2].chosen = 1;
  points[2].candidates[1].rounds = {0.9e-5};
  points[2].best = 1;
  const auto keys = keys_of(plot_svg(points, ""));
  EXPECT_EQ(keys.at(first).words, std::set<std::string>{"chosen: 1K-2K, 8K"});
  EXPECT_EQ(keys.at(second).words, std::set<std::string>{"chosen: 4K"});
  EXPECT_EQ(keys.at(third).words, std::set<std::string>{""});
}

TEST(TunePlot, ARivalThatIsFasterIsWhatRuns) {
  TunePoint p = point_of(Collective::all_reduce, 1 << 20);
  p.chosen = 1;
  p.rival = 0;
  const auto keys = keys_of(plot_svg({p}, ""));
  EXPECT_EQ(keys.at(std::string(p.candidates[1].algorithm->name)).words, std::set<std::string>{"chosen: 1M"});
  EXPECT_EQ(keys.at(std::string(p.candidates[0].algorithm->name)).words, std::set<std::string>{"rival, faster: 1M"});
}

TEST(TunePlot, NoLineGoesThroughSizesThatWereNotMeasured) {
  std::vector<TunePoint> points;
  for (int i = 0; i < 5; i++) points.push_back(point_of(Collective::barrier, 1024 << i));
  const auto lines = [&] {
    const std::string svg = plot_svg(points, "");
    std::size_t found = 0;
    for (auto at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) found++;
    return found;
  };
  const std::size_t whole = lines();
  EXPECT_EQ(whole, points[0].candidates.size());
  points[2].candidates.pop_back();
  EXPECT_EQ(lines(), whole + 1);
}

TEST(TunePlot, WhatIsOffTheScaleIsNotDrawnAsIfItWereOnIt) {
  TunePoint p = point_of(Collective::all_reduce, 1 << 20);
  p.candidates.back().rounds = {1};
  const std::string svg = plot_svg({p}, "");
  EXPECT_EQ(keys_of(svg).at(std::string(p.candidates.back().algorithm->name)).words,
            std::set<std::string>{"above 4 x, not drawn"});
  const std::regex dot(R"re(class="dot"[^>]* cy="(-?[0-9.]+)")re"),
      frame(R"re(class="frame" x="[^"]*" y="([0-9]+)")re");
  std::smatch top;
  ASSERT_TRUE(std::regex_search(svg, top, frame));
  std::size_t above = 0;
  for (std::sregex_iterator i(svg.begin(), svg.end(), dot), end; i != end; ++i)
    above += std::stod((*i)[1]) < std::stod(top[1]) ? 1 : 0;
  EXPECT_EQ(above, 1u) << "the frame cuts it off";
}

}  // namespace
}  // namespace unisono::cli
