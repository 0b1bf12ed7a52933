#include "cli/bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/median.h"
#include "cli/bench/measure.h"
#include "cli/bench/values.h"
#include "cli/cores.h"
#include "plan/select.h"
#include "tuning/record.h"
#include "tuning/topology.h"
#include "unisono/unisono.hpp"

namespace unisono::cli {

namespace {

constexpr int kRounds = 9, kRoundsBeforeDropping = 3;
constexpr double kHopeless = 4, kBehind = 1.6;  // times the best: after the first calls, and after a few rounds
constexpr int kMostTurns = 3;  // all rounds once more while the choice looks worse than kAgain, but not clearly so
constexpr double kAgain = 1.12;
constexpr std::int64_t kMostCalls = 400;  // in a round

/// A word about other programs: figures from a busy machine say more about them.
void warn_when_busy(const Group& group) {
  double load = 0;
  const auto cores = static_cast<double>(affinity_cores());
  if (group.rank() == 0 && std::ifstream("/proc/loadavg") >> load && load > cores / 2)
    fmt::print("# this machine is busy (load {} on {:.0f} cores): tune again when it is quiet\n", load, cores);
}

/// The place of the rules that this group needs.
std::string_view place_of(const Group& group) {
  const std::string_view transport = group.transport();
  if (transport == "mixed") return "hosts";
  if (transport != "shm" && transport != "inproc") return "net";
  return tuning::several_nodes(group.topology()) ? "nodes" : "shm";
}

/// As programs call it: all_reduce and broadcast have one buffer, the others two.
bool usually_in_place(Collective c) { return c == Collective::all_reduce || c == Collective::broadcast; }

/// Every figure that a decision rests on is the same on all ranks (sample()), so all come to the
/// same decisions without a word.
class Tuner {
 public:
  Tuner(const Group& group, const Config& config, const TuneOptions& options)
      : group_(group),
        options_(options),
        overridden_(config.algorithm),
        one_host_(place_of(group) == "shm" || place_of(group) == "nodes"),
        selector_(value_or_throw(plan::Selector::parse(group.algorithms()))),
        shared_(group, MemoryKind::shared) {}

  std::vector<TunePoint> run() {
    std::vector<TunePoint> points;
    for (const Collective collective : options_.collectives)
      for (const bool shared : {false, true})
        for (const std::int64_t bytes : sizes_of(collective))
          if (auto point = measure_point(collective, bytes, shared)) {
            print(*point);
            points.push_back(std::move(*point));
          }
    return points;
  }

 private:
  std::vector<std::int64_t> sizes_of(Collective c) const {
    return c == Collective::barrier ? std::vector<std::int64_t>{0} : options_.sizes;
  }

  /// The count whose total is the size, rounded down, at least one.
  Problem problem_of(Collective collective, std::int64_t bytes) const {
    Problem p{collective, DType::f32, ReduceOp::sum, 0, group_.size(), 1};
    p.count = collective == Collective::barrier ? 0 : std::max<std::int64_t>(1, bytes / total_bytes(p));
    return p;
  }

  /// Small operands in shared memory travel with the announcement: there is nothing to choose.
  bool has_choice(const Problem& p) const { return !plan::goes_inline(question_of(group_, p), overridden_); }

  /// What can run: with shared buffers the algorithms that need them against the one that private
  /// buffers get.
  TunePoint candidates_of(const Problem& p, bool shared) const {
    TunePoint point{p.collective, total_bytes(p), shared, {}, 0, 0, 0};
    plan::Question question = question_of(group_, p);
    question.shared_buffers = question.shared_outputs = shared;
    const plan::Algorithm* in_force = selector_.choose(question);
    plan::Question possible = question;
    possible.peer_memory = one_host_;  // a group that may not says so when it is tried
    const plan::Algorithm* rival = shared ? nullptr : selector_.choose(possible);
    question.shared_buffers = question.shared_outputs = false;
    const plan::Algorithm* without = selector_.choose(question);
    for (const plan::Algorithm& a : plan::algorithms()) {
      if (a.collective != p.collective || !plan::why_not(a, possible).empty()) continue;
      if (shared && !plan::needs_shared_buffers(a.place) && &a != without) continue;
      if (&a == in_force)
        point.in_force = point.candidates.size();
      else if (&a == rival)
        point.rival = point.candidates.size();
      point.candidates.push_back({&a, {}});
    }
    return point;
  }

  std::optional<TunePoint> measure_point(Collective collective, std::int64_t bytes, bool shared) {
    const Problem p = problem_of(collective, bytes);
    if ((shared && (!one_host_ || collective == Collective::barrier)) || !has_choice(p)) return std::nullopt;
    TunePoint point = candidates_of(p, shared);
    BenchMemory& memory = shared ? shared_ : private_;
    prepare(group_, p, memory);
    const auto seconds = [&](const Candidate& c, std::int64_t calls) {
      MeasureOptions options;
      options.algorithm = c.algorithm->name;
      return lower_quartile(sample(group_, p, usually_in_place(collective), options, memory, calls));
    };
    std::vector<double> first = try_out(point, seconds);
    for (int turn = 0; turn < kMostTurns; turn++) {
      measure_rounds(point, first, seconds);
      choose(point);
      if (point.unsettled() && turn + 1 < kMostTurns)
        begin_anew(point, first);
      else if (point.behind(point.chosen) <= kAgain)
        break;
    }
    settle(point);
    return point;
  }

  /// Seconds of the first calls of each candidate. One that the group refuses, on all ranks and
  /// before anything is sent, is none.
  template <class Seconds>
  static std::vector<double> try_out(TunePoint& point, const Seconds& seconds) {
    std::vector<double> first;
    std::vector<Candidate> willing;
    std::size_t in_force = 0;
    std::optional<std::size_t> rival;
    for (std::size_t i = 0; i < point.candidates.size(); i++) {
      const Candidate& c = point.candidates[i];
      try {
        seconds(c, 2);  // connections and plans come with the first calls
        first.push_back(seconds(c, 3));
      } catch (const InvalidArgument&) {
        continue;
      }
      if (i == point.in_force) in_force = willing.size();
      if (i == point.rival) rival = willing.size();
      willing.push_back(c);
    }
    point.candidates = std::move(willing);
    point.in_force = in_force;
    point.rival = rival;
    return first;
  }

  /// All rounds once more, as if nothing had been measured but that: what looked hopeless or was
  /// dropped, and is faster, is let in again.
  static void begin_anew(TunePoint& point, std::vector<double>& first) {
    for (std::size_t i = 0; i < first.size(); i++) {
      first[i] = point.candidates[i].seconds();
      point.candidates[i].rounds.clear();
    }
  }

  /// In turn, each round beginning with another one, so that what disturbs disturbs all alike.
  template <class Seconds>
  void measure_rounds(TunePoint& point, const std::vector<double>& first, const Seconds& seconds) const {
    const std::size_t n = point.candidates.size();
    std::vector<bool> in(n);
    const double least = *std::min_element(first.begin(), first.end());
    for (std::size_t i = 0; i < n; i++)
      in[i] = i == point.in_force || (first[i] < kHopeless * least && !point.dropped(i));
    for (int round = 0; round < kRounds; round++) {
      for (std::size_t k = 0; k < n; k++) {
        const std::size_t i = (k + static_cast<std::size_t>(round)) % n;
        if (!in[i]) continue;
        const double calls = options_.seconds / kRounds / std::max(first[i], 1e-9);
        point.candidates[i].rounds.push_back(
            seconds(point.candidates[i], static_cast<std::int64_t>(std::clamp(calls, 1.0, double{kMostCalls}))));
      }
      if (round + 1 != kRoundsBeforeDropping) continue;
      double best = point.candidates[point.in_force].seconds();
      for (std::size_t i = 0; i < n; i++)
        if (in[i]) best = std::min(best, point.candidates[i].seconds());
      for (std::size_t i = 0; i < n; i++)
        in[i] = in[i] && (i == point.in_force || point.candidates[i].seconds() < kBehind * best);
    }
    for (std::size_t i = 0; i < n; i++)
      if (point.candidates[i].rounds.empty()) point.candidates[i].rounds.push_back(first[i]);  // hopeless
  }

  void print(const TunePoint& p) const {
    if (group_.rank() != 0) return;
    const auto cell = [&](std::size_t i) {
      return fmt::format("{:<21} {:>9.1f}", p.candidates[i].algorithm->name, p.candidates[i].seconds() * 1e6);
    };
    fmt::print("{:<14} {:>6}  {:<7}  {}  {}  {:>5.2f}  {}\n", name_of(p.collective), plan::format_size(p.bytes),
               p.shared_buffers ? "shared" : "private", cell(p.runs(p.in_force)), cell(p.best), p.behind(p.in_force),
               p.chosen == p.in_force ? "stays" : p.candidates[p.chosen].algorithm->name);
    std::fflush(stdout);
  }

  const Group& group_;
  const TuneOptions& options_;
  std::string overridden_;
  bool one_host_;
  plan::Selector selector_;
  BenchMemory private_, shared_;
};

/// Where a choice was furthest from the best.
std::string worst(const std::vector<TunePoint>& points, std::size_t TunePoint::* choice) {
  const auto at = std::max_element(points.begin(), points.end(), [&](const TunePoint& a, const TunePoint& b) {
    return a.behind(a.*choice) < b.behind(b.*choice);
  });
  const std::size_t runs = at->runs((*at).*choice);
  return fmt::format("{:.2f} x the best ({} {}, {} buffers: {}, best {})", at->ratio(runs), name_of(at->collective),
                     plan::format_size(at->bytes), at->shared_buffers ? "shared" : "private",
                     at->candidates[runs].algorithm->name, at->candidates[at->best].algorithm->name);
}

std::int64_t beyond(const std::vector<TunePoint>& points, std::size_t TunePoint::* choice) {
  return std::count_if(points.begin(), points.end(),
                       [&](const TunePoint& p) { return p.behind(p.*choice) > kMostBehind; });
}

bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) fmt::print(stderr, "unisono bench: cannot write {}\n", path);
  return static_cast<bool>(file);
}

/// Into the record of this layout, which keeps what it knew of other collectives.
int keep(const Group& group, const Config& config, const std::vector<TunePoint>& points) {
  const std::string rules = rules_of(points, place_of(group), group.size());
  if (config.tuning == "off" || config.cache.empty()) {
    fmt::print("# not kept ({}); as UNISONO_ALGORITHM it would be\n{}\n",
               config.cache.empty() ? "there is no cache folder: set UNISONO_CACHE" : "UNISONO_TUNING=off", rules);
    return 0;
  }
  const auto file = tuning::file_of(config.cache, group.topology());
  tuning::Record record;
  if (auto earlier = tuning::read(file, group.topology()); earlier && *earlier) record = std::move(**earlier);
  record.topology = group.topology();
  record.made = tuning::timestamp();
  record.by = "unisono bench --tune";
  record.rules = merge_rules(record.rules, points, rules);
  record.measured = rows_json(points, group.size());
  if (const Status written = tuning::write(file, record); !written.ok()) {
    fmt::print(stderr, "unisono bench: {}\n", written.message());
    return 1;
  }
  fmt::print("# kept in {} for\n", file.string());
  for (std::size_t begin = 0; begin < record.topology.size();) {
    const std::size_t end = record.topology.find('\n', begin);
    fmt::print("#   {}\n", record.topology.substr(begin, end - begin));
    begin = end + 1;
  }
  return 0;
}

}  // namespace

std::vector<std::int64_t> tune_ladder() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 256; bytes <= std::int64_t{16} << 20; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::string rows_json(const std::vector<TunePoint>& points, int ranks) {
  std::string text;
  for (const TunePoint& p : points)
    for (std::size_t i = 0; i < p.candidates.size(); i++) {
      nlohmann::ordered_json row;
      row["collective"] = name_of(p.collective);
      row["ranks"] = ranks;
      row["bytes"] = p.bytes;
      row["memory"] = p.shared_buffers ? "shared" : "private";
      row["algorithm"] = p.candidates[i].algorithm->name;
      row["time_us"] = std::stod(fmt::format("{:.6g}", p.candidates[i].seconds() * 1e6));
      row["in_force"] = i == p.in_force;
      row["chosen"] = i == p.chosen;
      row["rival"] = i == p.rival;
      text += (text.empty() ? "[\n" : ",\n") + row.dump();
    }
  return (text.empty() ? "[" : text + "\n") + "]\n";
}

int tune(const Group& group, const Config& config, const TuneOptions& options) {
  warn_when_busy(group);
  if (group.rank() == 0)
    fmt::print(
        "# unisono {}: tuning {} ranks over {}; us a call in a row (where there is a root: and a barrier), of the "
        "slowest rank, medians over {} rounds of the lower quartiles\n{:<14} {:>6}  {:<7}  {:<31}  "
        "{:<31}  {:>5}  {}\n",
        version(), group.size(), group.transport(), kRounds, "# collective", "bytes", "memory", "in force", "best",
        "ratio", "chosen");
  const std::vector<TunePoint> points = Tuner(group, config, options).run();
  if (group.rank() != 0) return 0;
  if (points.empty()) {
    fmt::print("# nothing to choose\n");
    return 0;
  }
  fmt::print("# in force: {} of {} sizes beyond {} x the best; worst {}\n", beyond(points, &TunePoint::in_force),
             points.size(), kMostBehind, worst(points, &TunePoint::in_force));
  fmt::print("# chosen:   {} of {} sizes beyond {} x the best; worst {}\n", beyond(points, &TunePoint::chosen),
             points.size(), kMostBehind, worst(points, &TunePoint::chosen));
  const std::string title = fmt::format("{} ranks over {}", group.size(), group.transport());
  const bool written =
      write_file(options.plot, plot_svg(points, title)) && write_file(options.json, rows_json(points, group.size()));
  const int kept = keep(group, config, points);
  return written ? kept : 1;
}

}  // namespace unisono::cli
