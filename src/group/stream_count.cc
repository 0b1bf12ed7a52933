#include "group/stream_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "base/median.h"
#include "group/talk.h"

namespace unisono::detail {

namespace {

constexpr std::int64_t kStreamsTag = std::numeric_limits<std::int64_t>::min() + 4712;
constexpr std::array kCandidates{1, 2, 4};
constexpr int kStreamsTurns = 5, kWarm = 1;
constexpr double kPortionSeconds = 8e-3;
constexpr std::uint64_t kLeast = 512 << 10, kMost = 8 << 20;
/// A portion travels in messages of so many bytes, one after the other, as collectives have them: 8 MiB in one message fill the buffers of four connections, which
/// looks fast, where their slices are half as fast as over one.
constexpr std::uint64_t kSlice = 512 << 10;
/// More streams are more calls into the kernel and more memory there: they have to be worth it.
constexpr double kWorth = 1.5;
constexpr Duration kOpenTime = std::chrono::seconds(5);

/// Whether the second way took less time by that much in all turns but one: what else the machines do makes one turn fast and another slow.
bool worth_it(const std::vector<double>& usual, const std::vector<double>& other) {
  if (usual.size() != other.size()) return false;
  int better = 0;
  for (std::size_t turn = 0; turn < usual.size(); turn++) better += other[turn] * kWorth < usual[turn] ? 1 : 0;
  return better + 1 >= static_cast<int>(usual.size());
}

class Trial {
 public:
  Trial(GroupImpl& group, int other)
      : group_(group),
        messenger_(*group.parts().context->messenger),
        peer_(group.parts().members[static_cast<std::size_t>(other)].peer),
        talk_(group, other, kStreamsTag, "measuring streams", 2 * kSlice) {}

  /// Says how much; the times by candidate, nothing where its streams did not come about.
  std::array<std::vector<double>, kCandidates.size()> lead(std::uint64_t portion) {
    talk_.receive(1);
    await(static_cast<int>(talk_.data[0]));
    std::memcpy(talk_.data.data(), &portion, sizeof portion);
    talk_.send(sizeof portion);
    return times(portion);
  }
  void follow() {
    std::uint64_t portion = 0;
    talk_.data[0] = static_cast<std::byte>(messenger_.streams(peer_));
    talk_.send(1);
    talk_.receive(sizeof portion);
    std::memcpy(&portion, talk_.data.data(), sizeof portion);
    times(std::min(portion, kMost));
  }
  /// As many as the largest candidate, where this rank is the one that dials; without them what is there is compared.
  void open() {
    messenger_.use_streams(peer_, kCandidates.back());
    until([&] { return !messenger_.opening(peer_); });
  }
  void close(int streams) { messenger_.use_streams(peer_, streams); }

 private:
  /// The other rank has so many: their other ends are about to be here, too.
  void await(int streams) {
    until([&] { return messenger_.streams(peer_) >= std::min(streams, kCandidates.back()); });
  }
  template <class Done>
  void until(const Done& done) {
    const ContextImpl& context = *group_.parts().context;
    context.progress->wait(nullptr, saturating_add(context.clock.now(), kOpenTime), nullptr, done);
  }
  std::array<std::vector<double>, kCandidates.size()> times(std::uint64_t portion) {
    std::array<std::vector<double>, kCandidates.size()> all;
    for (int turn = 0; turn < kWarm + kStreamsTurns; turn++)
      for (std::size_t c = 0; c < kCandidates.size(); c++) {
        const double taken = timed(kCandidates[c], portion);
        if (turn >= kWarm && messenger_.streams(peer_) >= kCandidates[c]) all[c].push_back(taken);
      }
    return all;
  }
  /// To and fro at once: two streams may carry more one way, and yet be slower where both cores send and receive.
  double timed(int streams, std::uint64_t portion) {
    const Clock& clock = group_.parts().context->clock;
    messenger_.limit_streams(peer_, streams);
    const TimePoint start = clock.now();
    for (std::uint64_t sent = 0; sent < portion; sent += kSlice) talk_.exchange(std::min(kSlice, portion - sent));
    return std::chrono::duration<double>(clock.now() - start).count();
  }

  GroupImpl& group_;
  engine::Messenger& messenger_;
  int peer_;
  Talk talk_;
};

}  // namespace

int measure_streams(GroupImpl& group, int other, double beta) {
  Trial trial(group, other);
  const int usual = group.parts().context->config.tcp_streams;
  trial.open();
  if (group.rank() > other) {
    trial.follow();
    trial.close(usual);
    return 0;
  }
  const auto portion = static_cast<std::uint64_t>(
      std::clamp(kPortionSeconds / std::max(beta, 1e-12), static_cast<double>(kLeast), static_cast<double>(kMost)));
  const auto times = trial.lead(portion);
  trial.close(usual);
  std::size_t best = 0;
  std::string text;
  for (std::size_t c = 0; c < kCandidates.size(); c++) {
    if (times[c].empty()) continue;
    if (c > 0 && worth_it(times[best], times[c])) best = c;
    text += fmt::format("{}{} stream{} {:.3f}", text.empty() ? "" : ", ", kCandidates[c],
                        kCandidates[c] == 1 ? "" : "s", static_cast<double>(portion) / median(times[c]) * 1e-9);
  }
  group.parts().context->log.info(fmt::format("to rank {}, portions of {} bytes, GB/s: {}; {} stream{} chosen", other,
                                              portion, text, kCandidates[best], kCandidates[best] == 1 ? "" : "s"));
  return kCandidates[best];
}

}  // namespace unisono::detail
