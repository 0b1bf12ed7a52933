#include "cli/launcher_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <utility>

namespace unisono::cli {

LineSink::LineSink(int fd) : fd_(fd), is_terminal_(::isatty(fd) == 1) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return;
  is_socket_ = S_ISSOCK(s.st_mode);
  is_pipe_ = S_ISFIFO(s.st_mode) || is_terminal_;
  if (is_pipe_)
    own_ = Fd(
        ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_APPEND | O_CLOEXEC));
}

/// How many bytes of `text` are done with: written, or dropped.
std::size_t LineSink::write_some(std::string_view text) {
  if (closed_ || dropping_) return text.size();
  if (is_pipe_ && !own_) {  // not ours to open (another user's): a pipe that polls ready takes so much without blocking
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return 0;
    text = text.substr(0, PIPE_BUF);
  }
  const ssize_t n = is_socket_ ? ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                               : ::write(fd(), text.data(), text.size());
  if (n >= 0) return static_cast<std::size_t>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  if (errno == EPIPE) {
    closed_ = true;
  } else {
    dropping_ = true;
    error_ = errno;
  }
  return text.size();
}

void LineSink::write(std::string_view text) {
  while (waiting_.empty() && !text.empty()) {
    const std::size_t done = write_some(text);
    text.remove_prefix(done);
    if (done == 0) break;
  }
  waiting_ += text;
}

void LineSink::flush() {
  std::size_t done = 0;
  while (done < waiting_.size()) {
    const std::size_t n = write_some(std::string_view(waiting_).substr(done));
    if (n == 0) break;
    done += n;
  }
  waiting_.erase(0, done);
}

int LineSink::take_error() noexcept { return std::exchange(error_, 0); }

void LineSink::say(std::string_view line) {
  std::string out;
  if (line_.open != nullptr) {
    out += line_.at_return ? kClearLine : "\n";
  } else if (line_.unchanged) {
    out += '\n';
  }
  line_ = {};
  write(out.append(line));
}

void LineSink::end() {
  if (std::exchange(line_.open, nullptr) != nullptr) write("\n");
}

bool same_place(int fd, int other) {
  struct stat a{}, b{};
  if (::fstat(fd, &a) != 0 || ::fstat(other, &b) != 0) return false;
  if (::isatty(fd) == 1 && ::isatty(other) == 1) return a.st_rdev == b.st_rdev;
  return !S_ISCHR(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace unisono::cli
