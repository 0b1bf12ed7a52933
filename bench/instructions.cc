// Operations of the engine, for counting their instructions (bench/instructions.py runs this under callgrind): all ranks in one thread and one
// process, advanced in turn, so that the count depends on nothing but the program.
//   usage: instructions COLLECTIVE ALGORITHM RANKS BYTES CALLS      ALGORITHM may be "inline"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/inline_operation.h"
#include "engine/operation.h"
#include "plan/registry.h"
#include "transport/shm/view.h"

namespace {

using namespace unisono;

struct Rank {
  std::shared_ptr<transport::shm::Segment> segment;
  std::unique_ptr<engine::StagePool> stages;
  std::unique_ptr<engine::Domain> domain;
  std::vector<std::shared_ptr<transport::SharedView>> views;
  engine::Request request;                        ///< with a plan
  std::unique_ptr<engine::Operation> operation;   ///< likewise: one for all calls
  std::unique_ptr<engine::InlineOperation> tiny;  ///< without one
  engine::Running* running = nullptr;             ///< either of them
  std::vector<std::byte> in, out, scratch;
};

template <class T>
T value_or_exit(Result<T> result) {
  if (!result) std::fprintf(stderr, "instructions: %s\n", result.status().message().c_str()), std::exit(1);
  return std::move(result).value();
}

/// Ranks that share memory, as if each were a process.
std::vector<Rank> make_ranks(int n, std::size_t bytes) {
  std::vector<Rank> ranks(static_cast<std::size_t>(n));
  const Logger silent(LogLevel::off, "");
  for (int r = 0; r < n; r++) {
    Rank& me = ranks[static_cast<std::size_t>(r)];
    me.segment = value_or_exit(transport::shm::Segment::create(64 << 20, silent));
    me.stages = std::make_unique<engine::StagePool>(*me.segment);
    me.domain = value_or_exit(engine::Domain::create(*me.stages, r, n));
    me.in.resize(bytes * static_cast<std::size_t>(n));
    me.out.resize(bytes * static_cast<std::size_t>(n));
  }
  const auto doorbell = std::make_shared<const Fd>();
  for (Rank& me : ranks)
    for (int q = 0; q < n; q++) {
      Rank& peer = ranks[static_cast<std::size_t>(q)];
      if (&peer == &me) continue;
      me.views.push_back(transport::shm::PeerView::of(peer.segment, doorbell));
      const Status s = me.domain->attach(q, me.views.back().get(), peer.domain->control_offset());
      if (!s.ok()) std::fprintf(stderr, "instructions: %s\n", s.message().c_str()), std::exit(1);
    }
  return ranks;
}

/// The call that all ranks make.
struct Calls {
  Collective collective;
  const plan::Algorithm* algorithm;  ///< nullptr: inline
  std::int64_t count;                ///< of f32
};

engine::Signature signature_of(const Calls& calls) {
  return engine::Signature::make({calls.collective, DType::f32, ReduceOp::sum, 0, false, 0},
                                 static_cast<std::uint64_t>(calls.count));
}

void prepare(const Calls& calls, std::vector<Rank>& ranks) {
  const int n = static_cast<int>(ranks.size());
  for (int r = 0; r < n && calls.algorithm != nullptr; r++) {
    Rank& me = ranks[static_cast<std::size_t>(r)];
    const auto prepared = std::make_shared<engine::Prepared>();
    prepared->usual =
        engine::bound(std::make_shared<const engine::Compiled>(engine::compile(calls.algorithm->build({n, r, 0}))),
                      {calls.count, {}, {}}, DType::f32);
    prepared->reads_peers = calls.algorithm->place == plan::Place::peer_memory;
    prepared->dtype = DType::f32;
    prepared->signature = signature_of(calls);
    me.request = {prepared, me.in.data(), me.out.data()};
    engine::Ground ground;
    ground.domain = me.domain.get();
    ground.rank = r;
    ground.size = n;
    ground.scratch = &me.scratch;
    me.operation = std::make_unique<engine::Operation>(ground);
  }
}

/// One operation on all ranks, as a group runs it.
void run(const Calls& calls, std::vector<Rank>& ranks, std::uint64_t sequence) {
  for (Rank& me : ranks) {
    if (calls.algorithm == nullptr) {
      const engine::InlineCall call{calls.collective, me.in.data(), me.out.data(), calls.count, DType::f32};
      me.tiny = std::make_unique<engine::InlineOperation>(call, *me.domain, signature_of(calls), sequence);
      me.running = me.tiny.get();
    } else {
      me.operation->start(me.request, sequence);
      me.running = me.operation.get();
    }
  }
  for (bool over = false; !over;) {
    over = true;
    for (Rank& me : ranks)
      if (!me.running->done()) over = false, me.running->advance();
  }
  for (const Rank& me : ranks)
    if (const Status& s = me.running->status(); !s.ok())
      std::fprintf(stderr, "instructions: %s\n", s.message().c_str()), std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return std::fprintf(stderr, "usage: instructions COLLECTIVE ALGORITHM RANKS BYTES CALLS\n"), 2;
  const auto collective = collective_from_name(argv[1]);
  const std::string name = argv[2];
  const auto* algorithm = collective ? plan::find_algorithm(*collective, name) : nullptr;
  if (!collective || (algorithm == nullptr && name != "inline")) return std::fprintf(stderr, "no such algorithm\n"), 2;
  const std::int64_t bytes = std::atoll(argv[4]);
  std::vector<Rank> ranks = make_ranks(std::atoi(argv[3]), static_cast<std::size_t>(bytes));
  const Calls calls{*collective, algorithm, bytes / 4};
  prepare(calls, ranks);
  const int count = std::atoi(argv[5]);
  for (int i = 1; i <= count; i++) run(calls, ranks, static_cast<std::uint64_t>(i));
}
