#include "plan/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace unisono::plan {

namespace {

std::string joined(std::span<const Ref> refs, std::string_view separator) {
  std::string text;
  for (const Ref& ref : refs) {
    if (!text.empty()) text += separator;
    text += to_text(ref);
  }
  return text.empty() ? "nothing" : text;
}

// "0..3" for runs, so that the layout of 128 ranks stays readable.
std::string runs(std::span<const std::int32_t> extents) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < extents.size(); i = end) {
    end = i + 1;
    while (end < extents.size() && extents[end] == extents[end - 1] + 1) end++;
    if (!text.empty()) text += ' ';
    text += end - i < 3 ? fmt::format("{}", fmt::join(extents.subspan(i, end - i), " "))
                        : fmt::format("{}..{}", extents[i], extents[end - 1]);
  }
  return text;
}

nlohmann::ordered_json refs_json(std::span<const Ref> refs) {
  auto list = nlohmann::ordered_json::array();
  for (const Ref& ref : refs) {
    const nlohmann::ordered_json owner =
        has_owner(ref.space) ? nlohmann::ordered_json(ref.rank) : nlohmann::ordered_json();
    list.push_back({name_of(ref.space), owner, ref.first, ref.count});
  }
  return list;
}

nlohmann::ordered_json step_json(const Plan& plan, const Step& step) {
  nlohmann::ordered_json json{{"op", name_of(step.op)}, {"lane", step.lane}};
  const bool message = step.op == OpCode::send || step.op == OpCode::recv;
  const bool flag = step.op == OpCode::signal || step.op == OpCode::wait;
  if (message || step.op == OpCode::wait) json["peer"] = step.peer;
  if (message || flag) json["channel"] = step.channel;
  if (step.dst_count != 0) json["dst"] = refs_json(plan.dst(step));
  if (step.src_count != 0) json["src"] = refs_json(plan.src(step));
  if (step.final) json["final"] = true;
  if (step.dep_count != 0) json["after"] = plan.waits_for(step);
  return json;
}

}  // namespace

std::string_view name_of(OpCode op) noexcept {
  constexpr std::string_view names[] = {"send", "recv", "copy", "put", "get", "reduce", "signal", "wait"};
  return names[static_cast<std::size_t>(op)];
}

std::string_view name_of(Space space) noexcept {
  constexpr std::string_view names[] = {"in", "out", "scratch", "stage", "peer_in", "peer_out"};
  return names[static_cast<std::size_t>(space)];
}

std::string to_text(const Ref& ref) {
  const std::string owner = has_owner(ref.space) ? fmt::format("@{}", ref.rank) : "";
  const std::string blocks =
      ref.count == 1 ? fmt::format("{}", ref.first) : fmt::format("{}..{}", ref.first, ref.first + ref.count - 1);
  return fmt::format("{}{}[{}]", name_of(ref.space), owner, blocks);
}

std::string to_text(const Plan& plan, const Step& step) {
  const auto dst = plan.dst(step), src = plan.src(step);
  switch (step.op) {
    case OpCode::send:
      return fmt::format("send {} to {}", joined(src, " "), step.peer);
    case OpCode::recv:
      return fmt::format("recv {} from {}", joined(dst, " "), step.peer);
    case OpCode::copy:
    case OpCode::put:
    case OpCode::get:
      return fmt::format("{} {} = {}", name_of(step.op), joined(dst, ", "), joined(src, " "));
    case OpCode::reduce:
      return fmt::format("reduce {} = {}{}", joined(dst, ", "), joined(src, " + "), step.final ? ", final" : "");
    case OpCode::signal:
      return fmt::format("signal {}", step.channel);
    case OpCode::wait:
      return fmt::format("wait for {} on {}", step.peer, step.channel);
  }
  return {};
}

std::string to_text(const Plan& plan) {
  const Shape& shape = plan.shape;
  std::string text =
      fmt::format("{} {}, rank {} of {}", name_of(plan.collective), plan.algorithm, shape.rank, shape.ranks);
  if (rooted(plan.collective)) text += fmt::format(", root {}", shape.root);
  text += fmt::format(": {} steps on {} lane{}\n", plan.steps.size(), plan.lanes, plan.lanes == 1 ? "" : "s");
  for (const Space space : {Space::in, Space::out, Space::scratch, Space::stage}) {
    const auto extents = plan.extents_of(space);
    if (!extents.empty()) text += fmt::format("  {:<8} extents {}\n", name_of(space), runs(extents));
  }
  std::size_t width = 0;
  for (const Step& step : plan.steps) width = std::max(width, to_text(plan, step).size());
  width = std::min<std::size_t>(width, 60);
  if (!plan.steps.empty()) text += fmt::format("  {:>4} {:>4}  {}\n", "step", "lane", "what");
  for (std::size_t i = 0; i < plan.steps.size(); i++) {
    const Step& step = plan.steps[i];
    const std::string what = to_text(plan, step);
    if (step.dep_count == 0) {
      text += fmt::format("  {:>4} {:>4}  {}\n", i, step.lane, what);
    } else {
      text += fmt::format("  {:>4} {:>4}  {:<{}}  after {}\n", i, step.lane, what, width,
                          fmt::join(plan.waits_for(step), ", "));
    }
  }
  return text;
}

nlohmann::ordered_json to_json(const Plan& plan) {
  nlohmann::ordered_json json{{"collective", name_of(plan.collective)},
                              {"algorithm", plan.algorithm},
                              {"ranks", plan.shape.ranks},
                              {"rank", plan.shape.rank},
                              {"root", plan.shape.root},
                              {"staged", plan.staged},
                              {"shared", plan.shared},
                              {"joint", plan.joint},
                              {"lanes", plan.lanes},
                              {"channels", plan.channels},
                              {"extents", plan.extents}};
  auto& blocks = json["blocks"];
  for (const Space space : {Space::in, Space::out, Space::scratch, Space::stage}) {
    blocks[std::string(name_of(space))] = plan.extents_of(space);
  }
  auto steps = nlohmann::ordered_json::array();
  for (const Step& step : plan.steps) steps.push_back(step_json(plan, step));
  json["steps"] = std::move(steps);
  return json;
}

}  // namespace unisono::plan
