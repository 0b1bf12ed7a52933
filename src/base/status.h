#pragma once
/// Errors inside the library are values: Status and Result<T>. They become exceptions at the public API only
/// (throw_status). Thread-safety: values.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unisono/error.hpp"

namespace unisono {

enum class Code : unsigned char {
  ok,
  invalid_argument,
  rank_failure,
  mismatch,
  timeout,
  system,
  authentication,
  aborted,
  internal  ///< our bug
};

/// Success, or an error with the fields of the public exceptions. Copying a success is free.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message);

  static Status invalid(std::string message) { return {Code::invalid_argument, std::move(message)}; }
  static Status internal(std::string message) { return {Code::internal, std::move(message)}; }
  static Status authentication(std::string message) { return {Code::authentication, std::move(message)}; }
  /// By that process, where one is known.
  static Status aborted(std::string message, std::string host = {}, std::int64_t pid = 0);
  /// `message` is followed by the text of `error_number` when that is not 0.
  static Status system(std::string message, int error_number);
  static Status rank_failure(std::string message, int rank, std::string host, std::int64_t pid);
  static Status mismatch(std::string message, int rank, int other);
  static Status timeout(std::string message, std::vector<int> missing = {});

  bool ok() const noexcept { return !detail_; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return detail_ ? detail_->code : Code::ok; }
  const std::string& message() const noexcept;
  int rank() const noexcept { return detail_ ? detail_->rank : -1; }
  int other() const noexcept { return detail_ ? detail_->other : -1; }
  int error_number() const noexcept { return detail_ ? detail_->error_number : 0; }
  std::int64_t pid() const noexcept { return detail_ ? detail_->pid : 0; }
  const std::vector<int>& missing() const noexcept;
  const std::string& host() const noexcept;

  /// The same error with "context: " in front of its message; success stays success.
  Status with_context(const std::string& context) const;
  /// The same error with another message.
  Status with_message(std::string message) const;

 private:
  struct Detail {
    Code code = Code::ok;
    std::string message;
    int rank = -1, other = -1, error_number = 0;
    std::int64_t pid = 0;
    std::string host;
    std::vector<int> missing;
  };
  std::shared_ptr<const Detail> detail_;
};

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

/// Throws the public exception for `status`; returns when it is a success.
void throw_status(const Status& status);

/// The value, or the public exception.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw_status(result.status());
  return std::move(result).value();
}

/// The Status for an exception in flight: call in a catch block.
Status status_from_current_exception();

}  // namespace unisono

/// Return early with the error of an expression that yields a Status.
#define UNISONO_TRY(expression)                                                             \
  do {                                                                                      \
    if (auto unisono_status_ = (expression); !unisono_status_.ok()) return unisono_status_; \
  } while (false)
