#include <fmt/format.h>

#include <algorithm>

#include "plan/lists.h"
#include "plan/print.h"
#include "plan/verify_internal.h"

/// Order within one rank and between the two ends of messages.
namespace unisono::plan::verification {

namespace {

// Vector clocks over the lanes of one rank: row s says, for each lane, how many of its steps end before s starts.
class LocalClocks {
 public:
  explicit LocalClocks(const Plan& plan)
      : lanes_(plan.lanes), rows_(plan.steps.size() * lanes_, 0), place_(plan.steps.size()) {
    std::vector<std::uint32_t> last(lanes_, kNone), length(lanes_, 0);
    for (std::uint32_t s = 0; s < plan.steps.size(); s++) {
      const Step& step = plan.steps[s];
      if (last[step.lane] != kNone) join(s, last[step.lane]);
      for (const std::uint32_t dep : plan.waits_for(step)) join(s, dep);
      last[step.lane] = s;
      place_[s] = {step.lane, ++length[step.lane]};
    }
  }
  bool before(std::uint32_t a, std::uint32_t b) const { return row(b)[place_[a].lane] >= place_[a].number; }

 private:
  struct Place {
    std::uint32_t lane, number;
  };
  const std::uint32_t* row(std::uint32_t s) const { return rows_.data() + std::size_t{s} * lanes_; }
  void join(std::uint32_t s, std::uint32_t earlier) {
    std::uint32_t* to = rows_.data() + std::size_t{s} * lanes_;
    const Place& place = place_[earlier];
    if (to[place.lane] >= place.number) return;  // who knows of a step knows all that it knew
    take_later(to, row(earlier), lanes_);
    to[place.lane] = place.number;
  }

  std::uint32_t lanes_;
  std::vector<std::uint32_t> rows_;
  std::vector<Place> place_;
};

// Of each cell: who wrote it last, and who has read it since.
struct Accesses {
  explicit Accesses(std::size_t cells) : writer(cells, kNone), readers(cells) {}
  std::vector<std::uint32_t> writer;
  Lists<std::uint32_t> readers;
};

class RaceCheck {
 public:
  RaceCheck(const Subject& subject, const Cells& cells, Findings& findings, std::int32_t rank)
      : subject_(subject), cells_(cells), findings_(findings), plan_(subject.plan(rank)), rank_(rank), clocks_(plan_) {}

  void run(Accesses& accesses) {
    for (std::uint32_t s = 0; s < plan_.steps.size() && !findings_.full(); s++) {
      if (copies_onto_itself(plan_.steps[s])) continue;
      for (const Ref& ref : plan_.src(plan_.steps[s])) {
        if (elsewhere(ref)) continue;
        for (std::int32_t i = 0; i < ref.count; i++) {
          const std::uint32_t cell = cells_.of(rank_, ref, i);
          expect_before(accesses.writer[cell], s, ref, i);
          accesses.readers.add(cell, s);
        }
      }
      for (const Ref& ref : plan_.dst(plan_.steps[s])) {
        if (elsewhere(ref)) continue;
        for (std::int32_t i = 0; i < ref.count; i++) {
          const std::uint32_t cell = cells_.of(rank_, ref, i);
          expect_before(accesses.writer[cell], s, ref, i);
          accesses.readers.for_each(cell, [&](std::uint32_t reader) { expect_before(reader, s, ref, i); });
          accesses.writer[cell] = s;
          accesses.readers.clear(cell);
        }
      }
    }
  }

 private:
  // In place, such a copy does nothing.
  bool copies_onto_itself(const Step& step) const {
    if (step.op != OpCode::copy) return false;
    const Ref& to = plan_.dst(step).front();
    const Ref& from = plan_.src(step).front();
    for (std::int32_t i = 0; i < to.count; i++) {
      if (cells_.of(rank_, to, i) != cells_.of(rank_, from, i)) return false;
    }
    return true;
  }
  bool elsewhere(const Ref& ref) const { return has_owner(ref.space) && ref.rank != rank_; }
  void expect_before(std::uint32_t a, std::uint32_t b, const Ref& ref, std::int32_t offset) {
    if (a == kNone || a == b || clocks_.before(a, b)) return;
    Ref block = ref;
    block.first += offset;
    block.count = 1;
    findings_.add(
        Fault::race, rank_, b,
        fmt::format("{} and {} both touch {} and nothing orders them", subject_.name(subject_.global(rank_, a)),
                    subject_.name(subject_.global(rank_, b)), to_text(block)));
  }

  const Subject& subject_;
  const Cells& cells_;
  Findings& findings_;
  const Plan& plan_;
  std::int32_t rank_;
  LocalClocks clocks_;
};

struct End {
  std::int32_t from;
  std::uint16_t channel;
  GlobalStep step;
};

// Of each block its extent, and whether it is wide.
std::vector<std::pair<std::int32_t, bool>> blocks_of_message(const Plan& plan, std::span<const Ref> refs) {
  std::vector<std::pair<std::int32_t, bool>> blocks;
  for (const Ref& ref : refs)
    for (std::int32_t b = ref.first; b < ref.first + ref.count; b++)
      blocks.emplace_back(plan.extents_of(ref.space)[static_cast<std::size_t>(b)], plan.is_wide(ref.space, b));
  return blocks;
}

// The messages to one rank: the k-th send of a channel meets the k-th recv.
void match_messages(const Subject& subject, std::vector<End>& sends, std::vector<End>& recvs, Links& links,
                    Findings& findings) {
  const auto order = [](const End& a, const End& b) {
    return std::tie(a.from, a.channel, a.step) < std::tie(b.from, b.channel, b.step);
  };
  std::sort(sends.begin(), sends.end(), order);
  std::sort(recvs.begin(), recvs.end(), order);
  const auto lonely = [&](const End& end, std::string_view what) {
    findings.add(Fault::message, subject.rank_of(end.step), subject.local(end.step),
                 fmt::format("{}: {}", subject.name(end.step), what));
  };
  std::size_t s = 0, r = 0;
  const auto stream = [](const End& end) { return std::pair(end.from, end.channel); };
  while (s < sends.size() || r < recvs.size()) {
    if (r == recvs.size() || (s < sends.size() && stream(sends[s]) < stream(recvs[r]))) {
      lonely(sends[s++], "nobody receives this message");
      continue;
    }
    if (s == sends.size() || stream(recvs[r]) < stream(sends[s])) {
      lonely(recvs[r++], "nobody sends this message");
      continue;
    }
    const GlobalStep send = sends[s++].step, recv = recvs[r++].step;
    links.counterpart[send] = recv;
    links.counterpart[recv] = send;
    const Plan& from = subject.plan(subject.rank_of(send));
    const Plan& to = subject.plan(subject.rank_of(recv));
    if (blocks_of_message(from, from.src(subject.step(send))) != blocks_of_message(to, to.dst(subject.step(recv)))) {
      findings.add(
          Fault::message, subject.rank_of(recv), subject.local(recv),
          fmt::format("{} meets {}: their extents differ, or their widths", subject.name(send), subject.name(recv)));
    }
  }
}

void link_messages(const Subject& subject, Links& links, Findings& findings) {
  const auto n = static_cast<std::size_t>(subject.ranks());
  std::vector<std::vector<End>> sends(n), recvs(n);
  links.counterpart.assign(subject.steps(), kNone);
  for (std::int32_t rank = 0; rank < subject.ranks(); rank++) {
    const auto& steps = subject.plan(rank).steps;
    for (std::uint32_t i = 0; i < steps.size(); i++) {
      const Step& step = steps[i];
      const GlobalStep g = subject.global(rank, i);
      if (step.op == OpCode::send) sends[static_cast<std::size_t>(step.peer)].push_back({rank, step.channel, g});
      if (step.op == OpCode::recv) recvs[static_cast<std::size_t>(rank)].push_back({step.peer, step.channel, g});
    }
  }
  for (std::size_t to = 0; to < n; to++) match_messages(subject, sends[to], recvs[to], links, findings);
}

// Calls visit(earlier, later) for every pair that lanes and dependencies order directly.
template <class Visit>
void for_each_edge(const Subject& subject, Visit visit) {
  for (std::int32_t rank = 0; rank < subject.ranks(); rank++) {
    const Plan& plan = subject.plan(rank);
    std::vector<std::uint32_t> last(plan.lanes, kNone);
    for (std::uint32_t i = 0; i < plan.steps.size(); i++) {
      const Step& step = plan.steps[i];
      const GlobalStep g = subject.global(rank, i);
      if (last[step.lane] != kNone) visit(subject.global(rank, last[step.lane]), g);
      for (const std::uint32_t dep : plan.waits_for(step)) visit(subject.global(rank, dep), g);
      last[step.lane] = i;
    }
  }
}

}  // namespace

void check_local_order(const Subject& subject, Findings& findings) {
  for (const bool in_place : {false, true}) {
    if (in_place && !subject.any_aliased()) return;
    const Cells cells(subject, in_place);
    Accesses accesses(cells.count);
    for (std::int32_t rank = 0; rank < subject.ranks(); rank++) {
      if (subject.plan(rank).lanes > 1) RaceCheck(subject, cells, findings, rank).run(accesses);
    }
    if (findings.any()) return;  // most would be found again
  }
}

Links link(const Subject& subject, Findings& findings) {
  Links links;
  link_messages(subject, links, findings);
  links.pending.assign(subject.steps(), 0);
  links.first_successor.assign(std::size_t{subject.steps()} + 1, 0);
  for_each_edge(subject, [&](GlobalStep earlier, GlobalStep later) {
    links.first_successor[earlier + 1]++;
    links.pending[later]++;
  });
  for (std::size_t g = 0; g < subject.steps(); g++) links.first_successor[g + 1] += links.first_successor[g];
  links.successors.resize(links.first_successor.back());
  std::vector<std::uint32_t> next(links.first_successor.begin(), links.first_successor.end() - 1);
  for_each_edge(subject, [&](GlobalStep earlier, GlobalStep later) { links.successors[next[earlier]++] = later; });
  return links;
}

}  // namespace unisono::plan::verification
