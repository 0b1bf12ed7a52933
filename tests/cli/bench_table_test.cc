#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/table.h"

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
  row.transport = "tcp";
  row.measured = {seconds, seconds / 4, seconds / 2, 2 * seconds, 4 * seconds, 200, {{"ring", 200}}, 3};
  return row;
}

BenchRow messages_of(std::int64_t count, BenchMode mode) {
  BenchRow row = row_of(Collective::barrier, 2, count, 1e-6);
  row.problem.messages = true;
  row.mode = mode;
  row.measured.algorithms.clear();
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
  BenchRow row = row_of(Collective::all_reduce, 4, 16384, 12.3456e-6);
  const std::string header = written([&](std::FILE* f) { print_header(f, row.problem, "tcp", "1.0"); });
  EXPECT_NE(header.find("all_reduce, 4 ranks, transport tcp, f32 sum\n"), std::string::npos) << header;
  const std::size_t names = header.find("#     size");
  ASSERT_NE(names, std::string::npos) << header;
  const std::string columns = header.substr(names, header.find('\n', names) - names);
  const std::string line = written([&](std::FILE* f) { print_row(f, row); });
  EXPECT_EQ(line.find("ring"), columns.find("algorithm"));
  EXPECT_EQ(line.find("  3  ") + 3, columns.find("#wrong") + 6);
  EXPECT_EQ(line, "     65536       16384 out    12.35     6.17    24.69    5.31    7.96       3  ring\n");
  row.mode = BenchMode::in_place;
  EXPECT_NE(written([&](std::FILE* f) { print_row(f, row); }).find("  in  "), std::string::npos);
}

TEST(BenchTable, NoLineIsWiderThanATerminal) {
  constexpr std::size_t kColumns = 100;
  BenchRow row = row_of(Collective::reduce, 4096, 1 << 29, 4321.987);
  row.problem.root = 4095;
  row.measured.algorithms = {{"reduce_scatter_gather", 200}};
  for (const BenchRow& r : {row, messages_of(1 << 29, BenchMode::bandwidth)}) {
    const std::string text = written([&](std::FILE* f) {
      print_header(f, r.problem, "mixed", "10.20.30");
      print_row(f, r);
    });
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      EXPECT_LE(end - begin, kColumns) << text.substr(begin, end - begin);
  }
}

TEST(BenchTable, SaysWhatIsNotThere) {
  BenchRow row = messages_of(10, BenchMode::latency);
  row.measured.wrong.reset();
  const std::string line = written([&](std::FILE* f) { print_row(f, row); });
  EXPECT_NE(line.find(" lat "), std::string::npos) << line;
  EXPECT_NE(line.find("N/A  -\n"), std::string::npos) << line;
}

TEST(BenchTable, LargeNumbersKeepToTheirColumns) {
  const std::string small = written([](std::FILE* f) { print_row(f, row_of(Collective::all_reduce, 2, 1, 0.1e-6)); });
  const std::string large =
      written([](std::FILE* f) { print_row(f, row_of(Collective::all_reduce, 2, 1 << 30, 1234.987)); });
  EXPECT_EQ(small.size(), large.size()) << small << large;
}

TEST(BenchTable, FooterSumsUp) {
  std::vector<BenchRow> rows = {row_of(Collective::broadcast, 2, 250'000, 1e-3),
                                row_of(Collective::broadcast, 2, 250'000, 2e-3)};
  EXPECT_EQ(total_wrong(rows), 6);
  std::string text = written([&](std::FILE* f) { print_footer(f, rows); });
  EXPECT_NE(text.find("6 FAILED"), std::string::npos) << text;
  EXPECT_NE(text.find(": 0.75\n"), std::string::npos) << text;  // the mean of 1 and 0.5
  EXPECT_EQ(text.find("ring"), std::string::npos) << text;
  rows[1].measured.algorithms = {{"staged", 150}, {"single_copy", 50}};
  text = written([&](std::FILE* f) { print_footer(f, rows); });
  EXPECT_NE(text.find("# 1000000 out: staged 75.0 %, single_copy 25.0 %\n"), std::string::npos) << text;
}

TEST(BenchTable, JsonHasAnObjectARow) {
  BenchRow row = row_of(Collective::broadcast, 2, 250'000, 1e-3);
  row.measured.wrong.reset();
  const auto json = nlohmann::json::parse(to_json({row, messages_of(2, BenchMode::bandwidth)}));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0], nlohmann::json::parse(
                         R"({"collective": "broadcast", "ranks": 2, "bytes": 1000000, "dtype": "f32", "op": "none",
    "algorithm": "ring", "transport": "tcp", "time_us": 1000.0, "min_us": 250.0, "p5_us": 500.0, "p95_us": 2000.0,
    "max_us": 4000.0, "calls": 200, "algbw_gbps": 1.0, "busbw_gbps": 1.0, "wrong": null, "in_place": false,
    "mode": "out-of-place", "algorithms": {"ring": 200}})"));
  EXPECT_EQ(json[1]["collective"], "send_recv");
  EXPECT_EQ(json[1]["bytes"], 8);
  EXPECT_EQ(json[1]["algorithm"], nullptr);
  EXPECT_EQ(json[1]["mode"], "bandwidth");
  EXPECT_EQ(json[1]["wrong"], 3);
  EXPECT_EQ(json[1]["busbw_gbps"], json[1]["algbw_gbps"]);
  EXPECT_EQ(nlohmann::json::parse(to_json({})), nlohmann::json::array());
}

}  // namespace
}  // namespace unisono::cli
