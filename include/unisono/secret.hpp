#pragma once
/// A job secret for ranks that meet in a store which others may read and write, as PyTorch's.

#include <chrono>
#include <string>
#include <string_view>

#include "unisono/export.hpp"
#include "unisono/store.hpp"

namespace unisono {

struct Config;

/// Who agrees, and on what terms. Thread-safety: a value.
struct SecretTerms {
  int rank = 0, size = 1;
  Duration timeout = std::chrono::minutes(5);
  /// That all ranks are on this host is known from elsewhere (the launcher, a loopback address).
  /// Then one that says otherwise in the store is refused, as it may be somebody who wants the
  /// secret to be sent through the store.
  bool one_host = false;
  bool strict = false;          ///< several hosts are an error; one rank's yes is everybody's
  bool allow_insecure = false;  ///< several hosts need no warning, and `one_host` refuses nobody; rank 0's counts
};

/// A new secret, in hexadecimal digits, the same on all ranks. Every rank calls it once for one
/// store (or prefix of one).
///
/// On one host it travels over a unix socket to processes of this user alone (SO_PEERCRED), and
/// nothing in `store` tells it. Between hosts it travels through `store` with a warning: whoever
/// reads that can join.
///
/// Blocks until all ranks have called. Throws Timeout that names those that have not, on all that
/// have; InvalidArgument for a rank that is out of range and for what the terms forbid;
/// AuthenticationError when somebody else answers. Thread-safety: any thread.
UNISONO_API std::string agree_on_secret(Store& store, const SecretTerms& terms);

/// The store that config.init_method names, for agree_on_secret(): also between hosts without a
/// secret, where it lets in whoever reaches the address and knows the job's name. Blocks until it
/// is reached, at most config.init_timeout. Throws SystemError, InvalidArgument,
/// AuthenticationError.
UNISONO_API std::shared_ptr<Store> open_unguarded_store(const Config& config);

/// In place of agree_on_secret(), by a rank that cannot go on: the others' calls throw
/// InvalidArgument with `reason`.
UNISONO_API void decline_secret(Store& store, const SecretTerms& terms, std::string_view reason) noexcept;

}  // namespace unisono
