#include "cli/bench/table.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace unisono::cli {
namespace {

/// What a printing function writes.
template <class F>
std::string written(const F& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  print(file);
  std::fclose(file);
  const std::string result(text, size);
  std::free(text);
  return result;
}

BenchRow row_of(Collective collective, int size, std::int64_t count, double seconds) {
  BenchRow row;
  row.problem = {collective, DType::f32, ReduceOp::sum, 0, size, count};
  row.algorithm = "ring";
  row.transport = "tcp";
  row.out_of_place = {seconds, 0};
  row.in_place = Measurement{2 * seconds, 3};
  return row;
}

TEST(BenchTable, BusBandwidthIsWhatTheLinksCarry) {
  const auto bus = [](Collective c, std::int64_t count) {
    return bus_bandwidth({c, DType::f32, ReduceOp::sum, 0, 4, count}, 1e-3);
  };
  EXPECT_DOUBLE_EQ(bus(Collective::all_reduce, 250'000), 1.5);  // 1 MB in 1 ms is 1 GB/s; 2 * 3 / 4 of it
  EXPECT_DOUBLE_EQ(bus(Collective::broadcast, 250'000), 1.0);
  EXPECT_DOUBLE_EQ(bus(Collective::reduce, 250'000), 1.0);
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::gather,
                             Collective::scatter, Collective::all_to_all})
    EXPECT_DOUBLE_EQ(bus(c, 62'500), 0.75) << name_of(c);  // the size counts the blocks of all four
  EXPECT_DOUBLE_EQ(bus_bandwidth({Collective::barrier}, 1e-3), 0);
}

TEST(BenchTable, RowsLineUpWithTheHeader) {
  const BenchRow row = row_of(Collective::all_reduce, 4, 16384, 12.3456e-6);
  const std::string header = written([&](std::FILE* f) { print_header(f, row.problem, "tcp", "1.0"); });
  const std::string line = written([&](std::FILE* f) { print_row(f, row); });
  const std::size_t last = header.find("#wrong", header.find("#wrong") + 1);
  ASSERT_NE(last, std::string::npos);
  EXPECT_EQ(line.size(), last + 6 - (header.rfind('\n', last) + 1) + 1);
  EXPECT_EQ(line,
            "       65536         16384       f32     sum      -1    12.35    5.31    7.96       0    24.69    2.65    "
            "3.98       3\n");
}

TEST(BenchTable, SaysWhatIsNotThere) {
  BenchRow row = row_of(Collective::all_to_all, 2, 10, 1e-6);
  row.out_of_place.wrong.reset();
  row.in_place.reset();
  const std::string line = written([&](std::FILE* f) { print_row(f, row); });
  EXPECT_NE(line.find("N/A"), std::string::npos) << line;
  EXPECT_NE(line.find("none"), std::string::npos) << line;
  EXPECT_NE(line.find("  -  "), std::string::npos) << line;
}

TEST(BenchTable, LargeNumbersKeepToTheirColumns) {
  const std::string small = written([](std::FILE* f) { print_row(f, row_of(Collective::all_reduce, 2, 1, 0.1e-6)); });
  const std::string large =
      written([](std::FILE* f) { print_row(f, row_of(Collective::all_reduce, 2, 1 << 30, 4321.987)); });
  EXPECT_EQ(small.size(), large.size()) << small << large;
}

TEST(BenchTable, FooterSumsUp) {
  const std::vector<BenchRow> rows = {row_of(Collective::broadcast, 2, 250'000, 1e-3),
                                      row_of(Collective::broadcast, 2, 250'000, 1e-3)};
  EXPECT_EQ(total_wrong(rows), 6);
  const std::string text = written([&](std::FILE* f) { print_footer(f, rows); });
  EXPECT_NE(text.find("6 FAILED"), std::string::npos) << text;
  EXPECT_NE(text.find(": 0.75\n"), std::string::npos) << text;  // the mean of 1 and 0.5
}

TEST(BenchTable, JsonHasAnObjectARow) {
  BenchRow row = row_of(Collective::broadcast, 2, 250'000, 1e-3);
  row.out_of_place.wrong.reset();
  const auto json = nlohmann::json::parse(to_json({row}));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0], nlohmann::json::parse(
                         R"({"collective": "broadcast", "ranks": 2, "bytes": 1000000, "dtype": "f32", "op": "none",
    "algorithm": "ring", "transport": "tcp", "time_us": 1000.0, "algbw_gbps": 1.0, "busbw_gbps": 1.0, "wrong": null, "in_place": false})"));
  EXPECT_EQ(json[1]["in_place"], true);
  EXPECT_EQ(json[1]["wrong"], 3);
  EXPECT_EQ(nlohmann::json::parse(to_json({})), nlohmann::json::array());
}

}  // namespace
}  // namespace unisono::cli
