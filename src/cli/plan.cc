/// `unisono plan`: shows, draws, verifies, explains and times algorithms. It runs nothing.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/plan_explain.h"
#include "cli/plan_options.h"
#include "plan/draw.h"
#include "plan/print.h"
#include "plan/registry.h"
#include "plan/select.h"
#include "plan/verify.h"

namespace unisono::cli {

namespace {

constexpr std::string_view kPlanExamples = R"(Examples:
  unisono plan --list                                          all algorithms
  unisono plan all_reduce -n 4 --algorithm ring                every rank's plan as text
  unisono plan all_reduce -n 4 --algorithm ring --rank 2 --json
  unisono plan broadcast -n 8 --algorithm binomial --root 3 --verify
  unisono plan all_reduce -n 5 --algorithm circulant --draw svg > circulant.svg
  unisono plan all_reduce -n 4 --hosts 2,2 --algorithm hierarchical --draw text
  unisono plan --verify-all                                    prove everything, all sizes, every root
  unisono plan all_reduce -n 1024 --per-host 8 --simulate 10g --algorithm all --sizes 8,64K,64M
  unisono plan all_reduce -n 512 --simulate hdr+torus:8x8x8 --algorithm ring
  unisono plan all_reduce -n 128 --simulate numa:2x64 --algorithm all --sizes 64K,64M
  unisono plan --explain all_reduce -n 4 --bytes 1M            what would run, and why
  unisono plan --explain all_reduce -n 4 --bytes 1M --cores 2  the same where four ranks share two cores
)";

plan::Question question_of(const PlanOptions& o) {
  plan::Question q;
  q.collective = collective_of(o);
  const std::vector<std::int32_t> hosts = hosts_of(o);
  const std::int32_t count = hosts.empty() ? 0 : hosts.back() + 1;
  q.one_host = o.place == "shm" && count <= 1;
  q.several_hosts = count > 1 && count < o.ranks;
  const std::vector<std::int32_t> nodes = nodes_of(o);
  q.several_nodes = q.one_host && !nodes.empty() && nodes.back() > 0 && nodes.back() + 1 < o.ranks;
  q.shared_outputs = o.memory == "shared";
  q.shared_buffers = q.shared_outputs || o.memory == "shared-inputs";
  q.ranks = o.ranks;
  q.bytes = or_usage_error(plan::parse_size(o.bytes), "--bytes: ");
  return q;
}

// ---- unisono plan --list

plan::Cost listed_cost(const plan::Algorithm& a) {
  const std::vector<std::int32_t> two{0, 0, 0, 0, 1, 1, 1, 1};
  plan::Shape shape{8};
  if (a.place == plan::Place::several_hosts) shape.hosts = two;
  if (a.place == plan::Place::several_nodes) shape.nodes = two;
  return a.cost(shape);
}

int list_as_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const plan::Algorithm& a : plan::algorithms()) {
    const plan::Cost c = listed_cost(a);
    nlohmann::ordered_json steps;
    if (c.steps != plan::Cost::kNotCounted) steps = c.steps;
    list.push_back({{"collective", name_of(a.collective)},
                    {"algorithm", a.name},
                    {"place", place_name(a.place)},
                    {"steps", steps},
                    {"volume", c.volume},
                    {"summary", a.summary},
                    {"source", a.source}});
  }
  fmt::print("{}\n", list.dump());
  return 0;
}

int list_algorithms(bool json) {
  if (json) return list_as_json();
  std::size_t name = 0;
  for (const plan::Algorithm& a : plan::algorithms()) name = std::max(name, a.name.size());
  fmt::print("{:<15} {:<{}}  {:<14} {:>6} {:>6}  {}\n", "collective", "algorithm", name, "place", "steps", "bytes",
             "what it does (source)");
  for (const plan::Algorithm& a : plan::algorithms()) {
    const plan::Cost c = listed_cost(a);
    fmt::print("{:<15} {:<{}}  {:<14} {:>6} {:>6.4g}  {} ({})\n", name_of(a.collective), a.name, name,
               place_name(a.place), c.steps == plan::Cost::kNotCounted ? "-" : std::to_string(c.steps), c.volume,
               a.summary, a.source);
  }
  fmt::print(
      "\nsteps and bytes for 8 ranks (several hosts or nodes: two of four); bytes as a multiple of the collective's "
      "size, for "
      "the busiest "
      "rank\n");
  return 0;
}

// ---- unisono plan --explain

ExplainRequest request_of(const PlanOptions& o) {
  check_group(o);
  if (o.cores < 0) throw UsageError(fmt::format("--cores {}: at least 1", o.cores));
  const int cores = o.cores > 0 ? o.cores : usable_cores();
  return {question_of(o), hosts_of(o), nodes_of(o), o.root, cores, Config::settings_from_env()};
}

int explain(const PlanOptions& o) {
  const ExplainRequest request = request_of(o);
  const auto said = explain_choice(request);
  if (!said) throw UsageError(said.status().message());
  o.json ? print_json(*said) : print_text(*said, request);
  return 0;
}

// ---- one algorithm: text, JSON, drawing, proof

const plan::Algorithm& algorithm_of(const PlanOptions& o) {
  if (!o.algorithm.empty()) return named_algorithm(o);
  const ExplainRequest request = request_of(o);
  const auto said = explain_choice(request);
  if (!said) throw UsageError(said.status().message());
  fmt::print(stderr, "unisono: no --algorithm given, showing {}: {}\n", said->choice.algorithm->name,
             said->choice.reason);
  return *said->choice.algorithm;
}

int show(const PlanOptions& o) {
  check_group(o);
  const plan::Algorithm& algorithm = algorithm_of(o);
  if (!o.draw.empty() && o.ranks > plan::kMostRanksToDraw) {
    throw UsageError(fmt::format("a drawing of {} ranks cannot be read: at most {}", o.ranks, plan::kMostRanksToDraw));
  }
  if (o.verify) {
    // A picture that goes to a file stays a picture.
    const int status = prove(algorithm, o, o.draw == "svg" ? stderr : stdout);
    if (o.draw.empty() || status != 0) return status;
    if (o.draw == "text") fmt::print("\n");
  }
  const std::vector<plan::Plan> plans = plan::build_all(algorithm, {o.ranks, 0, o.root, hosts_of(o), nodes_of(o)});
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

int run(const PlanOptions& o, const CLI::App& command) {
  try {
    check_options(command);
    if (o.list) return list_algorithms(o.json);
    if (o.verify_all) return prove_all(o);
    if (!o.simulate.empty()) return simulate(o);
    return o.explain ? explain(o) : show(o);
  } catch (const UsageError& error) {
    fmt::print(stderr, "unisono plan: {}\n", error.what());
    return 2;
  }
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* plan = app.add_subcommand("plan", "Show, draw, verify, explain and time the algorithms; nothing is run");
  plan->footer(std::string(kPlanExamples));
  plan->add_option("collective", options->collective, fmt::format("{}", fmt::join(collective_names(), ", ")));
  plan->add_option("-n,--ranks", options->ranks, "How many ranks");
  plan->add_option("-a,--algorithm", options->algorithm, "An algorithm of --list; without it the one that would run");
  plan->add_option("--root", options->root, "The root, for collectives that have one");
  plan->add_option("--rank", options->rank, "Show this rank's plan only");
  plan->add_flag("--verify", options->verify, "Prove the algorithm for this group; exit status 1 when it is wrong");
  plan->add_option("--draw", options->draw, "A picture of all ranks: text (a table) or svg (a time-space diagram)")
      ->check(CLI::IsMember({"text", "svg"}));
  plan->add_option(
      "--simulate", options->simulate,
      fmt::format(
          "Time it on a model of a network: {}, loggp:L=1us,o=0.3us,g=0.1us,G=10Gbit/s, "
          "alpha-beta:alpha=20us,beta=8ns/B, or a file .json; then +fat-tree:k=8,taper=2, +dragonfly:a=4,h=2,p=2 or "
          "+torus:8x8x8. numa:2x64: one host of two NUMA nodes with 64 cores each (docs/simulation.md)",
          fmt::join(preset_names(), ", ")));
  plan->add_option("--sizes", options->sizes,
                   "--simulate: sizes of the collective, 8,64K,1M; --algorithm all: all algorithms");
  plan->add_option("--per-host", options->per_host, "How many ranks each host has (default: one)");
  plan->add_option("--slice", options->slice,
                   "--simulate: bytes of a slice of a block (default: as the library chooses)");
  plan->add_option("--how", options->how,
                   "--simulate: every-rank, event by event; one-host, where one can stand for all; auto")
      ->check(CLI::IsMember({"auto", "every-rank", "one-host"}));
  plan->add_flag("--json", options->json, "For machines: plans, or what the other option prints, as JSON");
  plan->add_flag("--list", options->list, "List all algorithms");
  plan->add_flag("--verify-all", options->verify_all,
                 "Prove all algorithms for 1-33, 64, 127 and 128 ranks and every root");
  plan->add_option("--max", options->max, "--verify-all: up to this many ranks");
  plan->add_option("--threads", options->threads, "--verify-all: how many threads (default: one a core)");
  plan->add_flag("--explain", options->explain, "Say what would run for --bytes, and why (honours UNISONO_ALGORITHM)");
  plan->add_option("--bytes", options->bytes, "Size of the collective: 4096, 64K, 1M")->capture_default_str();
  plan->add_option(
          "--memory", options->memory,
          "with --explain: where the buffers lie; shared: from Group::allocate; shared-inputs: only the inputs are")
      ->check(CLI::IsMember({"private", "shared-inputs", "shared"}))
      ->capture_default_str();
  plan->add_option("--place", options->place, "shm: all ranks on one host; net: not")
      ->check(CLI::IsMember({"shm", "net"}))
      ->capture_default_str();
  plan->add_option("--hosts", options->hosts,
                   "How many ranks each host has: 2,2; for algorithms that look at it, and --explain");
  plan->add_option(
      "--nodes", options->nodes,
      "How many ranks each NUMA node of the host has: 64,64; for algorithms that look at it, --explain and "
      "--simulate numa:..");
  plan->add_option("--cores", options->cores,
                   "--explain: cores that the ranks of one host share (default: what this process may use)");
  plan->callback([options, plan, &status] { status = run(*options, *plan); });
}

}  // namespace unisono::cli
