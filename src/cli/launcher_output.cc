#include "cli/launcher_output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace unisono::cli {
namespace {
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // longer ones are broken: memory is bounded
constexpr std::string_view kClearLine = "\x1b[2K\r";
}  // namespace

LineSink::LineSink(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1) {}

bool LineSink::write(std::string_view text) {
  while (!text.empty() && !closed_) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd p{fd_, POLLOUT, 0};  // somebody made it non-blocking
      (void)::poll(&p, 1, -1);
    } else if (errno != EINTR) {
      closed_ = true;
    }
  }
  return !closed_;
}

void LineCutter::emit(std::string& out, std::string_view line, char end) {
  if (end == '\r' && line.empty()) return;  // bars start with a carriage return
  if (sink_->unfinished_) out += kClearLine;
  out += prefix_;
  out += line;
  sink_->unfinished_ = end == '\r' && sink_->is_terminal();
  out += sink_->unfinished_ ? '\r' : '\n';
}

void LineCutter::feed(std::string_view bytes) {
  std::string out;
  if (cut_return_ && !bytes.empty() && bytes.front() == '\n') {  // the other half of a "\r\n"
    bytes.remove_prefix(1);
    if (std::exchange(sink_->unfinished_, false)) out += '\n';
  }
  if (!bytes.empty()) cut_return_ = bytes.back() == '\r';
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      partial_ += bytes;
      break;
    }
    partial_ += bytes.substr(0, end);
    const bool both = bytes[end] == '\r' && end + 1 < bytes.size() && bytes[end + 1] == '\n';
    emit(out, partial_, both ? '\n' : bytes[end]);
    partial_.clear();
    bytes.remove_prefix(end + (both ? 2 : 1));
  }
  if (partial_.size() > kLongestLine) {
    emit(out, partial_, '\n');
    partial_.clear();
  }
  sink_->write(out);
}

void LineSink::end() {
  if (std::exchange(unfinished_, false)) write("\n");
}

void LineCutter::finish() {
  if (partial_.empty()) return;
  std::string out;
  emit(out, partial_, '\n');
  partial_.clear();
  sink_->write(out);
}

std::string rank_prefix(int rank, bool colour) {
  if (!colour || std::getenv("NO_COLOR") != nullptr) return fmt::format("[{}] ", rank);
  constexpr std::array kColours = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};
  return fmt::format("\x1b[{}m[{}]\x1b[0m ", kColours[static_cast<std::size_t>(rank) % kColours.size()], rank);
}

}  // namespace unisono::cli
