#pragma once
/// unisono's errors as those that torch's users catch.

#include <c10/util/Exception.h>

#include <exception>
#include <string>

struct _ts;  // PyThreadState

namespace unisono::torch_backend {

/// How a finished group or operation is to be reported by c10d::Backend::getError() and Work::getFutureResult().
enum class Failure : unsigned char { none, timeout, communication, remote };

/// `error` (one of unisono's) as an exception that PyTorch hands to Python: RankFailure, Mismatch, Timeout and Aborted become
/// DistBackendError, a refusing system or a stranger DistNetworkError, the caller's mistakes RuntimeError. The text is
/// unisono's, behind "what: ". Anything else is returned as it is. Thread-safety: any thread.
std::exception_ptr translate(const std::exception_ptr& error, const std::string& what);

/// What kind of failure an untranslated error is; none for a caller's mistake, which changes nothing.
Failure kind_of(const std::exception_ptr& error) noexcept;

/// Throw translate(current exception). Called in a catch block.
[[noreturn]] void rethrow_translated(const std::string& what);

/// For Options::interrupted: lets Python run its signal handlers (Ctrl-C); true when one raised.
bool python_interrupted() noexcept;

/// For Config::only_thread: whether this is Python's main thread, and there is no other that runs
/// Python.
bool is_only_python_thread() noexcept;

/// When a signal handler raised in this thread: throw what it raised. No GIL needed.
void throw_python_error();

/// A thread other than Python's main one that does not hold Python's lock.
bool is_beside_python() noexcept;

/// Never returns.
[[noreturn]] void stay() noexcept;

/// Gives up Python's lock while it lives, if this thread has it: others may need it to come to an
/// end.
class LetPythonGo {
 public:
  LetPythonGo() noexcept;
  ~LetPythonGo();
  LetPythonGo(const LetPythonGo&) = delete;
  LetPythonGo& operator=(const LetPythonGo&) = delete;

 private:
  _ts* state_;
};

}  // namespace unisono::torch_backend
