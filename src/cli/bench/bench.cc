/// `unisono bench COLLECTIVE`: starts ranks on this host, times the collective at each size, and prints what nccl-tests would.
/// Within a job that is already running (unisono run, torchrun, srun), and without -n, it measures among those ranks.

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
#include "cli/bench/measure.h"
#include "cli/bench/table.h"
#include "cli/bench/tune.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "plan/registry.h"
#include "plan/select.h"
#include "unisono/unisono.hpp"

namespace unisono::cli {

namespace {

/// As given.
struct Arguments {
  std::string collective;
  std::optional<int> ranks;
  std::vector<std::string> sizes = {"8", "64K", "1M", "64M"};
  std::string dtype = "f32", op = "sum", transport, json, memory = "ordinary", bind = "auto";
  int root = 0;
  MeasureOptions measure;
  bool is_rank = false;  ///< started by ourselves
  bool tune = false;
  std::string plot;
  bool sizes_given = false, seconds_given = false, bind_given = false;
};

/// As understood.
struct Bench {
  Problem problem;  ///< without the counts
  std::vector<std::int64_t> sizes;
  std::vector<Collective> collectives;  ///< to tune
};

std::string names_of_collectives() {
  std::string names;
  for (int i = 0; i < kCollectives; i++)
    names += std::string(i == 0 ? "" : ", ") + std::string(name_of(static_cast<Collective>(i)));
  return names;
}

std::string names_of_dtypes() {
  std::string names;
  for (int i = 0; i < kDTypes; i++)
    names += std::string(i == 0 ? "" : " ") + std::string(name_of(static_cast<DType>(i)));
  return names;
}

/// What is wrong with the algorithm's name, with those that there are.
Status check_algorithm(Collective collective, const std::string& name) {
  if (name.empty() || plan::find_algorithm(collective, name) != nullptr) return {};
  std::string known;
  for (const plan::Algorithm& a : plan::algorithms())
    if (a.collective == collective) known += (known.empty() ? "" : ", ") + std::string(a.name);
  return Status::invalid(
      fmt::format("there is no algorithm \"{}\" for {}; there are {}", name, name_of(collective), known));
}

/// The collectives and sizes to tune. It is the layout's tables that are tuned: roots, types and operations have no say in them.
Status understand_tuning(const Arguments& a, Bench& bench) {
  if (!a.measure.algorithm.empty() || a.root != 0 || a.dtype != "f32" || a.op != "sum" || a.memory != "ordinary" ||
      a.measure.check || a.measure.iterations)
    return Status::invalid(
        "--tune measures all algorithms, root 0, f32 and sum, private and shared memory: of the other options it takes "
        "a "
        "collective, -n, --sizes, --seconds, --transport, --json and --plot");
  for (int c = 0; c < kCollectives; c++)
    if (a.collective.empty() || bench.problem.collective == static_cast<Collective>(c))
      bench.collectives.push_back(static_cast<Collective>(c));
  if (!a.sizes_given) bench.sizes = tune_ladder();
  std::sort(bench.sizes.begin(), bench.sizes.end());
  bench.sizes.erase(std::unique(bench.sizes.begin(), bench.sizes.end()), bench.sizes.end());
  return {};
}

Result<Bench> understand(const Arguments& a) {
  Bench bench;
  Problem& p = bench.problem;
  if (a.collective.empty() && !a.tune)
    return Status::invalid(fmt::format("which collective? There are {}", names_of_collectives()));
  const auto collective = a.collective.empty() ? Collective::all_reduce : collective_from_name(a.collective);
  if (!collective)
    return Status::invalid(fmt::format("no collective \"{}\"; there are {}", a.collective, names_of_collectives()));
  const auto dtype = dtype_from_name(a.dtype);
  if (!dtype) return Status::invalid(fmt::format("--dtype {}: there are {}", a.dtype, names_of_dtypes()));
  const auto op = reduce_op_from_name(a.op);
  if (!op) return Status::invalid(fmt::format("--op {}: there are sum avg product min max band bor bxor", a.op));
  p.collective = *collective;
  p.dtype = *dtype;
  p.op = *op;
  p.root = a.root;
  if (reduces(p.collective) && !supports(p.op, p.dtype))
    return Status::invalid(
        fmt::format("--op {} is not defined for {} (avg is for numbers; min and max not for complex ones; band, bor "
                    "and bxor for integers and bool)",
                    a.op, a.dtype));
  if (a.ranks && *a.ranks < 1) return Status::invalid(fmt::format("-n {}: at least one rank is needed", *a.ranks));
  if (a.root < 0 || (a.ranks && a.root >= *a.ranks))
    return Status::invalid(
        fmt::format("--root {} is out of range: ranks are 0 to {}", a.root, a.ranks.value_or(1) - 1));
  if (!a.transport.empty() && a.transport != "shm" && a.transport != "tcp")
    return Status::invalid(fmt::format("--transport {}: there are shm and tcp", a.transport));
  UNISONO_TRY(check_algorithm(p.collective, a.measure.algorithm));
  for (const std::string& text : a.sizes) {
    auto size = plan::parse_size(text);
    if (!size) return size.status().with_context("--sizes");
    bench.sizes.push_back(*size);
  }
  if (a.tune) {
    UNISONO_TRY(understand_tuning(a, bench));
    return bench;
  }
  if (!a.plot.empty()) return Status::invalid("--plot draws what --tune measures");
  if (p.collective == Collective::barrier) bench.sizes = {0};
  return bench;
}

/// The count whose total is the size, rounded down to whole elements, but at least one.
Problem at_size(Problem p, std::int64_t bytes) {
  p.count = 1;
  const std::int64_t unit = total_bytes(p);
  p.count = unit == 0 ? 0 : bytes == 0 ? 0 : std::max<std::int64_t>(1, bytes / unit);
  return p;
}

/// The algorithm that the group would choose. Small operands travel with the announcement of an operation in shared memory, without an algorithm.
std::string algorithm_of(const Group& group, const Config& config, const Problem& p, const MeasureOptions& options,
                         bool shared_input, bool shared_output) {
  if (!options.algorithm.empty()) return options.algorithm;
  plan::Question question = question_of(group, p);
  if (plan::goes_inline(question, config.algorithm)) return "inline";
  const auto selector = plan::Selector::parse(group.algorithms());
  if (!selector) return "unknown";
  question.several_nodes &= !config.deterministic;
  question.shared_buffers = shared_input;
  question.shared_outputs = shared_output;
  const auto* algorithm = selector->choose(question);
  return algorithm == nullptr ? "unknown" : std::string(algorithm->name);
}

BenchRow measure_row(const Group& group, const Config& config, const Problem& p, const MeasureOptions& options,
                     BenchMemory& memory) {
  BenchRow row{p, {}, std::string(group.transport()), {}, {}};
  row.out_of_place = measure(group, p, false, options, memory);
  if (has_in_place(p.collective)) row.in_place = measure(group, p, true, options, memory);
  const auto shared = [&](const std::byte* data) { return data != nullptr && group.shares(data, 1); };
  // Ordinary memory is by now, or is not.
  row.algorithm = algorithm_of(group, config, p, options, shared(memory.input()), shared(memory.output()));
  return row;
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
int run_rank(const Arguments& a, Bench bench) {
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
  const bool speaks = group.rank() == 0;
  BenchMemory memory(group, a.memory == "shared"       ? MemoryKind::shared
                            : a.memory == "registered" ? MemoryKind::registered
                                                       : MemoryKind::ordinary);
  std::vector<BenchRow> rows;
  if (speaks) print_header(stdout, bench.problem, std::string(group.transport()), version());
  for (const std::int64_t bytes : bench.sizes) {
    rows.push_back(measure_row(group, config, at_size(bench.problem, bytes), a.measure, memory));
    if (speaks) print_row(stdout, rows.back());
  }
  group.destroy();
  if (!speaks) return 0;
  print_footer(stdout, rows);
  if (!a.json.empty() && write_json(a.json, rows) != 0) return 1;
  return total_wrong(rows) == 0 ? 0 : 1;
}

/// This command again, as ranks.
int launch_ranks(const Arguments& a) {
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

int run_bench(const Arguments& a) {
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

void add_bench(CLI::App& app, int& status) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure a collective, and check its results");
  command->footer(
      "Examples:\n"
      "  unisono bench all_reduce -n 4 --sizes 8,64K,1M,64M --check\n"
      "  unisono bench all_gather -n 2 --dtype f64 --transport tcp --json all_gather.json\n"
      "  unisono run -n 4 -- unisono bench broadcast --root 3\n"
      "  unisono bench --tune -n 4 --plot tuned.svg        measure all algorithms; groups of this layout then choose "
      "by it");
  command->add_option("collective", a->collective, names_of_collectives() + "; may be left out with --tune");
  command->add_option("-n,--np,--ranks", a->ranks,
                      "ranks to start on this host (default 2, or the job that this is part of)");
  command
      ->add_option("--sizes", a->sizes,
                   "bytes of the buffer, or of all ranks' blocks together; K, M and G are powers of 1024")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "element type")->capture_default_str();
  command->add_option("--op", a->op, "reduction")->capture_default_str();
  command->add_option("--root", a->root, "root of the collectives that have one")->capture_default_str();
  command->add_option("--algorithm", a->measure.algorithm, "instead of the one that the table chooses");
  command->add_option("--transport", a->transport, "shm or tcp, instead of the best that there is");
  command
      ->add_option(
          "--memory", a->memory,
          "where the buffers lie; ordinary: as programs have it, shared by itself once large collectives came back to "
          "it; private: ordinary memory that stays private; shared: from Group::allocate; registered: ordinary memory "
          "that was registered. What is shared is not copied")
      ->check(CLI::IsMember({"ordinary", "private", "shared", "registered"}))
      ->capture_default_str();
  command->add_option("--bind", a->bind, kBindHelp)->check(CLI::IsMember(kBindNames))->capture_default_str();
  command->add_option("--json", a->json, "write the figures to this file")->type_name("FILE");
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
