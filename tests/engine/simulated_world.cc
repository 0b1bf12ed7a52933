#include "engine/simulated_world.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <optional>

#include "plan/registry.h"

namespace unisono::engine::test {

namespace {

constexpr std::uint64_t kGroup = 7;

/// Connections carry nothing but who they are from: authentication has its own tests.
class PlainHandshake final : public Handshake {
 public:
  explicit PlainHandshake(PeerId self) : self_(self), out_(sizeof self) {
    std::memcpy(out_.data(), &self_, sizeof self_);
  }
  std::vector<std::byte> take_output() override { return std::exchange(out_, {}); }
  State feed(std::span<const std::byte> input, std::size_t& consumed) override {
    consumed = std::min(input.size(), sizeof peer_ - got_.size());
    got_.insert(got_.end(), input.begin(), input.begin() + static_cast<std::ptrdiff_t>(consumed));
    if (got_.size() < sizeof peer_) return State::more;
    std::memcpy(&peer_, got_.data(), sizeof peer_);
    return State::done;
  }
  PeerId peer() const override { return peer_; }
  std::string reason() const override { return ""; }

 private:
  PeerId self_, peer_;
  std::vector<std::byte> out_, got_;
};

class PlainHandshakes final : public HandshakeFactory {
 public:
  explicit PlainHandshakes(PeerId self) : self_(self) {}
  std::unique_ptr<Handshake> dial(const PeerId&) override { return std::make_unique<PlainHandshake>(self_); }
  std::unique_ptr<Handshake> accept() override { return std::make_unique<PlainHandshake>(self_); }

 private:
  PeerId self_;
};

std::int64_t value(int rank, std::int64_t i) { return (rank + 1) * 1000003 + i * 7 + (i % 3) * rank; }

/// What rank r contributes to, and expects of, each collective: the definition in unisono/group.hpp, written plainly.
struct Reference {
  const Scenario& s;
  int n;
  std::int64_t part(int q) const { return s.counts.empty() ? s.count : s.counts[static_cast<std::size_t>(q)]; }
  std::int64_t before(int q) const {
    std::int64_t sum = 0;
    for (int i = 0; i < q; i++) sum += part(i);
    return sum;
  }
  std::int64_t input_size(int r) const {
    switch (s.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
        return s.count;
      case Collective::broadcast:
        return r == s.root ? s.count : 0;
      case Collective::all_gather:
      case Collective::gather:
        return part(r);
      case Collective::reduce_scatter:
        return before(n);
      case Collective::scatter:
        return r == s.root ? before(n) : 0;
      case Collective::all_to_all:
        return s.count * n;
      case Collective::barrier:
        return 0;
    }
    return 0;
  }
  std::int64_t sum(std::int64_t i) const {
    std::int64_t total = 0;
    for (int q = 0; q < n; q++) total += value(q, i);
    return total;
  }
  std::vector<std::int64_t> output(int r) const {
    std::vector<std::int64_t> out;
    switch (s.collective) {
      case Collective::reduce:
        if (r != s.root) break;
        [[fallthrough]];
      case Collective::all_reduce:
        for (std::int64_t i = 0; i < s.count; i++) out.push_back(sum(i));
        break;
      case Collective::broadcast:
        for (std::int64_t i = 0; i < s.count; i++) out.push_back(value(s.root, i));
        break;
      case Collective::gather:
        if (r != s.root) break;
        [[fallthrough]];
      case Collective::all_gather:
        for (int q = 0; q < n; q++)
          for (std::int64_t i = 0; i < part(q); i++) out.push_back(value(q, i));
        break;
      case Collective::reduce_scatter:
        for (std::int64_t i = 0; i < part(r); i++) out.push_back(sum(before(r) + i));
        break;
      case Collective::scatter:
        for (std::int64_t i = 0; i < part(r); i++) out.push_back(value(s.root, before(r) + i));
        break;
      case Collective::all_to_all:
        for (int q = 0; q < n; q++)
          for (std::int64_t i = 0; i < s.count; i++) out.push_back(value(q, r * s.count + i));
        break;
      case Collective::barrier:
        break;
    }
    return out;
  }
  /// In place: the input's position in the output, or the output's in the input.
  std::optional<std::int64_t> input_in_output(int r) const {
    switch (s.collective) {
      case Collective::all_reduce:
        return 0;
      case Collective::reduce:
      case Collective::broadcast:
        return r == s.root ? std::optional<std::int64_t>(0) : std::nullopt;
      case Collective::all_gather:
        return before(r);
      case Collective::gather:
        return r == s.root ? std::optional<std::int64_t>(before(r)) : std::nullopt;
      default:
        return std::nullopt;
    }
  }
  std::optional<std::int64_t> output_in_input(int r) const {
    if (s.collective == Collective::reduce_scatter) return before(r);
    if (s.collective == Collective::scatter && r == s.root) return before(r);
    return std::nullopt;
  }
};

}  // namespace

SimulatedWorld::SimulatedWorld(int size, const Chaos& chaos, std::int64_t slice_bytes)
    : random_(chaos.seed), slice_bytes_(slice_bytes), hub_(transport::InprocHub::create()) {
  for (int r = 0; r < size; r++) {
    auto rank = std::make_unique<SimulatedRank>();
    rank->id = {0, static_cast<std::uint64_t>(r) + 1};
    rank->poller = transport::make_epoll_poller();
    transport::Setup setup;
    setup.self = rank->id;
    setup.handshake = std::make_shared<PlainHandshakes>(rank->id);
    setup.segment_bytes = 32 << 20;
    setup.ring_bytes = 4096;  // small: rings fill up, writers wait
    auto made = hub_->make(setup, *rank->poller);
    if (!made) throw std::runtime_error(made.status().message());
    auto transport = std::move(made).value();
    rank->segment = transport->segment();
    rank->stages = std::make_unique<StagePool>(*rank->segment, 0);
    if (chaos.partial || chaos.max_delay > Duration{0}) {
      transport::Faults faults;
      faults.seed = chaos.seed * 31 + static_cast<std::uint64_t>(r);
      faults.partial = chaos.partial;
      faults.max_delay = chaos.max_delay;
      transport = transport::make_faulty(std::move(transport), faults, clock_);
    }
    std::vector<std::unique_ptr<transport::Transport>> transports;
    transports.push_back(std::move(transport));
    rank->messenger =
        std::make_unique<Messenger>(rank->id, std::move(transports), *rank->poller, clock_, Logger(LogLevel::off, ""));
    if (chaos.streams > 1) rank->messenger->use_streams({1, 16, 4, 1000});
    ranks_.push_back(std::move(rank));
  }
  connect(chaos.streams);
}

/// Moves all ranks until `done`.
void SimulatedWorld::run_until(const std::function<bool()>& done, const char* what) {
  for (int turn = 0; !done(); turn++) {
    if (turn > 100000) throw std::runtime_error(what);
    for (auto& r : ranks_) r->messenger->poll(Look::all);
    clock_.advance(std::chrono::microseconds(10));
  }
}

bool SimulatedWorld::for_all_pairs(const std::vector<std::vector<int>>& peers,
                                   const std::function<bool(SimulatedRank&, int peer)>& holds) {
  for (int r = 0; r < size(); r++)
    for (int q = 0; q < size(); q++)
      if (q != r && !holds(rank(r), peers[static_cast<std::size_t>(r)][static_cast<std::size_t>(q)])) return false;
  return true;
}

void SimulatedWorld::connect(int streams) {
  const int n = size();
  for (int r = 0; r < n; r++) {
    SimulatedRank& me = rank(r);
    auto domain = Domain::create(*me.stages, r, n, slice_bytes_);
    if (!domain) throw std::runtime_error(domain.status().message());
    me.domain = std::move(domain).value();
  }
  std::vector<std::vector<int>> peers(static_cast<std::size_t>(n));
  for (int r = 0; r < n; r++)
    for (int q = 0; q < n; q++) {
      const int peer =
          q == r
              ? -1
              : rank(r).messenger->add_peer({rank(q).id, "simulated", q, 0, rank(q).messenger->transport(0).address()});
      peers[static_cast<std::size_t>(r)].push_back(peer);
      if (q < r) rank(r).messenger->dial(peer, TimePoint::max());
    }
  run_until(
      [&] { return for_all_pairs(peers, [](SimulatedRank& me, int peer) { return me.messenger->connected(peer); }); },
      "the simulated ranks do not connect");
  for_all_pairs(peers, [&](SimulatedRank& me, int peer) {
    me.messenger->use_streams(peer, streams);
    return true;
  });
  run_until(
      [&] {
        return for_all_pairs(peers,
                             [&](SimulatedRank& me, int peer) { return me.messenger->streams(peer) == streams; });
      },
      "the simulated ranks do not get their streams");
  for (int r = 0; r < n; r++) {
    for (int q = 0; q < n; q++)
      if (q != r) {
        const Status s = rank(r).domain->attach(
            q, rank(r).messenger->shared(peers[static_cast<std::size_t>(r)][static_cast<std::size_t>(q)]),
            rank(q).domain->control_offset());
        if (!s.ok()) throw std::runtime_error(s.message());
      }
    rank(r).messenger->open_group(kGroup, "simulated", r, peers[static_cast<std::size_t>(r)], rank(r).failure);
  }
}

namespace {

/// The memory of a rank's segment, where other ranks reach it.
class SegmentMemory final : public std::pmr::memory_resource {
 public:
  explicit SegmentMemory(transport::SharedSegment& segment) : segment_(segment) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override {
    auto offset = segment_.allocate_buffer(bytes);
    if (!offset) throw std::bad_alloc();
    return segment_.base() + *offset;
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t) override {
    segment_.release(static_cast<std::uint64_t>(static_cast<std::byte*>(p) - segment_.base()), bytes);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  transport::SharedSegment& segment_;
};

}  // namespace

Ground SimulatedWorld::ground(int r) {
  Ground ground;
  ground.domain = rank(r).domain.get();
  ground.messenger = rank(r).messenger.get();
  ground.group = kGroup;
  ground.rank = r;
  ground.size = size();
  ground.scratch = &rank(r).scratch;
  ground.network_slice = slice_bytes_;
  return ground;
}

Bound SimulatedWorld::bound_plan(const Scenario& s, int r) const {
  const plan::Algorithm* algorithm = plan::find_algorithm(s.collective, s.algorithm);
  if (algorithm == nullptr) throw std::runtime_error("no algorithm " + s.algorithm);
  return bound(std::make_shared<const Compiled>(compile(algorithm->build({size(), r, s.root}))),
               {s.count, s.counts, {}}, s.dtype);
}

std::unique_ptr<Operation> SimulatedWorld::make(const Scenario& s, int r, Numbers& in, Numbers& out) {
  const auto prepared = std::make_shared<Prepared>();
  prepared->usual = bound_plan(s, r);
  if (prepared->usual.plan().shared) prepared->shared = prepared->usual;
  prepared->dtype = s.dtype;
  prepared->op = s.op;
  prepared->signature =
      Signature::make({s.collective, s.dtype, s.op, s.root, !s.counts.empty(), 0}, static_cast<std::uint64_t>(s.count));
  Request request;
  request.prepared = prepared;
  const Reference reference{s, size()};
  request.in = reinterpret_cast<const std::byte*>(in.data());
  request.out = reinterpret_cast<std::byte*>(out.data());
  if (s.in_place) {
    if (const auto at = reference.input_in_output(r)) {
      std::copy(in.begin(), in.end(), out.begin() + *at);
      request.in = reinterpret_cast<const std::byte*>(out.data() + *at);
    } else if (const auto out_at = reference.output_in_input(r)) {
      request.out = reinterpret_cast<std::byte*>(in.data() + *out_at);
    }
  }
  Ground ground = this->ground(r);
  // Some look for messages, and give way to others meanwhile, half reduce what comes as it comes: that is for each of them to say.
  request.looks = (r + static_cast<int>(rank(r).sequence)) % 3;
  if (random_() % 2 == 0) request.turns = &others_;
  if (r % 2 == 0) ground.least_folded = 1;
  if (r % 3 == 0) ground.network_window = 1 + r % 2;
  // Likewise who takes himself for one of several on a processor, and lets his neighbours go first.
  if ((r + static_cast<int>(rank(r).sequence)) % 4 != 0)
    ground.mates = {.before = r - 1, .after = r + 1 < size() ? r + 1 : -1, .count = 2, .second_cache = 1};
  return std::make_unique<Operation>(std::move(request), ground, ++rank(r).sequence);
}

bool SimulatedWorld::Others::give_way() noexcept {
  const int r = static_cast<int>(world_.random_() % static_cast<std::uint64_t>(world_.size()));
  if (r != world_.dead_) world_.rank(r).messenger->poll(Look::all);
  return world_.random_() % 4 != 0;
}

std::string SimulatedWorld::check(const Scenario& s, int r, const Numbers& in, const Numbers& out) const {
  const Reference reference{s, size()};
  const auto expected = reference.output(r);
  const std::int64_t* got = out.data();
  if (s.in_place)
    if (const auto at = reference.output_in_input(r)) got = in.data() + *at;
  for (std::size_t i = 0; i < expected.size(); i++)
    if (got[i] != expected[i])
      return fmt::format("rank {}: element {} of {} is {}, expected {}", r, i, expected.size(), got[i], expected[i]);
  const bool shares = s.in_place && (reference.input_in_output(r) || reference.output_in_input(r));
  for (std::size_t i = 0; i < in.size() && !shares; i++)
    if (in[i] != value(r, static_cast<std::int64_t>(i)))
      return fmt::format("rank {}: its input was written at element {}", r, i);
  return "";
}

std::string SimulatedWorld::run(const Scenario& s, int victim, int kill_after) {
  const int n = size();
  const Reference reference{s, n};
  std::vector<std::unique_ptr<SegmentMemory>> memory;
  std::vector<Numbers> in, out;
  std::vector<std::unique_ptr<Operation>> operations;
  for (int r = 0; r < n; r++) {
    memory.push_back(std::make_unique<SegmentMemory>(*rank(r).segment));
    auto& i = in.emplace_back(static_cast<std::size_t>(reference.input_size(r)), memory.back().get());
    for (std::size_t k = 0; k < i.size(); k++) i[k] = value(r, static_cast<std::int64_t>(k));
    out.emplace_back(reference.output(r).size(), -1, memory.back().get());
    operations.push_back(make(s, r, i, out[static_cast<std::size_t>(r)]));
  }
  bool dead = false;
  const auto over = [&](int r) {
    return (dead && r == victim) || operations[static_cast<std::size_t>(r)]->done() || rank(r).failure->failed();
  };
  std::vector<bool> left(static_cast<std::size_t>(n));
  int idle = 0;
  for (int turn = 0;; turn++) {
    bool all = true;
    for (int r = 0; r < n; r++) all &= over(r);
    // After a death the survivors' news must still be heard by those who had finished.
    if (all && (victim < 0 || dead)) break;
    if (idle > 200000) {
      std::string who;
      for (int r = 0; r < n; r++)
        if (!over(r)) who += fmt::format(" {}", r);
      return fmt::format("nothing moves any more after {} turns; unfinished ranks:{}", turn, who);
    }
    if (!dead && turn == kill_after && victim >= 0) {
      hub_->kill(rank(victim).id);
      dead = true;
      dead_ = victim;
    }
    const int r = static_cast<int>(random_() % static_cast<std::uint64_t>(n));
    bool moved = false;
    if (!(dead && r == victim)) {
      // What came may be found by the messenger first, or by the operation that awaits it.
      const auto poll = [&] { moved |= rank(r).messenger->poll(random_() % 4 == 0 ? Look::all : Look::memory); };
      const bool operation_first = random_() % 2 == 0;
      if (!operation_first) poll();
      if (!over(r)) moved |= operations[static_cast<std::size_t>(r)]->advance();
      if (operation_first) poll();
      if (s.leaves && !left[static_cast<std::size_t>(r)] && over(r)) {
        left[static_cast<std::size_t>(r)] = true;
        rank(r).domain->leave();
        rank(r).messenger->close_group(kGroup, rank(r).sequence);
      } else if (s.leaves && !moved && !over(r)) {  // as GroupImpl looks for those that it waits for in vain
        Operation& waits = *operations[static_cast<std::size_t>(r)];
        if (const Status gone = rank(r).messenger->departure(kGroup, waits.waiting_for());
            !gone.ok() && !waits.advance())
          return fmt::format("rank {} misses a rank that was through: {}", r, gone.message());
        if (const Status gone = rank(r).messenger->departure_before(kGroup, rank(r).sequence); !gone.ok())
          return fmt::format("rank {} takes it that a rank took no part: {}", r, gone.message());
      }
    }
    clock_.advance(Duration(static_cast<std::int64_t>(random_() % 2000)));
    idle = moved ? 0 : idle + 1;
    trace_ = trace_ * 1099511628211ull + static_cast<std::uint64_t>(r * 2 + moved);
  }
  for (int r = 0; r < n; r++) {
    if (dead && r == victim) continue;
    const Operation& operation = *operations[static_cast<std::size_t>(r)];
    if (operation.done() && operation.status().ok()) {
      if (std::string wrong = check(s, r, in[static_cast<std::size_t>(r)], out[static_cast<std::size_t>(r)]);
          !wrong.empty())
        return wrong;
      continue;
    }
    const Status why = operation.status().ok() ? rank(r).failure->status() : operation.status();
    if (victim < 0) return fmt::format("rank {} failed: {}", r, why.message());
    if (why.code() != Code::rank_failure || why.rank() != victim)
      return fmt::format("rank {} does not blame rank {}: {}", r, victim, why.message());
  }
  for (int r = 0; r < n; r++) rank(r).messenger->forget(kGroup, Status::aborted("the scenario is over"));
  return "";
}

}  // namespace unisono::engine::test
