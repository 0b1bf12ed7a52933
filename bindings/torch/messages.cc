/// send, recv, and monitored_barrier, which is made of them.

#include <algorithm>
#include <span>

#include "backend.h"
#include "errors.h"
#include "tensors.h"

namespace unisono::torch_backend {
namespace {

using c10d::OpType;
using SteadyClock = std::chrono::steady_clock;

std::span<const std::byte> readable(const at::Tensor& t) {
  return {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()};
}
std::span<std::byte> writable(const at::Tensor& t) { return {static_cast<std::byte*>(t.data_ptr()), t.nbytes()}; }

/// Tags of users are ints; these are beyond them.
constexpr std::int64_t kMonitored = std::int64_t{1} << 40;

/// torch's programs take a message to oneself for a mistake, as its own back ends do.
void check_other(int peer, int rank, const char* what) {
  TORCH_CHECK(peer != rank, what, ": rank ", rank, " is to exchange a message with itself, which would wait for ever; ",
              "copy the tensor instead. Nothing was sent");
}

void check_message(const std::vector<at::Tensor>& tensors, int tag, const char* what) {
  TORCH_CHECK(tensors.size() == 1, what, ": ", tensors.size(), " tensors were given, one is needed. Nothing was sent");
  TORCH_CHECK(tag >= 0, what, ": tag ", tag, " is negative. Nothing was sent");
  check_dense(tensors.front(), what);
}

}  // namespace

Backend::WorkPtr Backend::message(Operation o, int peer,
                                  const std::function<unisono::Work(const unisono::Options&)>& begin) {
  check_process(o.title);
  Recording recording = Recording::begin(o.title, o.outcome.tensors.front());
  const std::string what = describe(o.title);
  const std::uint64_t record = note(o, c10d::kUnsetTimeout, peer);
  unisono::Options options;
  options.timeout = limit(c10d::kUnsetTimeout);
  begin_on_memory(o, {true, true});
  try {
    return in_flight(std::move(o), std::move(recording), begin(options), record);
  } catch (const Error&) {
    worlds_->record()->end(record, false);
    rethrow_translated(what);
  }
}

Backend::WorkPtr Backend::send(Tensors& tensors, int dst, int tag) {
  Operation o(OpType::SEND, "unisono:send");
  check_message(tensors, tag, o.title);
  check_other(dst, getRank(), o.title);
  o.inputs = tensors;
  o.read(packed(tensors.front()));
  o.outcome.tensors.push_back(tensors);
  return message(std::move(o), dst, [&, data = readable(o.source)](const unisono::Options& options) {
    return group_->isend(data, dst, tag, options);
  });
}

Backend::WorkPtr Backend::receive(Tensors& tensors, int src, int tag, const char* title, c10d::OpType type) {
  Operation o(type, title);
  check_message(tensors, tag, title);
  check_other(src, getRank(), title);
  check_writable(tensors.front(), title);
  o.write(tensors.front());
  o.outcome.tensors.push_back(tensors);
  return message(std::move(o), src, [&, data = writable(o.landing)](const unisono::Options& options) {
    return group_->irecv(data, src, tag, options);
  });
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int src, int tag) {
  return receive(tensors, src, tag, "unisono:recv", OpType::RECV);
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, kAnyRank, tag, "unisono:recvAnySource", OpType::RECVANYSOURCE);
}

/// Every rank reports to rank 0, which answers when all have: so rank 0 knows who is missing. The words are those that users of
/// Gloo's look for.
void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const std::int64_t tag = kMonitored + monitored_.fetch_add(1);
  const auto timeout = std::chrono::duration_cast<milliseconds>(limit(opts.timeout));  // far from overflowing
  const auto until = SteadyClock::now() + timeout;
  std::byte token{};
  const std::span<std::byte> box(&token, 1);
  const auto options = [&] {
    unisono::Options o;
    o.timeout = std::max<Duration>(until - SteadyClock::now(), milliseconds(1));
    o.interrupted = &python_interrupted;
    return o;
  };
  if (rank_ != 0) {
    try {
      group_->send(box, 0, tag, options());
      group_->recv(box, 0, tag, options());
    } catch (const Error& e) {
      throw_python_error();
      C10_THROW_ERROR(DistBackendError,
                      c10::str("Rank ", rank_, " successfully reached monitoredBarrier, but received errors while ",
                               "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank. ",
                               describe("unisono: monitored_barrier"), ": ", e.what()));
    }
    return;
  }
  std::vector<int> missing;
  std::string why;
  for (int r = 1; r < size_; r++) {
    TORCH_CHECK(timeout.count() > 0, "Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms.",
                describe(" unisono: monitored_barrier"), ": the timeout leaves no time to wait for anybody");
    try {
      group_->recv(box, r, tag, options());
    } catch (const Error& e) {
      throw_python_error();
      missing.push_back(r);
      why += c10::str("\n  rank ", r, ": ", e.what());
      if (!wait_all_ranks) break;
    }
  }
  if (!missing.empty())
    C10_THROW_ERROR(DistBackendError, c10::str(missing.size() == 1 ? "Rank " : "Ranks ", c10::Join(", ", missing),
                                               " failed to pass monitoredBarrier in ", timeout.count(), " ms",
                                               describe(" (unisono: monitored_barrier"), "):", why));
  try {
    for (int r = 1; r < size_; r++) group_->send(box, r, tag, options());
  } catch (const Error&) {
    throw_python_error();
    rethrow_translated(describe("unisono: monitored_barrier"));
  }
}

}  // namespace unisono::torch_backend
