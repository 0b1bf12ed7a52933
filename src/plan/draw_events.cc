#include "plan/draw_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/timeline.h"

namespace unisono::plan {

namespace {

using Extents = std::vector<std::int32_t>;

Extents extents_of(std::span<const Plan> plans, const Plan& plan, std::span<const Ref> refs) {
  Extents extents;
  for (const Ref& ref : refs) {
    const Plan& owner = has_owner(ref.space) ? plans[static_cast<std::size_t>(ref.rank)] : plan;
    const auto all = ref.space == Space::peer_in    ? std::span(owner.in_extent)
                     : ref.space == Space::peer_out ? std::span(owner.out_extent)
                                                    : owner.extents_of(ref.space);
    for (std::int32_t i = 0; i < ref.count; i++)
      extents.push_back(all[static_cast<std::size_t>(ref.first) + static_cast<std::size_t>(i)]);
  }
  return extents;
}

// "0 1", "2..5 7". In all_to_all extent i*n+j is written i>j: what rank i sends to j.
std::string words(const Extents& extents, const Plan& plan) {
  std::string text;
  const auto append = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (std::size_t i = 0, end = 0; i < extents.size(); i = end) {
    end = i + 1;
    if (plan.collective == Collective::all_to_all) {
      append(fmt::format("{}>{}", extents[i] / plan.shape.ranks, extents[i] % plan.shape.ranks));
      continue;
    }
    while (end < extents.size() && extents[end] == extents[end - 1] + 1) end++;
    if (end - i >= 3) {
      append(fmt::format("{}..{}", extents[i], extents[end - 1]));
    } else {
      end = i + 1;
      append(fmt::format("{}", extents[i]));
    }
  }
  return text;
}

std::string_view verb_of(const Step& step) {
  switch (step.op) {
    case OpCode::copy:
      return "copy";
    case OpCode::put:
      return "put";
    case OpCode::get:
      return "get";
    case OpCode::reduce:
      return step.final ? "=" : "+";
    default:
      return {};
  }
}

// The next message from -> to that has not been drawn yet.
class Arrivals {
 public:
  Arrivals(std::span<const Plan> plans, const Timeline& timeline)
      : n_(plans.size()), ends_(n_ * n_), next_(n_ * n_, 0) {
    for (std::size_t r = 0; r < n_; r++) {
      for (std::size_t i = 0; i < plans[r].steps.size(); i++) {
        const Step& step = plans[r].steps[i];
        if (step.op == OpCode::recv)
          ends_[static_cast<std::size_t>(step.peer) * n_ + r].push_back(timeline.start[r][i] + 1);
      }
    }
  }
  std::int32_t next(std::size_t from, std::size_t to) { return ends_[from * n_ + to][next_[from * n_ + to]++]; }

 private:
  std::size_t n_;
  std::vector<std::vector<std::int32_t>> ends_;
  std::vector<std::size_t> next_;
};

// Local work of one kind in one round is one line: its blocks are collected.
class WorkLines {
 public:
  void add(std::string_view verb, const Extents& extents) {
    if (verbs_.empty() || verbs_.back() != verb) {
      verbs_.push_back(verb);
      blocks_.emplace_back();
    }
    blocks_.back().insert(blocks_.back().end(), extents.begin(), extents.end());
  }
  std::vector<std::string> lines(const Plan& plan) const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < verbs_.size(); i++)
      lines.push_back(fmt::format("{} {}", verbs_[i], words(blocks_[i], plan)));
    return lines;
  }

 private:
  std::vector<std::string_view> verbs_;
  std::vector<Extents> blocks_;
};

}  // namespace

Events events_of(std::span<const Plan> plans) {
  const Timeline timeline = time_steps(plans);
  Events events;
  events.rounds = static_cast<std::int32_t>(std::max<std::int64_t>(timeline.length, 0));
  Arrivals arrivals(plans, timeline);
  // Signals end where their waits are: the channel's signal of each rank is one unit earlier.
  for (std::size_t r = 0; r < plans.size(); r++) {
    const Plan& plan = plans[r];
    std::vector<WorkLines> work(static_cast<std::size_t>(events.rounds) + 1);
    for (std::size_t i = 0; i < plan.steps.size(); i++) {
      const Step& step = plan.steps[i];
      const std::int32_t start = timeline.start[r][i];
      const auto rank = static_cast<std::int32_t>(r);
      if (step.op == OpCode::send) {
        const std::int32_t end = arrivals.next(r, static_cast<std::size_t>(step.peer));
        events.arrows.push_back(
            {rank, step.peer, start, end, false, words(extents_of(plans, plan, plan.src(step)), plan)});
      } else if (step.op == OpCode::wait) {
        const Plan& peer = plans[static_cast<std::size_t>(step.peer)];
        for (std::size_t s = 0; s < peer.steps.size(); s++) {
          if (peer.steps[s].op != OpCode::signal || peer.steps[s].channel != step.channel) continue;
          events.arrows.push_back(
              {step.peer, rank, timeline.start[static_cast<std::size_t>(step.peer)][s], start, true, {}});
        }
      } else if (const auto verb = verb_of(step); !verb.empty()) {
        work[static_cast<std::size_t>(start)].add(verb, extents_of(plans, plan, plan.dst(step).first(1)));
      }
    }
    auto& lines = events.work.emplace_back();
    for (const WorkLines& round : work) lines.push_back(round.lines(plan));
  }
  return events;
}

}  // namespace unisono::plan
