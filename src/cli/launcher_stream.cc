#include "cli/launcher_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

namespace unisono::cli {
namespace {

constexpr std::size_t kLargestPipe = std::size_t{1} << 20;

void write_log(Stream& stream, std::string_view text) {
  while (stream.log && !text.empty()) {
    const ssize_t n = ::write(stream.log.get(), text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      stream.log_error = errno;
      stream.log.reset();
    }
  }
}

}  // namespace

Result<Fd> open_pipe(Stream& stream) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return Status::system("cannot make a pipe for a rank's output (ulimit -n?)", errno);
  stream.fd = Fd(ends[0]);
  Fd writer(ends[1]);
  if (::fcntl(stream.fd.get(), F_SETFL, O_NONBLOCK) != 0) return Status::system("cannot set up a pipe", errno);
  return writer;
}

bool somebody_writes_to(int fd) {
  struct stat s{};
  return ::fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISSOCK(s.st_mode));
}

Status open_log(Stream& stream, const std::string& directory, int rank, const char* kind) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::system(fmt::format("--log-dir {}: cannot make it", directory), error.value());
  const std::string path = fmt::format("{}/rank-{}.{}", directory, rank, kind);
  stream.log = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!stream.log) return Status::system(fmt::format("--log-dir: cannot open {}", path), errno);
  return {};
}

void drain(Stream& stream, TimePoint now, bool all) {
  if (!stream.fd) return;
  std::array<char, 64 * 1024> buffer;
  std::size_t most = all ? kLargestPipe : 1;  // a child that was left behind may write faster than we read
  while (stream.fd && most > 0) {
    const ssize_t n = ::read(stream.fd.get(), buffer.data(), buffer.size());
    if (n > 0) {
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
      write_log(stream, bytes);
      if (stream.lines != nullptr) stream.lines->feed(bytes);
      stream.fed = now;
      most -= std::min(most, bytes.size());
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    end(stream);
  }
}

void end(Stream& stream) {
  if (stream.fd && stream.lines != nullptr) stream.lines->finish();
  stream.fd.reset();  // which also ends its watch
}

}  // namespace unisono::cli
