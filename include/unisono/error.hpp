#pragma once
/// What can go wrong, as exceptions with fields. Every message says what happened, on which rank (host, pid), in which
/// operation (group, sequence number, dtype, bytes, algorithm), after how long, and what to do.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "unisono/export.hpp"

namespace unisono {

/// Base of all that the library throws. Values after construction are constant: safe to copy between threads.
class UNISONO_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  ~Error() override;
};

/// The caller's mistake: a bad argument, a read-only buffer, use after destroy. Nothing was sent,
/// unless it is memory that was changed while the operation was in flight (UNISONO_DEBUG=buffers).
class UNISONO_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// A rank died or left while others needed it. All survivors raise the same first reason, naming the same rank.
class UNISONO_API RankFailure : public Error {
 public:
  RankFailure(const std::string& message, int rank_, std::string host_, std::int64_t pid_)
      : Error(message), rank(rank_), host(std::move(host_)), pid(pid_) {}
  ~RankFailure() override;
  int rank;  ///< rank that failed, in the numbering of the group that raised; -1: a process that is not in this group
  std::string host;  ///< its host name
  std::int64_t pid;  ///< its process id there
};

/// Calls of two ranks do not fit together: under one sequence number they differ (collective,
/// dtype, count, root or op), or each waits for the other, perhaps through more ranks, so that no
/// call in the cycle can end. The message shows all of them. After such a cycle of receives the
/// group can be used as before; a collective in it fails the group.
class UNISONO_API Mismatch : public Error {
 public:
  Mismatch(const std::string& message, int rank_, int other_) : Error(message), rank(rank_), other(other_) {}
  ~Mismatch() override;
  int rank;   ///< one of the two ranks; in a cycle the one that raises
  int other;  ///< the rank whose call differs from it, or for which it waits
};

/// A deadline passed. `missing` names the ranks that had not arrived.
class UNISONO_API Timeout : public Error {
 public:
  Timeout(const std::string& message, std::vector<int> missing_) : Error(message), missing(std::move(missing_)) {}
  ~Timeout() override;
  std::vector<int> missing;
};

/// The operating system or the network refused something (port in use, unreachable address, no memory).
class UNISONO_API SystemError : public Error {
 public:
  SystemError(const std::string& message, int code_) : Error(message), code(code_) {}
  ~SystemError() override;
  int code;  ///< errno, or 0
};

/// A peer could not prove that it belongs to the job, or we could not to it.
class UNISONO_API AuthenticationError : public Error {
 public:
  using Error::Error;
  ~AuthenticationError() override;
};

/// The group was aborted by a call to abort(), here or on another rank.
class UNISONO_API Aborted : public Error {
 public:
  using Error::Error;
  ~Aborted() override;
};

}  // namespace unisono
