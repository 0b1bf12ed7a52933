/// Last words: what clients leave for the case that they end without a goodbye, and what the
/// serving process says itself.

#include <fmt/format.h>

#include <mutex>

#include "rendezvous/store_server_impl.h"

namespace unisono::rendezvous::server {
namespace {

std::size_t size_of(const std::pair<std::string, Bytes>& words) { return words.first.size() + words.second.size(); }

}  // namespace

void Server::set_first(std::string key, Bytes value) {
  {
    const std::lock_guard lock(mutex_);
    handed_in_.emplace_back(std::move(key), std::move(value));
  }
  wake_thread();
}

/// A request without a key is the goodbye. The oldest words go first: whom they concerned has met
/// the others long ago.
StoreResponse Server::keep_last_words(Connection& c, StoreRequest& request) {
  StoreResponse response;
  auto& kept = c.last_words;
  if (request.keys.empty()) {
    kept.clear();
    return response;
  }
  std::pair<std::string, Bytes> words{request.keys.front(), std::move(request.value)};
  if (size_of(words) > kMaxLastWords) {
    response.code = StoreCode::invalid;
    response.message = fmt::format("last words of more than {} bytes", kMaxLastWords);
    return response;
  }
  std::erase_if(kept, [&](const auto& w) { return w.first == words.first; });
  kept.push_back(std::move(words));
  std::size_t bytes = 0;
  for (const auto& w : kept) bytes += size_of(w);
  for (; bytes > kMaxLastWords; kept.pop_front()) bytes -= size_of(kept.front());
  return response;
}

/// Nobody waits for answers any more, but a goodbye may still be in the socket.
void Server::on_hang_up(Id id, Connection& c) {
  if (!c.authenticated() || c.last_words.empty()) {
    close(id, "closed by the other side");
    return;
  }
  unpark(id, c);
  c.out.reset();
  on_readable(id, c);
}

/// Outside of close(): setting a key may answer, and so close, other connections.
void Server::publish_last_words() {
  while (!due_.empty()) {
    auto [key, value] = std::move(due_.back());
    due_.pop_back();
    (void)values_.apply({StoreOp::compare_set, {key}, std::move(value), {}});
    wake_waiters(key);
  }
}

}  // namespace unisono::rendezvous::server
