#include "base/status.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "base/run_report.h"

namespace unisono {

Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
RankFailure::~RankFailure() = default;
Mismatch::~Mismatch() = default;
Timeout::~Timeout() = default;
SystemError::~SystemError() = default;
AuthenticationError::~AuthenticationError() = default;
Aborted::~Aborted() = default;

Status::Status(Code code, std::string message) {
  Detail d;
  d.code = code;
  d.message = std::move(message);
  detail_ = std::make_shared<const Detail>(std::move(d));
}

Status Status::system(std::string message, int error_number) {
  Detail d;
  d.code = Code::system;
  d.message = error_number ? fmt::format("{}: {} (errno {})", message, std::strerror(error_number), error_number)
                           : std::move(message);
  d.error_number = error_number;
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

Status Status::rank_failure(std::string message, int rank, std::string host, std::int64_t pid) {
  Detail d;
  d.code = Code::rank_failure;
  d.message = std::move(message);
  d.rank = rank;
  d.host = std::move(host);
  d.pid = pid;
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

Status Status::aborted(std::string message, std::string host, std::int64_t pid) {
  Detail d;
  d.code = Code::aborted;
  d.message = std::move(message);
  d.host = std::move(host);
  d.pid = pid;
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

Status Status::mismatch(std::string message, int rank, int other) {
  Detail d;
  d.code = Code::mismatch;
  d.message = std::move(message);
  d.rank = rank;
  d.other = other;
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

Status Status::timeout(std::string message, std::vector<int> missing) {
  Detail d;
  d.code = Code::timeout;
  d.message = std::move(message);
  d.missing = std::move(missing);
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

const std::string& Status::message() const noexcept {
  static const std::string empty;
  return detail_ ? detail_->message : empty;
}
const std::string& Status::host() const noexcept {
  static const std::string empty;
  return detail_ ? detail_->host : empty;
}
const std::vector<int>& Status::missing() const noexcept {
  static const std::vector<int> empty;
  return detail_ ? detail_->missing : empty;
}

Status Status::with_context(const std::string& context) const {
  return ok() ? *this : with_message(context + ": " + detail_->message);
}

Status Status::with_message(std::string message) const {
  if (ok()) return *this;
  Detail d = *detail_;
  d.message = std::move(message);
  Status s;
  s.detail_ = std::make_shared<const Detail>(std::move(d));
  return s;
}

void throw_status(const Status& s) {
  switch (s.code()) {
    case Code::ok:
      return;
    case Code::invalid_argument:
      throw InvalidArgument(s.message());
    case Code::rank_failure:
      report_to_run(s.pid(), s.host());
      throw RankFailure(s.message(), s.rank(), s.host(), s.pid());
    case Code::mismatch:
      throw Mismatch(s.message(), s.rank(), s.other());
    case Code::timeout:
      throw Timeout(s.message(), s.missing());
    case Code::system:
      throw SystemError(s.message(), s.error_number());
    case Code::authentication:
      throw AuthenticationError(s.message());
    case Code::aborted:
      if (s.pid() > 0) report_to_run(s.pid(), s.host());
      throw Aborted(s.message());
    case Code::internal:
      throw Error("unisono bug, please report: " + s.message());
  }
}

Status status_from_current_exception() {
  try {
    throw;
  } catch (const InvalidArgument& e) {
    return Status::invalid(e.what());
  } catch (const RankFailure& e) {
    return Status::rank_failure(e.what(), e.rank, e.host, e.pid);
  } catch (const Mismatch& e) {
    return Status::mismatch(e.what(), e.rank, e.other);
  } catch (const Timeout& e) {
    return Status::timeout(e.what(), e.missing);
  } catch (const SystemError& e) {
    return Status(Code::system, e.what());
  } catch (const AuthenticationError& e) {
    return Status::authentication(e.what());
  } catch (const Aborted& e) {
    return Status::aborted(e.what());
  } catch (const std::bad_alloc&) {
    return Status::system("out of memory", 12);
  } catch (const std::exception& e) {
    return Status::internal(e.what());
  }
}

}  // namespace unisono
