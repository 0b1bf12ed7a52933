#pragma once
/// Where the launcher's output goes. Writing never blocks, so that the launcher sees deaths and
/// signals while a reader stalls.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace unisono::cli {

class LineCutter;

inline constexpr std::string_view kClearLine = "\x1b[2K\r";  ///< of a terminal, where a progress bar stood

/// A descriptor that lines go to: what several ranks print does not mix within a line.
/// Thread-safety: none.
class LineSink {
 public:
  explicit LineSink(int fd);
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;

  /// Write `text`, and keep what the reader does not take yet. What can never be written is
  /// dropped.
  void write(std::string_view text);
  /// A line of the launcher's own, with its newline: on a line of its own.
  void say(std::string_view line);
  /// After the last line: what was left unfinished gets its newline, but in a stream that passes
  /// unchanged.
  void end();

  /// Bytes that wait for the reader.
  std::size_t waiting() const noexcept { return waiting_.size(); }
  /// To be polled for POLLOUT while bytes wait; then call flush().
  int fd() const noexcept { return own_ ? own_.get() : fd_; }
  void flush();
  /// Forget what waits.
  void drop() noexcept { waiting_.clear(); }

  bool is_terminal() const noexcept { return is_terminal_; }
  bool closed() const noexcept { return closed_; }  ///< nobody reads any more (EPIPE)
  /// The error of the first write that failed otherwise (disk full, no descriptor), once; 0: none.
  int take_error() noexcept;

 private:
  friend class LineCutter;
  /// The line that the cursor stands in.
  struct Line {
    const LineCutter* open = nullptr;  ///< who has begun it and not ended it
    bool at_return = false;  ///< it ended with a carriage return: a progress bar, whose place the next line takes
    bool unchanged = false;  ///< bytes pass unchanged, and the last one was no newline
  };
  std::size_t write_some(std::string_view text);

  int fd_;
  Fd own_;  ///< the same pipe or terminal, opened here so that it may be non-blocking: others share fd_'s state
  bool is_terminal_, is_socket_ = false, is_pipe_ = false;
  bool closed_ = false, dropping_ = false;
  int error_ = 0;
  std::string waiting_;
  Line line_;
};

/// Both lead to one terminal, pipe or file. Then one sink serves for both, so that their lines do
/// not mix.
bool same_place(int fd, int other);

}  // namespace unisono::cli
