/// `unisono bench WHAT`: starts ranks on this host, times a collective or messages at each size,
/// and prints what nccl-tests would. Within a job that is already running (unisono run, torchrun,
/// srun), and without -n, it measures among those ranks.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/bench/arguments.h"
#include "cli/bench/measure.h"
#include "cli/bench/messages.h"
#include "cli/bench/table.h"
#include "cli/bench/tune.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "unisono/unisono.hpp"

namespace unisono::cli {

namespace {

/// The count whose total is the size, rounded down to whole elements, but at least one.
Problem at_size(Problem p, std::int64_t bytes) {
  p.count = 1;
  const std::int64_t unit = total_bytes(p);
  p.count = unit == 0 ? 0 : bytes == 0 ? 0 : std::max<std::int64_t>(1, bytes / unit);
  return p;
}

std::vector<BenchMode> modes_of(const Problem& p) {
  if (p.messages) return {BenchMode::latency, BenchMode::bandwidth};
  return has_in_place(p.collective) ? std::vector{BenchMode::out_of_place, BenchMode::in_place}
                                    : std::vector{BenchMode::out_of_place};
}

BenchRow measure_row(const Group& group, const Problem& p, BenchMode mode, const MeasureOptions& options,
                     BenchMemory& memory) {
  return {p, mode, std::string(group.transport()),
          p.messages ? measure_messages(group, p, mode, options, memory)
                     : measure(group, p, mode == BenchMode::in_place, options, memory)};
}

int write_json(const std::string& path, const std::vector<BenchRow>& rows) {
  std::ofstream file(path);
  file << to_json(rows);
  file.close();
  if (file) return 0;
  fmt::print(stderr, "unisono bench: cannot write {}\n", path);
  return 1;
}

/// One rank of the benchmark.
int run_rank(const BenchArguments& a, Benchmark bench) {
  Config config = Config::from_env();
  if (a.memory == "private" || a.tune) config.share_memory = false;
  if (!a.transport.empty()) config.transport = a.transport;
  Group group = init(config);
  if (a.tune) {
    TuneOptions options{bench.collectives, bench.sizes, TuneOptions{}.seconds, a.plot, a.json};
    if (a.seconds_given) options.seconds = a.measure.seconds;
    const int status = tune(group, config, options);
    group.destroy();
    return status;
  }
  bench.problem.size = group.size();
  if (bench.problem.messages && group.size() < 2)
    throw InvalidArgument(fmt::format("{} needs two ranks, and this job has one", kMessages));
  const bool speaks = group.rank() == 0;
  BenchMemory memory(group, a.memory == "shared"       ? MemoryKind::shared
                            : a.memory == "registered" ? MemoryKind::registered
                                                       : MemoryKind::ordinary);
  std::vector<BenchRow> rows;
  if (speaks) print_header(stdout, bench.problem, std::string(group.transport()), version());
  for (const std::int64_t bytes : bench.sizes)
    for (const BenchMode mode : modes_of(bench.problem)) {
      rows.push_back(measure_row(group, at_size(bench.problem, bytes), mode, a.measure, memory));
      if (speaks) print_row(stdout, rows.back());
    }
  group.destroy();
  if (!speaks) return 0;
  print_footer(stdout, rows);
  if (!a.json.empty() && write_json(a.json, rows) != 0) return 1;
  return total_wrong(rows) == 0 ? 0 : 1;
}

/// This command again, as ranks.
int launch_ranks(const BenchArguments& a) {
  LaunchOptions launch_options;
  launch_options.ranks = a.ranks.value_or(2);
  launch_options.output = OutputMode::rank_zero;
  launch_options.bind = *bind_mode_from_name(a.bind);
  auto& command = launch_options.command;
  std::string sizes;
  for (const std::string& size : a.sizes) sizes += (sizes.empty() ? "" : ",") + size;
  command = {std::filesystem::read_symlink("/proc/self/exe").string(), "bench", "--as-rank"};
  if (!a.collective.empty()) command.push_back(a.collective);
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {option, value});
  };
  if (a.tune) command.emplace_back("--tune");
  add("--plot", a.plot);
  if (a.sizes_given || !a.tune) add("--sizes", sizes);
  add("--dtype", a.dtype);
  add("--op", a.op);
  add("--root", std::to_string(a.root));
  add("--algorithm", a.measure.algorithm);
  add("--transport", a.transport);
  add("--memory", a.memory);
  add("--json", a.json);
  if (a.seconds_given || !a.tune) add("--seconds", fmt::format("{}", a.measure.seconds));
  add("--warmup", std::to_string(a.measure.warmup));
  if (a.measure.iterations) add("--iters", std::to_string(*a.measure.iterations));
  if (a.measure.check) command.emplace_back("--check");
  return launch(launch_options);
}

int run_bench(const BenchArguments& a) {
  const auto bench = understand(a);
  if (!bench) {
    fmt::print(stderr, "unisono bench: {}\n", bench.status().message());
    return 2;
  }
  if (!a.is_rank)  // better now than after minutes
    for (const std::string& path : {a.json, a.plot})
      if (!path.empty() && write_json(path, {}) != 0) return 1;
  try {
    const bool within_a_job = !a.ranks && Config::from_env().launcher != "none";
    if (within_a_job && a.bind_given) {
      fmt::print(stderr, "unisono bench: --bind is for ranks that are started here (-n), these run already\n");
      return 2;
    }
    return a.is_rank || within_a_job ? run_rank(a, *bench) : launch_ranks(a);
  } catch (const std::exception& e) {
    fmt::print(stderr, "unisono bench: {}\n", e.what());
    return 1;
  }
}

}  // namespace

namespace {
/// Of the words in a list, for the help and for shells (completion.cc); what is wrong with another
/// one understand() says.
std::string one_of(std::string names) {
  std::erase(names, ' ');
  return "{" + names + "}";
}
}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure a collective or messages, and check the results");
  command->footer(
      "Examples:\n"
      "  unisono bench all_reduce -n 4 --sizes 8,64K,1M,64M --check\n"
      "  unisono bench all_reduce -n 2 --sizes 8:64M:x2        each size twice the one before\n"
      "  unisono bench broadcast --sizes 1K,4K:64K:+4K         1K, then from 4K on in steps of 4K\n"
      "  unisono bench send_recv --transport tcp               messages: latency and bandwidth\n"
      "  unisono bench all_gather --dtype f64 --json all_gather.json\n"
      "  unisono run -n 4 -- unisono bench broadcast --root 3  within a job\n"
      "  unisono bench --tune -n 4 --plot tuned.svg            measure all algorithms, and choose by it from now on");
  command
      ->add_option("collective", a->collective,
                   "what to measure (send_recv: messages between rank 0 and the last one); may be left out with --tune")
      ->type_name(one_of(names_of_benchmarks()));
  command->add_option("-n,--np,--ranks", a->ranks,
                      "ranks to start on this host (default 2, or the job that this is part of)");
  command
      ->add_option("--sizes", a->sizes,
                   "bytes of the buffer, or of all ranks' blocks together, or of a message; K, M and G are powers of "
                   "1024; a list, with ranges FROM:TO:xFACTOR and FROM:TO:+STEP")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "element type")->type_name(one_of(names_of_dtypes()))->capture_default_str();
  command->add_option("--op", a->op, "reduction")->type_name(one_of(names_of_ops()))->capture_default_str();
  command->add_option("--root", a->root, "root of the collectives that have one")->capture_default_str();
  command->add_option("--algorithm", a->measure.algorithm, "instead of the one that the table chooses");
  command->add_option("--transport", a->transport, "instead of the best that there is")->type_name("{shm,tcp}");
  command
      ->add_option(
          "--memory", a->memory,
          "where the buffers lie; ordinary: as programs have it, shared by itself once large collectives came back to "
          "it; private: ordinary memory that stays private; shared: from Group::allocate; registered: ordinary memory "
          "that was registered. What is shared is not copied")
      ->check(CLI::IsMember({"ordinary", "private", "shared", "registered"}))
      ->capture_default_str();
  command->add_option("--bind", a->bind, kBindHelp)->check(CLI::IsMember(kBindNames))->capture_default_str();
  command
      ->add_option(
          "--json", a->json,
          "write the figures to this file, an object for each line of the table: time_us is the median; min_us, p5_us, "
          "p95_us and max_us its spread over `calls`; algorithms how often each ran")
      ->type_name("FILE");
  command->add_flag("--check", a->measure.check,
                    "verify every element of the results; any wrong one makes the exit status 1");
  command->add_option("--iters", a->measure.iterations, "timed calls (default: --seconds of them)")
      ->check(CLI::Range(1, 10'000'000));
  command->add_option("--seconds", a->measure.seconds, "time to spend on each figure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_option("--warmup", a->measure.warmup, "calls before")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--tune", a->tune,
                    "measure every algorithm at a ladder of sizes, and keep which is best for groups of this layout");
  command->add_option("--plot", a->plot, "with --tune: draw all algorithms and the chosen ones into this SVG file")
      ->type_name("FILE");
  command->add_flag("--as-rank", a->is_rank)->group("");  // hidden: how the command starts itself
  command->callback([a, command, &status] {
    a->sizes_given = command->count("--sizes") > 0;
    a->seconds_given = command->count("--seconds") > 0;
    a->bind_given = command->count("--bind") > 0;
    status = run_bench(*a);
  });
}

}  // namespace unisono::cli
