#include "cli/bench/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/bench/sizes.h"
#include "cli/bench/tune.h"
#include "plan/registry.h"

namespace unisono::cli {

namespace {

template <class Enum>
std::string names_of_all(int number) {
  std::string names;
  for (int i = 0; i < number; i++)
    names += std::string(i == 0 ? "" : ", ") + std::string(name_of(static_cast<Enum>(i)));
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

/// The collectives and sizes to tune. It is the layout's tables that are tuned: roots, types and
/// operations have no say in them.
Status understand_tuning(const BenchArguments& a, Benchmark& bench) {
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

/// "send" and "recv" are measured together.
bool means_messages(const std::string& name) {
  return name == kMessages || name == "send" || name == "recv" || name == "sendrecv";
}

/// What has no meaning for messages is refused, not ignored.
Status understand_messages(const BenchArguments& a, Benchmark& bench) {
  bench.problem.messages = true;
  if (a.tune)
    return Status::invalid(fmt::format("--tune is for collectives: {} has no algorithms to choose from", kMessages));
  if (!a.measure.algorithm.empty())
    return Status::invalid(fmt::format("--algorithm {}: {} has no algorithms", a.measure.algorithm, kMessages));
  if (a.root != 0)
    return Status::invalid(
        fmt::format("--root {}: {} has no root, it is between rank 0 and the last rank", a.root, kMessages));
  if (a.ranks && *a.ranks < 2) return Status::invalid(fmt::format("-n {}: {} needs two ranks", *a.ranks, kMessages));
  return {};
}

}  // namespace

std::string names_of_dtypes() { return names_of_all<DType>(kDTypes); }
std::string names_of_ops() { return names_of_all<ReduceOp>(kReduceOps); }
std::string names_of_benchmarks() { return names_of_all<Collective>(kCollectives) + ", " + std::string(kMessages); }

Result<Benchmark> understand(const BenchArguments& a) {
  Benchmark bench;
  Problem& p = bench.problem;
  if (a.collective.empty() && !a.tune)
    return Status::invalid(fmt::format("which collective? There are {}", names_of_benchmarks()));
  const bool messages = means_messages(a.collective);
  const auto collective =
      a.collective.empty() || messages ? Collective::all_reduce : collective_from_name(a.collective);
  if (!collective)
    return Status::invalid(fmt::format("no collective \"{}\"; there are {}", a.collective, names_of_benchmarks()));
  const auto dtype = dtype_from_name(a.dtype);
  if (!dtype) return Status::invalid(fmt::format("--dtype {}: there are {}", a.dtype, names_of_dtypes()));
  const auto op = reduce_op_from_name(a.op);
  if (!op) return Status::invalid(fmt::format("--op {}: there are {}", a.op, names_of_ops()));
  p.collective = *collective;
  p.dtype = *dtype;
  p.op = *op;
  p.root = a.root;
  if (!messages && reduces(p.collective) && !supports(p.op, p.dtype))
    return Status::invalid(
        fmt::format("--op {} is not defined for {} (avg is for numbers; min and max not for complex ones; band, bor "
                    "and bxor for integers and bool)",
                    a.op, a.dtype));
  if (a.ranks && *a.ranks < 1) return Status::invalid(fmt::format("-n {}: at least one rank is needed", *a.ranks));
  if (a.root < 0 || (a.ranks && a.root >= *a.ranks))
    return Status::invalid(
        fmt::format("--root {} is out of range: ranks are 0 to {}", a.root, a.ranks.value_or(1) - 1));
  if (messages) UNISONO_TRY(understand_messages(a, bench));
  if (!a.transport.empty() && a.transport != "shm" && a.transport != "tcp")
    return Status::invalid(fmt::format("--transport {}: there are shm and tcp", a.transport));
  UNISONO_TRY(check_algorithm(p.collective, a.measure.algorithm));
  std::string all;
  for (const std::string& text : a.sizes) all += (all.empty() ? "" : ",") + text;
  auto sizes = parse_sizes(all);
  if (!sizes) return sizes.status().with_context("--sizes");
  bench.sizes = std::move(sizes).value();
  if (a.tune) {
    UNISONO_TRY(understand_tuning(a, bench));
    return bench;
  }
  if (!a.plot.empty()) return Status::invalid("--plot draws what --tune measures");
  if (p.collective == Collective::barrier) bench.sizes = {0};
  return bench;
}

}  // namespace unisono::cli
