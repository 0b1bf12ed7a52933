#include "errors.h"

#include <unisono/error.hpp>

namespace unisono::torch_backend {
namespace {

template <class E>
std::exception_ptr made(const std::string& text) {
  return std::make_exception_ptr(E({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text));
}

/// A word that people, and PyTorch's own tests, look for: "timeout" between blanks.
std::string text_of(const std::string& what, const Error& error) {
  const bool late = dynamic_cast<const Timeout*>(&error) != nullptr;
  return what + (late ? ": timeout : " : ": ") + error.what();
}

}  // namespace

std::exception_ptr translate(const std::exception_ptr& error, const std::string& what) {
  if (!error) return error;
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    return made<c10::Error>(text_of(what, e));
  } catch (const SystemError& e) {
    return made<c10::DistNetworkError>(text_of(what, e));
  } catch (const AuthenticationError& e) {
    return made<c10::DistNetworkError>(text_of(what, e));
  } catch (const Error& e) {
    return made<c10::DistBackendError>(text_of(what, e));
  } catch (...) {
    return std::current_exception();
  }
}

Failure kind_of(const std::exception_ptr& error) noexcept {
  if (!error) return Failure::none;
  try {
    std::rethrow_exception(error);
  } catch (const Timeout&) {
    return Failure::timeout;
  } catch (const RankFailure&) {
    return Failure::remote;
  } catch (const InvalidArgument&) {
    return Failure::none;  // nothing was sent: the group is as it was
  } catch (...) {
    return Failure::communication;
  }
}

void rethrow_translated(const std::string& what) { std::rethrow_exception(translate(std::current_exception(), what)); }

}  // namespace unisono::torch_backend
