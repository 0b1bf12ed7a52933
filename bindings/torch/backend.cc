#include "backend.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "errors.h"
#include "store.h"
#include "versions.h"

namespace unisono::torch_backend {
namespace {

std::string place_of(const Backend::Options& options) {
  std::string text = c10::str(" on group \"", options.group_name, "\"");
  if (!options.global_ranks_in_group.empty())
    text += c10::str(" (global ranks ", c10::Join(", ", options.global_ranks_in_group), ")");
  return text;
}

int global_rank(const Backend::Options& options, int rank) {
  const auto& ranks = options.global_ranks_in_group;
  return ranks.empty() ? rank : static_cast<int>(ranks.at(static_cast<std::size_t>(rank)));
}

void check_place(int rank, int size) {
  if (rank < 0 || rank >= size)
    throw InvalidArgument(c10::str("rank ", rank, " of ", size, " ranks: ranks go from 0 to ", size - 1));
}

/// The name that torch gives the group; the default one is "0" there.
FlightRecord::Group recorded(const Backend::Options& options, int rank, int size) {
  FlightRecord::Group group{options.group_name, description_of(options), options.global_ranks_in_group,
                            global_rank(options, rank)};
  if (!group.ranks.empty()) return group;
  for (int r = 0; r < size; r++) group.ranks.push_back(static_cast<std::uint64_t>(r));
  return {"0", "default_pg", std::move(group.ranks), rank};
}

}  // namespace

Backend::Backend(std::shared_ptr<Worlds> worlds, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      worlds_(std::move(worlds)),
      where_(place_of(*options_)),
      timeout_ms_(options_->timeout.count()) {
  try {
    const auto ours = std::make_shared<TorchStore>(store);
    check_place(rank, size);
    const Duration timeout = saturated(options_->timeout);
    const bool everybody = options_->global_ranks_in_group.empty();
    const Place place{rank, size, global_rank(*options_, rank), timeout};
    world_ = everybody ? worlds_->found(*ours, place) : worlds_->share(*ours, place);
    memory_ = std::make_shared<SharedAllocator>(world_);
    *group_ = world_->context.create_group(ours, rank, size, options_->group_name);
    adopts_ = size > 1 && group_->transport() == "shm";
    // When all are through, all have read: a group that is made over the same store later must not find this one's addresses.
    group_->barrier({{}, timeout});
    ours->forget();
    worlds_->enlist({world_, group_, executor_, health_});
    recorded_group_ = worlds_->record()->enlist(recorded(*options_, rank, size));
  } catch (const Timeout& e) {
    // Before the group exists, a rank that is missing is the store's news.
    C10_THROW_ERROR(DistStoreError, c10::str(describe("unisono: joining"), ": timeout : ", e.what()));
  } catch (const Error&) {
    rethrow_translated(describe("unisono: joining"));
  }
  init();
}

void Backend::setTimeout(milliseconds timeout) {
  options_->timeout = timeout;
  timeout_ms_.store(timeout.count(), std::memory_order_relaxed);
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  auto options = c10::make_intrusive<Options>(opts ? opts->timeout : options_->timeout);
  if (opts) name_as(*options, *opts);
  for (const int r : ranks)
    options->global_ranks_in_group.push_back(static_cast<std::uint64_t>(global_rank(*options_, r)));
  return c10::make_intrusive<Backend>(worlds_, store, static_cast<int>(mine - ranks.begin()),
                                      static_cast<int>(ranks.size()), std::move(options));
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& opts,
                                                 const int& rank, const int& size) {
  auto options = c10::make_intrusive<Options>(opts ? opts->timeout : options_->timeout);
  if (opts) name_as(*options, *opts);
  return c10::make_intrusive<Backend>(worlds_, store, rank, size, std::move(options));
}

void Backend::abort() { abort_because("its process group was aborted"); }

void Backend::abort_because(const std::string& reason) {
  try {
    group_->abort(reason);
    finish_callbacks();
  } catch (const Error&) {
    rethrow_translated(describe("unisono: abort"));
  }
}

void Backend::finish_callbacks() {
  constexpr std::chrono::seconds kPatience(1);  // a callback may take as long as it likes
  const LetPythonGo others;
  executor_->wait(kPatience);
}

void Backend::shutdown() {
  if (!world_->made_here()) return;  // a forked child: the parent's group goes on
  try {
    if (options_->global_ranks_in_group.empty()) worlds_->retire(world_);
    group_->destroy();
    complete(landings_.pending());
    finish_callbacks();
  } catch (const Error&) {
    rethrow_translated(describe("unisono: shutdown"));
  }
}

c10d::ErrorType Backend::getError() {
  switch (health_->failure.load()) {
    case Failure::none:
      return c10d::ErrorType::SUCCESS;
    case Failure::timeout:
      return c10d::ErrorType::TIMEOUT;
    case Failure::remote:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

Duration Backend::limit(milliseconds timeout) const {
  return saturated(timeout == c10d::kUnsetTimeout ? milliseconds(timeout_ms_.load(std::memory_order_relaxed))
                                                  : timeout);
}

std::string Backend::describe(const char* title) const { return title + where_; }

void Backend::check_process(const char* title) const {
  if (group_->made_here()) return;
  try {
    group_->barrier();  // throws, and says whose it is
  } catch (const Error&) {
    rethrow_translated(describe(title));
  }
}

void Backend::check_root(std::int64_t root, const char* what) const {
  TORCH_CHECK(root >= 0 && root < size_, what, ": root ", root, " is out of range: the group has ranks 0 to ",
              size_ - 1, ". Nothing was sent");
}

void Backend::at_root(const char* title, const std::function<void()>& checks) {
  try {
    checks();
  } catch (c10::Error& e) {
    if (size_ == 1) throw;
    abort_because(c10::str("the root of ", title, " was given something wrong: ", e.what_without_backtrace()));
    e.add_context("The group is aborted: the other ranks wait for its root");
    throw;
  }
}

std::uint64_t Backend::note(const Operation& operation, milliseconds timeout, int peer) {
  const bool is_message = peer != -1 || operation.type == c10d::OpType::RECVANYSOURCE;
  if (is_message) messages_.fetch_add(1, std::memory_order_relaxed);
  return worlds_->record()->begin([&](FlightRecord::Entry& entry) {
    entry.group = recorded_group_;
    entry.title = operation.title;
    entry.is_message = is_message;
    entry.collective_number = sequence_.load(std::memory_order_relaxed);
    entry.message_number = messages_.load(std::memory_order_relaxed);
    entry.rank = rank_;
    entry.peer = peer;
    entry.inputs.set(operation.inputs);
    entry.outputs.set(operation.outcome.tensors.empty() ? at::TensorList() : operation.outcome.tensors.front());
    entry.timeout_ms = std::chrono::duration_cast<milliseconds>(limit(timeout)).count();
  });
}

void Backend::begin_on_memory(Operation& o, std::pair<bool, bool> reached) {
  if (!adopts_) return;
  const auto [source, landing] = reached;
  Adopter& adopter = *worlds_->adopter();
  const bool read = o.source.defined(), written = o.landing.defined();
  if (read && written && o.source.storage().is_alias_of(o.landing.storage())) {
    o.begun[0] = adopter.begin(world_, size_, o.landing, source || landing);
    return;
  }
  if (read) o.begun[0] = adopter.begin(world_, size_, o.source, source);
  if (written) o.begun[1] = adopter.begin(world_, size_, o.landing, landing);
}

Backend::WorkPtr Backend::launch(Operation&& operation, bool async, milliseconds timeout) {
  check_process(operation.title);
  sequence_.fetch_add(1, std::memory_order_relaxed);
  Recording recording = Recording::begin(operation.title, operation.inputs);
  operation.call.options.timeout = limit(timeout);
  const std::uint64_t record = note(operation, timeout);
  begin_on_memory(operation, operation.reached(rank_, size_));
  try {
    if (async) {
      const Call call = operation.call;  // its spans keep referring to the operation's vectors, which only change hands
      return in_flight(std::move(operation), std::move(recording), group_->start(call), record);
    }
    operation.call.options.interrupted = &python_interrupted;
    const Caller caller(*health_, *executor_);
    group_->run(operation.call);
  } catch (const Error&) {
    worlds_->record()->end(record, false);
    if (const Failure kind = kind_of(std::current_exception()); kind != Failure::none) health_->failure.store(kind);
    throw_python_error();
    rethrow_translated(describe(operation.title));
  }
  worlds_->record()->end(record, true);
  complete(operation.earlier);
  if (operation.finish) operation.finish();
  recording.end();
  return nullptr;
}

Backend::WorkPtr Backend::in_flight(Operation&& operation, Recording recording, unisono::Work work,
                                    std::uint64_t record) {
  const c10d::OpType type = operation.type;
  std::string what = describe(operation.title);
  work.on_done([kept = worlds_->record(), record, work] { kept->end(record, work.error() == nullptr); }, false);
  const bool lands = operation.finish != nullptr;
  auto flight = std::make_shared<Flight>(std::move(operation), std::move(recording), std::move(work), std::move(what),
                                         world_, executor_, health_);
  flight->begin();
  if (lands) landings_.add(flight);
  return c10::make_intrusive<PendingWork>(rank_, type, getSequenceNumberForGroup(), std::move(flight));
}

}  // namespace unisono::torch_backend
