/// `unisono plan`: shows, draws, verifies and explains algorithms. It runs nothing.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "plan/draw.h"
#include "plan/print.h"
#include "plan/registry.h"
#include "plan/select.h"
#include "plan/verify.h"

namespace unisono::cli {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::string_view kExamples = R"(Examples:
  unisono plan --list                                          all algorithms
  unisono plan all_reduce -n 4 --algorithm ring                every rank's plan as text
  unisono plan all_reduce -n 4 --algorithm ring --rank 2 --json
  unisono plan broadcast -n 8 --algorithm binomial --root 3 --verify
  unisono plan all_reduce -n 5 --algorithm circulant --draw svg > circulant.svg
  unisono plan all_reduce -n 4 --hosts 2,2 --algorithm hierarchical --draw text
  unisono plan --verify-all                                    prove everything, all sizes, every root
  unisono plan --explain all_reduce -n 4 --bytes 1M            what would run, and why
)";

struct Options {
  std::string collective, algorithm, draw, bytes = "1M", place = "shm", memory = "private", hosts;
  int ranks = 0, root = 0, rank = -1, max = 128;
  unsigned threads = 0;
  bool verify = false, json = false, verify_all = false, list = false, explain = false;
};

// A mistake of the caller: what() goes to stderr, the exit status is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::string_view> algorithm_names(Collective collective) {
  std::vector<std::string_view> names;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.collective == collective) names.push_back(a.name);
  }
  return names;
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kCollectives; i++) names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

std::string_view place_name(plan::Place place) {
  constexpr std::string_view names[] = {"network", "shared memory", "shared buffers", "several hosts"};
  return names[static_cast<std::size_t>(place)];
}

// "2,2" -> 0 0 1 1.
std::vector<std::int32_t> hosts_of(const Options& o) {
  std::vector<std::int32_t> hosts;
  std::int32_t host = 0;
  for (std::size_t begin = 0; begin < o.hosts.size(); host++) {
    const std::size_t end = std::min(o.hosts.find(',', begin), o.hosts.size());
    const std::string part = o.hosts.substr(begin, end - begin);
    char* rest = nullptr;
    const long ranks = std::strtol(part.c_str(), &rest, 10);
    if (part.empty() || *rest != '\0' || ranks < 1 || ranks > o.ranks)
      throw UsageError(fmt::format("--hosts {}: write how many ranks each host has, such as 2,2", o.hosts));
    hosts.insert(hosts.end(), static_cast<std::size_t>(ranks), host);
    begin = end + 1;
  }
  if (!hosts.empty() && static_cast<int>(hosts.size()) != o.ranks)
    throw UsageError(fmt::format("--hosts {} has {} ranks, and -n says {}", o.hosts, hosts.size(), o.ranks));
  return hosts;
}

void check_group(const Options& o) {
  if (o.collective.empty()) {
    throw UsageError(fmt::format("which collective? There are {}", fmt::join(collective_names(), ", ")));
  }
  if (o.ranks < 1) throw UsageError("give the number of ranks, at least 1, with -n");
  if (o.root < 0 || o.root >= o.ranks)
    throw UsageError(fmt::format("root {} is not one of the {} ranks 0..{}", o.root, o.ranks, o.ranks - 1));
  if (o.rank < -1 || o.rank >= o.ranks)
    throw UsageError(fmt::format("rank {} is not one of the {} ranks 0..{}", o.rank, o.ranks, o.ranks - 1));
}

Collective collective_of(const Options& o) {
  const auto collective = collective_from_name(o.collective);
  if (!collective) {
    throw UsageError(
        fmt::format("no collective \"{}\": there are {}", o.collective, fmt::join(collective_names(), ", ")));
  }
  if (!rooted(*collective) && o.root != 0) throw UsageError(fmt::format("{} has no root", o.collective));
  return *collective;
}

template <class T>
T or_usage_error(Result<T> result, std::string_view context) {
  if (!result) throw UsageError(fmt::format("{}{}", context, result.status().message()));
  return std::move(result).value();
}

plan::Selector selector() {
  const char* overrides = std::getenv("UNISONO_ALGORITHM");
  return or_usage_error(plan::Selector::parse(overrides == nullptr ? "" : overrides), "UNISONO_ALGORITHM: ");
}

// "6 rounds", "2 phases"; nothing where they are not counted.
std::string steps_text(const plan::Algorithm& a, std::int64_t steps) {
  if (steps == plan::Cost::kNotCounted) return "";
  return fmt::format("{} {}, ", steps, plan::needs_one_host(a.place) ? "phases" : "rounds");
}

plan::Question question_of(const Options& o) {
  plan::Question q;
  q.collective = collective_of(o);
  const std::vector<std::int32_t> hosts = hosts_of(o);
  const std::int32_t count = hosts.empty() ? 0 : hosts.back() + 1;
  q.one_host = o.place == "shm" && count <= 1;
  q.several_hosts = count > 1 && count < o.ranks;
  q.shared_buffers = o.memory == "shared";
  q.ranks = o.ranks;
  q.bytes = or_usage_error(plan::parse_size(o.bytes), "--bytes: ");
  return q;
}

// ---- unisono plan --list

int list_algorithms() {
  const std::vector<std::int32_t> two_hosts{0, 0, 0, 0, 1, 1, 1, 1};
  const auto cost_of = [&](const plan::Algorithm& a) {
    return a.cost({8, 0, 0, a.place == plan::Place::several_hosts ? two_hosts : std::vector<std::int32_t>{}});
  };
  std::size_t name = 0;
  for (const plan::Algorithm& a : plan::algorithms()) name = std::max(name, a.name.size());
  fmt::print("{:<15} {:<{}}  {:<14} {:>6} {:>6}  {}\n", "collective", "algorithm", name, "place", "steps", "bytes",
             "what it does (source)");
  for (const plan::Algorithm& a : plan::algorithms()) {
    const plan::Cost c = cost_of(a);
    fmt::print("{:<15} {:<{}}  {:<14} {:>6} {:>6.4g}  {} ({})\n", name_of(a.collective), a.name, name,
               place_name(a.place), c.steps == plan::Cost::kNotCounted ? "-" : std::to_string(c.steps), c.volume,
               a.summary, a.source);
  }
  fmt::print(
      "\nsteps and bytes for 8 ranks (several hosts: two of four); bytes as a multiple of the collective's size, for "
      "the busiest "
      "rank\n");
  return 0;
}

// ---- unisono plan --explain

int explain(const Options& o) {
  check_group(o);
  const plan::Selector table = selector();
  const plan::Question q = question_of(o);
  const plan::Choice choice = table.explain(q);
  const plan::Cost cost = choice.algorithm->cost({o.ranks, 0, o.root, hosts_of(o)});
  fmt::print("{} of {} bytes between {} ranks {}: {}\n", o.collective, plan::format_size(q.bytes), o.ranks,
             q.one_host ? "that share memory" : "over a network", choice.algorithm->name);
  fmt::print("  why    {}\n", choice.reason);
  fmt::print("  what   {} ({})\n", choice.algorithm->summary, choice.algorithm->source);
  fmt::print("  cost   {}{:.4g} x {} bytes by the busiest rank\n\n", steps_text(*choice.algorithm, cost.steps),
             cost.volume, plan::format_size(q.bytes));
  fmt::print("the table for {}, a later line wins:\n", o.collective);
  for (const plan::Rule& rule : table.rules()) {
    if (rule.collective == q.collective)
      fmt::print("  {}{}\n", plan::to_text(rule), rule.built_in ? "" : "   (UNISONO_ALGORITHM)");
  }
  return 0;
}

// ---- one algorithm: text, JSON, drawing, proof

const plan::Algorithm& algorithm_of(const Options& o) {
  const Collective collective = collective_of(o);
  if (o.algorithm.empty()) {
    const plan::Choice choice = selector().explain(question_of(o));
    fmt::print(stderr, "unisono: no --algorithm given, showing {}: {}\n", choice.algorithm->name, choice.reason);
    return *choice.algorithm;
  }
  const plan::Algorithm* found = plan::find_algorithm(collective, o.algorithm);
  if (found == nullptr) {
    throw UsageError(fmt::format("no algorithm \"{}\" for {}: there are {}", o.algorithm, o.collective,
                                 fmt::join(algorithm_names(collective), ", ")));
  }
  return *found;
}

int prove(const plan::Algorithm& algorithm, const Options& o) {
  const plan::Report report = o.hosts.empty() ? plan::verify(algorithm, o.ranks, o.root)
                                              : plan::verify(algorithm, {o.ranks, 0, o.root, hosts_of(o)});
  const std::string subject = fmt::format("{} {}, {} ranks{}", name_of(algorithm.collective), algorithm.name, o.ranks,
                                          rooted(algorithm.collective) ? fmt::format(", root {}", o.root) : "");
  if (!report.ok()) {
    fmt::print("{}: {} violation{}\n{}", subject, report.violations.size(), report.violations.size() == 1 ? "" : "s",
               report.text());
    return 1;
  }
  fmt::print(
      "{}: proved\n"
      "  every contribution exactly once, in place and out of place; no undefined read; no write to an input\n"
      "  no race, no deadlock without any buffering; three slices in flight in windows of 1 and 2\n"
      "  the same reduction tree on all ranks, one final reduce; messages and signals match\n"
      "  {} {}, {:.4g} S by the busiest rank: as the closed form says\n",
      subject, report.counted.steps, plan::needs_one_host(algorithm.place) ? "phases" : "rounds",
      report.counted.volume);
  return 0;
}

int show(const Options& o) {
  check_group(o);
  const plan::Algorithm& algorithm = algorithm_of(o);
  if (o.verify) return prove(algorithm, o);
  if (!o.draw.empty() && o.ranks > plan::kMostRanksToDraw) {
    throw UsageError(fmt::format("a drawing of {} ranks cannot be read: at most {}", o.ranks, plan::kMostRanksToDraw));
  }
  const std::vector<plan::Plan> plans = plan::build_all(algorithm, {o.ranks, 0, o.root, hosts_of(o)});
  if (o.draw == "svg") {
    fmt::print("{}", plan::draw_svg(plans));
  } else if (o.draw == "text") {
    fmt::print("{}", plan::draw_text(plans));
  } else if (o.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const plan::Plan& p : plans) json.push_back(plan::to_json(p));
    fmt::print("{}\n", (o.rank >= 0 ? json[static_cast<std::size_t>(o.rank)] : json).dump());
  } else {
    for (const plan::Plan& p : plans) {
      if (o.rank < 0 || o.rank == p.shape.rank) fmt::print("{}\n", plan::to_text(p));
    }
  }
  return 0;
}

// ---- unisono plan --verify-all

// One algorithm at one size, every root.
struct Job {
  std::size_t row;
  int ranks;
};

struct Row {
  const plan::Algorithm* algorithm;
  std::int64_t proofs = 0;
  double seconds = 0;
  std::string failure;  // the first
};

std::vector<int> sizes_up_to(int max) {
  std::vector<int> sizes;
  for (int n = 1; n <= std::min(max, 33); n++) sizes.push_back(n);
  for (const int n : {64, 127, 128}) {
    if (n <= max) sizes.push_back(n);
  }
  return sizes;
}

class VerifyAll {
 public:
  explicit VerifyAll(const Options& o) : sizes_(sizes_up_to(o.max)), bar_(isatty(STDERR_FILENO) != 0) {
    for (const plan::Algorithm& a : plan::algorithms()) rows_.push_back({&a, 0, 0, {}});
    // The longest first, so that no thread is left alone with a long one at the end.
    for (auto n = sizes_.rbegin(); n != sizes_.rend(); ++n) {
      for (std::size_t row = 0; row < rows_.size(); row++) jobs_.push_back({row, *n});
    }
    threads_ = o.threads != 0 ? o.threads : std::max(1u, std::thread::hardware_concurrency());
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < threads_; i++) threads.emplace_back([this] { work(); });
    }
    if (bar_) fmt::print(stderr, "\r\033[K");
    return report(Seconds(std::chrono::steady_clock::now() - start).count());
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) prove(jobs_[i]);
  }

  void prove(const Job& job) {
    const plan::Algorithm& algorithm = *rows_[job.row].algorithm;
    const int roots = rooted(algorithm.collective) ? job.ranks : 1;
    const auto start = std::chrono::steady_clock::now();
    std::string failure;
    int proofs = 0;
    for (int root = 0; root < roots && failure.empty(); root++, proofs++) {
      // Slices in flight do not know the root's number: beyond 33 ranks the first and the last root stand for all.
      const bool windows = job.ranks <= 33 || root == 0 || root == roots - 1;
      const plan::Report found = plan::verify(algorithm, job.ranks, root, windows);
      if (!found.ok()) failure = fmt::format("{} ranks, root {}:\n{}", job.ranks, root, found.text());
    }
    const double seconds = Seconds(std::chrono::steady_clock::now() - start).count();
    const std::lock_guard lock(mutex_);
    Row& row = rows_[job.row];
    row.proofs += proofs;
    row.seconds += seconds;
    if (row.failure.empty()) row.failure = failure;
    done_++;
    if (bar_) {
      fmt::print(stderr, "\r\033[K[{:>3}%] {} of {}: {} {}, {} ranks", 100 * done_ / jobs_.size(), done_, jobs_.size(),
                 name_of(algorithm.collective), algorithm.name, job.ranks);
    }
  }

  int report(double elapsed) const {
    std::string sizes = sizes_.back() <= 33 ? fmt::format("1-{}", sizes_.back())
                                            : fmt::format("1-33 {}", fmt::join(sizes_.begin() + 33, sizes_.end(), " "));
    fmt::print("{:<15} {:<22} {:<18} {:>7} {:>8}  {}\n", "collective", "algorithm", "ranks", "proofs", "seconds",
               "verdict");
    std::int64_t proofs = 0, failed = 0;
    for (const Row& row : rows_) {
      fmt::print("{:<15} {:<22} {:<18} {:>7} {:>8.2f}  {}\n", name_of(row.algorithm->collective), row.algorithm->name,
                 sizes, row.proofs, row.seconds, row.failure.empty() ? "proved" : "WRONG");
      proofs += row.proofs;
      failed += row.failure.empty() ? 0 : 1;
    }
    fmt::print("{} algorithms, {} proofs, every root, in {:.1f} s on {} thread{}: ", rows_.size(), proofs, elapsed,
               threads_, threads_ == 1 ? "" : "s");
    if (failed == 0) {
      fmt::print("all proved\n");
      return 0;
    }
    fmt::print("{} WRONG\n", failed);
    for (const Row& row : rows_) {
      if (!row.failure.empty())
        fmt::print("\n{} {}, {}", name_of(row.algorithm->collective), row.algorithm->name, row.failure);
    }
    return 1;
  }

  std::vector<int> sizes_;
  std::vector<Row> rows_;
  std::vector<Job> jobs_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // rows_, done_ and the progress line
  std::size_t done_ = 0;
  unsigned threads_ = 1;
  bool bar_;
};

int run(const Options& o) {
  try {
    if (o.list) return list_algorithms();
    if (o.verify_all) {
      if (o.max < 1) throw UsageError(fmt::format("--max {}: at least one rank", o.max));
      return VerifyAll(o).run();
    }
    return o.explain ? explain(o) : show(o);
  } catch (const UsageError& error) {
    fmt::print(stderr, "unisono plan: {}\n", error.what());
    return 2;
  }
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* plan = app.add_subcommand("plan", "Show, draw, verify and explain the algorithms; nothing is run");
  plan->footer(std::string(kExamples));
  plan->add_option("collective", options->collective, fmt::format("{}", fmt::join(collective_names(), ", ")));
  plan->add_option("-n,--ranks", options->ranks, "How many ranks");
  plan->add_option("-a,--algorithm", options->algorithm, "An algorithm of --list; without it the one that would run");
  plan->add_option("--root", options->root, "The root, for collectives that have one");
  plan->add_option("--rank", options->rank, "Show this rank's plan only");
  plan->add_flag("--verify", options->verify, "Prove the algorithm for this group; exit status 1 when it is wrong");
  plan->add_option("--draw", options->draw, "A picture of all ranks: text (a table) or svg (a time-space diagram)")
      ->check(CLI::IsMember({"text", "svg"}));
  plan->add_flag("--json", options->json, "Plans as JSON");
  plan->add_flag("--list", options->list, "List all algorithms");
  plan->add_flag("--verify-all", options->verify_all,
                 "Prove all algorithms for 1-33, 64, 127 and 128 ranks and every root");
  plan->add_option("--max", options->max, "--verify-all: up to this many ranks");
  plan->add_option("--threads", options->threads, "--verify-all: how many threads (default: one a core)");
  plan->add_flag("--explain", options->explain, "Say what would run for --bytes, and why (honours UNISONO_ALGORITHM)");
  plan->add_option("--bytes", options->bytes, "Size of the collective: 4096, 64K, 1M")->capture_default_str();
  plan->add_option("--memory", options->memory, "with --explain: where the buffers lie; shared: from Group::allocate")
      ->check(CLI::IsMember({"private", "shared"}))
      ->capture_default_str();
  plan->add_option("--place", options->place, "shm: all ranks on one host; net: not")
      ->check(CLI::IsMember({"shm", "net"}))
      ->capture_default_str();
  plan->add_option("--hosts", options->hosts,
                   "How many ranks each host has: 2,2; for algorithms that look at it, and --explain");
  plan->callback([options, &status] { status = run(*options); });
}

}  // namespace unisono::cli
