#include "engine/wait_cycles.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace unisono::engine {

using Kind = WaitNotice::Kind;

namespace {
constexpr Duration kBetweenLooks = std::chrono::milliseconds(100), kLongestPause = std::chrono::seconds(60);
/// So many are asked, and so many paths remembered, at most: more of them say no more.
constexpr std::size_t kMostAsked = 16, kMostPaths = 64, kMostMail = 1024;

/// SplitMix64: numbers that do not meet those of other processes.
std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
}  // namespace

WaitCycles::WaitCycles(Messenger& messenger, const Clock& clock, PeerId self, Logger log,
                       std::function<bool()> only_thread)
    : messenger_(messenger),
      clock_(clock),
      log_(std::move(log)),
      only_thread_(std::move(only_thread)),
      next_wait_(mix(self.low ^ mix(self.high))) {
  messenger_.hear_waits([this](int peer, std::span<const std::byte> bytes) { hear(peer, bytes); });
}

WaitCycles::~WaitCycles() { messenger_.hear_waits(nullptr); }

void WaitCycles::note_other() noexcept {
  const void* nobody = nullptr;
  if (!caller_.compare_exchange_strong(nobody, this_thread())) several_callers_.store(true);
}

void WaitCycles::enlist(std::uint64_t group, std::weak_ptr<const Calls> calls) {
  const std::lock_guard lock(mutex_);
  std::erase_if(calls_, [](const auto& known) { return known.second.expired(); });
  calls_[group] = std::move(calls);
}

/// Of a group that is not known here: more than anybody asks for.
std::uint64_t WaitCycles::called(std::uint64_t group) const {
  std::shared_ptr<const Calls> calls;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = calls_.find(group); known != calls_.end()) calls = known->second.lock();
  }
  return calls == nullptr ? std::numeric_limits<std::uint64_t>::max() : calls->called();
}

/// Under the messenger's lock.
void WaitCycles::hear(int peer, std::span<const std::byte> bytes) {
  auto notice = WaitNotice::decode(bytes);
  if (!notice) {
    log_.warn(notice.status().message());
    return;
  }
  const std::lock_guard lock(mutex_);
  if (notice->kind == Kind::ask)
    questions_[peer] = std::move(notice).value();
  else if (current_ != 0 && notice->to == current_ && mail_.size() < kMostMail)
    mail_.push_back({peer, std::move(notice).value()});
  else
    return;
  news_.store(true, std::memory_order_relaxed);
}

/// The number of a new wait; 0: another thread's is heard of.
std::uint64_t WaitCycles::enter() {
  const std::lock_guard lock(mutex_);
  if (current_ != 0) return 0;
  if (++next_wait_ == 0) ++next_wait_;
  return current_ = next_wait_;
}

void WaitCycles::leave() {
  const std::lock_guard lock(mutex_);
  current_ = 0;
  mail_.clear();
}

std::map<int, WaitNotice> WaitCycles::take_questions() {
  const std::lock_guard lock(mutex_);
  return std::exchange(questions_, {});
}

std::vector<WaitCycles::Mail> WaitCycles::take_mail() {
  const std::lock_guard lock(mutex_);
  return std::exchange(mail_, {});
}

// --- one wait ------------------------------------------------------------------------------------

struct WaitCycles::Search::State {
  /// A peer in a wait that lasts as long as this one.
  struct Edge {
    std::uint64_t wait;
    bool certain;
  };
  std::uint64_t number;
  bool alone;  ///< no other thread can call
  TimePoint ask_at;
  Duration pause = kPatience;
  std::map<int, Edge> edges;                ///< by peer
  std::vector<std::vector<WaitHop>> paths;  ///< that lead here; the first is empty: it begins here
  /// The waits at which cycles begin of which the log has a line.
  std::set<std::uint64_t> told;
  Status cycle;           ///< that was found and is certain
  std::string suspicion;  ///< one that may not be
};

WaitCycles::Search::Search(WaitCycles& cycles, Blocked& blocked, TimePoint started) noexcept
    : cycles_(cycles), blocked_(blocked), started_(started) {}

WaitCycles::Search::~Search() {
  if (state_ != nullptr) cycles_.leave();
}

bool WaitCycles::Search::enter(TimePoint now) {
  if (state_ != nullptr) return true;
  const std::uint64_t number = cycles_.enter();
  if (number == 0) return false;
  state_ = std::make_unique<State>();
  state_->number = number;
  state_->alone = cycles_.only_thread_();
  state_->ask_at = now;
  state_->paths.emplace_back();
  return true;
}

TimePoint WaitCycles::Search::look(TimePoint now) {
  if (!enter(now)) return saturating_add(now, kPatience);
  if (now >= state_->ask_at) ask();
  // Before it is taken: what comes meanwhile is news again.
  cycles_.news_.store(false, std::memory_order_relaxed);
  for (const auto& [peer, question] : cycles_.take_questions()) answer(peer, question);
  for (const Mail& mail : cycles_.take_mail()) hear(mail.peer, mail.notice);
  return saturating_add(now, kBetweenLooks);
}

void WaitCycles::Search::ask() {
  State& s = *state_;
  s.ask_at = saturating_add(cycles_.clock_.now(), s.pause);
  s.pause = std::min(2 * s.pause, kLongestPause);
  std::vector<int> peers = blocked_.peers();
  if (peers.size() > kMostAsked) peers.resize(kMostAsked);
  WaitNotice question;
  question.wait = s.number;
  question.group = blocked_.group();
  question.sequence = blocked_.sequence();
  const auto bytes = question.encode();
  for (const int peer : peers) cycles_.messenger_.send_wait(peer, bytes);
}

bool WaitCycles::Search::certain() const {
  return state_->alone && blocked_.lasts() && !cycles_.several_callers_.load() && cycles_.callbacks_->load() == 0;
}

void WaitCycles::Search::answer(int peer, const WaitNotice& question) {
  // It takes part.
  if (question.sequence > 0 && cycles_.called(question.group) >= question.sequence) return;
  WaitNotice notice;
  notice.kind = Kind::confirm;
  notice.to = question.wait;
  notice.wait = state_->number;
  notice.certain = certain();
  cycles_.messenger_.send_wait(peer, notice.encode());
}

void WaitCycles::Search::hear(int peer, const WaitNotice& notice) {
  switch (notice.kind) {
    case Kind::ask:
      return;
    case Kind::confirm:
      return on_confirm(peer, notice);
    case Kind::path:
      return on_path(notice);
    case Kind::cycle:
    case Kind::end:
      return on_cycle(notice);
  }
}

void WaitCycles::Search::on_confirm(int peer, const WaitNotice& notice) {
  // All that the peer has sent before is here. It may be what is waited for.
  const std::vector<int> peers = blocked_.peers();
  if (std::ranges::find(peers, peer) == peers.end()) return;
  State& s = *state_;
  const auto known = s.edges.find(peer);
  if (known != s.edges.end() && known->second.wait == notice.wait) return;
  s.edges[peer] = {notice.wait, notice.certain};
  for (const auto& path : s.paths) send_path(path, peer);
}

WaitHop WaitCycles::Search::hop(bool certain) const {
  const double seconds = std::chrono::duration<double>(cycles_.clock_.now() - started_).count();
  return {state_->number, certain, blocked_.sequence() > 0, blocked_.rank(),
          fmt::format("{} since {:.1f} s", blocked_.describe(), seconds)};
}

void WaitCycles::Search::send_path(std::span<const WaitHop> before, int peer) {
  const State::Edge& edge = state_->edges.at(peer);
  WaitNotice notice;
  notice.kind = Kind::path;
  notice.to = edge.wait;
  notice.wait = state_->number;
  notice.hops.assign(before.begin(), before.end());
  notice.hops.push_back(hop(certain() && edge.certain));
  cycles_.messenger_.send_wait(peer, notice.encode());
}

void WaitCycles::Search::on_path(const WaitNotice& notice) {
  State& s = *state_;
  if (notice.hops.empty()) return;
  const std::uint64_t begin = notice.hops.front().wait;
  if (begin == s.number) {
    if (!s.told.insert(begin).second) return;
    WaitNotice found = notice;
    found.kind = Kind::cycle;
    note(found);
    return pass_on(found);
  }
  // Of a cycle the path that begins at its smallest number comes round; others need not.
  if (begin > s.number || s.paths.size() >= kMostPaths) return;
  if (std::ranges::find(notice.hops, s.number, &WaitHop::wait) != notice.hops.end()) return;
  for (const auto& path : s.paths)
    if (!path.empty() && path.front().wait == begin) return;
  s.paths.push_back(notice.hops);
  for (const auto& [peer, edge] : s.edges) send_path(notice.hops, peer);
}

/// To whom this process waits for in the cycle.
void WaitCycles::Search::pass_on(const WaitNotice& notice) {
  const auto& hops = notice.hops;
  const auto here = std::ranges::find(hops, state_->number, &WaitHop::wait);
  if (here == hops.end()) return;
  const std::uint64_t next = std::next(here) == hops.end() ? hops.front().wait : std::next(here)->wait;
  for (const auto& [peer, edge] : state_->edges) {
    if (edge.wait != next) continue;
    WaitNotice passed = notice;
    passed.to = next;
    passed.wait = state_->number;
    cycles_.messenger_.send_wait(peer, passed.encode());
  }
}

void WaitCycles::Search::note(const WaitNotice& notice) {
  State& s = *state_;
  const std::string text = describe_cycle(notice.hops);
  if (std::ranges::all_of(notice.hops, &WaitHop::certain)) {
    const auto here = std::ranges::find(notice.hops, s.number, &WaitHop::wait);
    if (here == notice.hops.end()) return;
    const WaitHop& next = std::next(here) == notice.hops.end() ? notice.hops.front() : *std::next(here);
    s.cycle = Status::mismatch(text, blocked_.rank(), next.rank);
  } else if (s.suspicion.empty()) {
    s.suspicion = text;
    cycles_.log_.warn(
        fmt::format("it seems that {}. (It is no error yet: another thread may call, or a call give up.)", text));
  }
}

/// All in the cycle hear of it before the first of them ends: an end, too, is something that others
/// would raise.
void WaitCycles::Search::on_cycle(const WaitNotice& notice) {
  State& s = *state_;
  const bool began_here = !notice.hops.empty() && notice.hops.front().wait == s.number;
  if (notice.kind == Kind::cycle && !began_here) {
    note(notice);
    return pass_on(notice);
  }
  if (s.cycle.ok()) return;  // it is not certain
  WaitNotice end = notice;
  end.kind = Kind::end;
  pass_on(end);
  blocked_.end(s.cycle);
}

Status WaitCycles::Search::explain(Status status) const {
  if (status.ok() || state_ == nullptr) return status;
  if (!state_->cycle.ok()) return state_->cycle;
  if (status.code() != Code::timeout || state_->suspicion.empty()) return status;
  return status.with_message(fmt::format("{}. It seems that {}", status.message(), state_->suspicion));
}

}  // namespace unisono::engine
