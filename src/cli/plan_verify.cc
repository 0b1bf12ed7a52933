/// `unisono plan --verify` and `--verify-all`.

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/plan_options.h"
#include "plan/verify.h"

namespace unisono::cli {

namespace {

using Seconds = std::chrono::duration<double>;

// One algorithm at one size, every root.
struct Job {
  std::size_t row;
  int ranks;
};

struct Verdict {
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
  explicit VerifyAll(const PlanOptions& o)
      : sizes_(sizes_up_to(o.max)), bar_(isatty(STDERR_FILENO) != 0), json_(o.json) {
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
      threads.reserve(threads_);
      for (unsigned i = 0; i < threads_; i++) threads.emplace_back([this] { work(); });
    }
    if (bar_) fmt::print(stderr, "\r\033[K");
    if (json_) return report_as_json();
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
    Verdict& row = rows_[job.row];
    row.proofs += proofs;
    row.seconds += seconds;
    if (row.failure.empty()) row.failure = failure;
    done_++;
    if (bar_) {
      fmt::print(stderr, "\r\033[K[{:>3}%] {} of {}: {} {}, {} ranks", 100 * done_ / jobs_.size(), done_, jobs_.size(),
                 name_of(algorithm.collective), algorithm.name, job.ranks);
    }
  }

  int report_as_json() const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Verdict& row : rows_)
      list.push_back({{"collective", name_of(row.algorithm->collective)},
                      {"algorithm", row.algorithm->name},
                      {"ranks", sizes_},
                      {"proofs", row.proofs},
                      {"seconds", row.seconds},
                      {"proved", row.failure.empty()},
                      {"failure", row.failure}});
    fmt::print("{}\n", list.dump());
    return std::ranges::all_of(rows_, [](const Verdict& row) { return row.failure.empty(); }) ? 0 : 1;
  }

  int report(double elapsed) const {
    std::string sizes = sizes_.back() <= 33 ? fmt::format("1-{}", sizes_.back())
                                            : fmt::format("1-33 {}", fmt::join(sizes_.begin() + 33, sizes_.end(), " "));
    fmt::print("{:<15} {:<22} {:<18} {:>7} {:>8}  {}\n", "collective", "algorithm", "ranks", "proofs", "seconds",
               "verdict");
    std::int64_t proofs = 0, failed = 0;
    for (const Verdict& row : rows_) {
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
    for (const Verdict& row : rows_) {
      if (!row.failure.empty())
        fmt::print("\n{} {}, {}", name_of(row.algorithm->collective), row.algorithm->name, row.failure);
    }
    return 1;
  }

  std::vector<int> sizes_;
  std::vector<Verdict> rows_;
  std::vector<Job> jobs_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // rows_, done_ and the progress line
  std::size_t done_ = 0;
  unsigned threads_ = 1;
  bool bar_, json_;
};

}  // namespace

namespace {
int prove_as_json(const plan::Algorithm& algorithm, const PlanOptions& o, const plan::Report& report, std::FILE* to) {
  nlohmann::ordered_json violations = nlohmann::ordered_json::array();
  for (const auto& violation : report.violations) violations.push_back(violation.text);
  const nlohmann::ordered_json j{{"collective", name_of(algorithm.collective)},
                                 {"algorithm", algorithm.name},
                                 {"ranks", o.ranks},
                                 {"root", o.root},
                                 {"proved", report.ok()},
                                 {"violations", violations},
                                 {"steps", report.counted.steps},
                                 {"volume", report.counted.volume}};
  fmt::print(to, "{}\n", j.dump());
  return report.ok() ? 0 : 1;
}
}  // namespace

int prove(const plan::Algorithm& algorithm, const PlanOptions& o, std::FILE* to) {
  const bool listed = !o.hosts.empty() || !o.nodes.empty() || o.per_host > 0;
  const plan::Report report = listed ? plan::verify(algorithm, {o.ranks, 0, o.root, hosts_of(o), nodes_of(o)})
                                     : plan::verify(algorithm, o.ranks, o.root);
  if (o.json) return prove_as_json(algorithm, o, report, to);
  const std::string subject = fmt::format("{} {}, {} ranks{}", name_of(algorithm.collective), algorithm.name, o.ranks,
                                          rooted(algorithm.collective) ? fmt::format(", root {}", o.root) : "");
  if (!report.ok()) {
    fmt::print(to, "{}: {} violation{}\n{}", subject, report.violations.size(),
               report.violations.size() == 1 ? "" : "s", report.text());
    return 1;
  }
  fmt::print(to,
             "{}: proved\n"
             "  every contribution exactly once, in place and out of place; no undefined read; no write to an input\n"
             "  no race, no deadlock without any buffering; three slices in flight in windows of 1 and 2\n"
             "  the same reduction tree on all ranks, one final reduce; messages and signals match\n"
             "  {} {}, {:.4g} S by the busiest rank: as the closed form says\n",
             subject, report.counted.steps, plan::needs_one_host(algorithm.place) ? "phases" : "rounds",
             report.counted.volume);
  return 0;
}

int prove_all(const PlanOptions& o) {
  if (o.max < 1) throw UsageError(fmt::format("--max {}: at least one rank", o.max));
  return VerifyAll(o).run();
}

}  // namespace unisono::cli
