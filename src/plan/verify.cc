#include "plan/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/host_map.h"
#include "plan/opening.h"
#include "plan/print.h"
#include "plan/unroll.h"
#include "plan/verify_internal.h"
#include "plan/widened.h"

namespace unisono::plan {

namespace verification {

Subject::Subject(std::span<const Plan> all, std::int32_t slice_count) : plans(all), slices(slice_count) {
  std::uint32_t next = 0;
  for (const Plan& plan : plans) {
    first_step.push_back(next);
    next += static_cast<std::uint32_t>(plan.steps.size());
  }
  first_step.push_back(next);
  owner.reserve(next);
  for (std::int32_t r = 0; r < ranks(); r++) owner.insert(owner.end(), this->plan(r).steps.size(), r);
}

std::string Subject::name(GlobalStep g) const {
  return fmt::format("rank {} step {} ({})", rank_of(g), local(g), to_text(plan(rank_of(g)), step(g)));
}

std::vector<AliasedBlocks> Subject::aliased(std::int32_t rank) const {
  const Plan& p = plan(rank);
  const auto in = static_cast<std::int32_t>(p.in_extent.size()) / slices;
  const auto out = static_cast<std::int32_t>(p.out_extent.size()) / slices;
  std::vector<AliasedBlocks> pairs;
  for (const AliasedBlocks& pair : aliased_blocks(p)) {
    for (std::int32_t s = 0; s < slices; s++) pairs.push_back({pair.in + s * in, pair.out + s * out});
  }
  return pairs;
}

bool Subject::any_aliased() const {
  for (std::int32_t r = 0; r < ranks(); r++) {
    if (!aliased(r).empty()) return true;
  }
  return false;
}

Cells::Cells(const Subject& subject, bool in_place) {
  for (std::int32_t r = 0; r < subject.ranks(); r++) {
    const Plan& plan = subject.plan(r);
    const auto take = [&](std::vector<std::uint32_t>& first, Space space) {
      first.push_back(count);
      count += static_cast<std::uint32_t>(plan.extents_of(space).size());
    };
    take(first_out, Space::out);
    take(first_scratch, Space::scratch);
    take(first_stage, Space::stage);
    first_in.push_back(static_cast<std::uint32_t>(in.size()));
    for (std::size_t b = 0; b < plan.in_extent.size(); b++) in.push_back(count++);
    if (!in_place) continue;
    for (const auto& pair : subject.aliased(r)) {
      in[first_in.back() + static_cast<std::uint32_t>(pair.in)] =
          first_out.back() + static_cast<std::uint32_t>(pair.out);
    }
  }
}

std::uint32_t Cells::of(std::int32_t rank, const Ref& ref, std::int32_t offset) const {
  const auto block = static_cast<std::uint32_t>(ref.first + offset);
  const auto r = static_cast<std::size_t>(has_owner(ref.space) ? ref.rank : rank);
  switch (ref.space) {
    case Space::in:
    case Space::peer_in:
      return in[first_in[r] + block];
    case Space::out:
    case Space::peer_out:
      return first_out[r] + block;
    case Space::scratch:
      return first_scratch[r] + block;
    case Space::stage:
      return first_stage[r] + block;
  }
  return 0;
}

}  // namespace verification

std::string_view name_of(Fault fault) noexcept {
  constexpr std::string_view names[] = {"malformed",
                                        "layout",
                                        "writes input",
                                        "extents",
                                        "message",
                                        "signal",
                                        "race",
                                        "early end",
                                        "undefined read",
                                        "deadlock",
                                        "doubled contribution",
                                        "wrong result",
                                        "unequal trees",
                                        "final reduce",
                                        "joint",
                                        "cost"};
  return names[static_cast<std::size_t>(fault)];
}

bool Report::has(Fault fault) const noexcept {
  return std::ranges::any_of(violations, [&](const Violation& v) { return v.fault == fault; });
}

std::string Report::text() const {
  std::string text;
  for (const Violation& v : violations) text += fmt::format("{}: {}\n", name_of(v.fault), v.text);
  return text;
}

Report verify(std::span<const Plan> plans, const VerifyOptions& options) {
  using namespace verification;
  Report report;
  Findings findings(report.violations, options.max_violations);
  const Subject subject(plans, options.slices);
  check_structure(subject, findings);
  // The other checks index by what the plans say, so they need plans that are well-formed.
  const auto fatal = {Fault::malformed, Fault::layout};
  if (std::ranges::any_of(fatal, [&](Fault f) { return report.has(f); })) return report;

  check_joint(subject, findings);
  check_local_order(subject, findings);
  const Links links = link(subject, findings);
  execute(subject, links, false, findings);
  report.counted = count(subject, links);
  if (subject.any_aliased() && !findings.full()) execute(subject, links, true, findings);
  if (options.expected != nullptr && !report.has(Fault::deadlock))
    check_cost(report.counted, *options.expected, findings);
  return report;
}

std::vector<Plan> build_all(const Algorithm& algorithm, const Shape& shape) {
  std::vector<Plan> plans;
  plans.reserve(static_cast<std::size_t>(shape.ranks));
  Shape one = shape;
  for (one.rank = 0; one.rank < shape.ranks; one.rank++) plans.push_back(algorithm.build(one));
  return plans;
}

namespace {

/// With three slices in flight in windows of 1 and 2.
void verify_windows(std::span<const Plan> plans, Report& report, const VerifyOptions& options) {
  for (const std::int32_t window : {1, 2}) {
    if (!report.ok()) break;
    std::vector<Plan> unrolled;
    for (const Plan& plan : plans) unrolled.push_back(unroll(plan, {3, window}));
    report.violations = verify(unrolled, {nullptr, 3, options.max_violations}).violations;
  }
}

/// What the row says of partial sums is true, and the plans are right with these in wide scratch.
void verify_partial_sums(const Algorithm& algorithm, std::vector<Plan> plans, Report& report, bool windows) {
  const auto ranks = static_cast<std::int32_t>(plans.size());
  if (!algorithm.has_partial_sums(ranks)) {
    for (const Plan& plan : plans)
      for (std::size_t i = 0; i < plan.steps.size(); i++)
        if (plan.steps[i].op == OpCode::reduce && !plan.steps[i].final)
          report.violations.push_back(
              {Fault::final_reduce, plan.shape.rank, static_cast<std::int64_t>(i),
               fmt::format("rank {} step {}: {} is a partial sum, and the algorithm's row does not say partial_sums",
                           plan.shape.rank, i, to_text(plan, plan.steps[i]))});
    return;
  }
  if (needs_one_host(algorithm.place)) return;  // never run with 16-bit sums (select.cc)
  const VerifyOptions options;
  for (Plan& plan : plans) plan = widened(plan);
  report.violations = verify(plans, options).violations;
  if (windows) verify_windows(plans, report, options);
  for (Violation& v : report.violations) v.text += " (widened)";
}

}  // namespace

Report verify(const Algorithm& algorithm, const Shape& shape, bool windows) {
  const std::vector<Plan> plans = build_all(algorithm, shape);
  const Cost expected = algorithm.cost(shape);
  VerifyOptions options;
  options.expected = &expected;
  Report report = verify(plans, options);
  if (report.ok() && std::ranges::any_of(plans, [](const Plan& plan) { return opening(plan) > 0; })) {
    std::vector<Plan> turned;
    for (const Plan& plan : plans) turned.push_back(with_opening_turned(plan));
    report.violations = verify(turned, {nullptr, 1, options.max_violations}).violations;
    for (Violation& v : report.violations) v.text += " (with its first copies in the opposite order)";
  }
  if (windows) verify_windows(plans, report, options);
  if (report.ok()) verify_partial_sums(algorithm, plans, report, windows);
  return report;
}

Report verify(const Algorithm& algorithm, std::int32_t ranks, std::int32_t root, bool windows) {
  const bool nodes = algorithm.place == Place::several_nodes;
  if (algorithm.place != Place::several_hosts && !nodes) return verify(algorithm, Shape{ranks, 0, root}, windows);
  Report report;
  for (const std::vector<std::int32_t>& layout : sample_hosts(ranks)) {
    Shape shape{ranks, 0, root};
    (nodes ? shape.nodes : shape.hosts) = layout;
    report = verify(algorithm, shape, windows);
    if (report.ok()) continue;
    for (Violation& v : report.violations)
      v.text += fmt::format(" ({} {})", nodes ? "nodes" : "hosts", fmt::join(layout, " "));
    break;
  }
  return report;
}

}  // namespace unisono::plan
