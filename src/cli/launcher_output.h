#pragma once
/// What the ranks print, put together line by line.

#include <cstddef>
#include <string>
#include <string_view>

namespace unisono::cli {

/// A descriptor that lines go to, whole: what several ranks print never mixes within a line.
class LineSink {
 public:
  explicit LineSink(int fd);
  /// Write `text` now, waiting for the reader if need be. False when nobody reads any more.
  bool write(std::string_view text);
  /// After the last line: a progress bar left unfinished gets its newline.
  void end();
  bool is_terminal() const noexcept { return is_terminal_; }
  bool closed() const noexcept { return closed_; }

 private:
  friend class LineCutter;
  int fd_;
  bool is_terminal_;
  bool closed_ = false;
  bool unfinished_ = false;  ///< the last thing written was a progress bar, whose line the next one takes over
};

/// Cuts one rank's stream into lines and passes them on with a prefix. A carriage return ends a line too, so that progress
/// bars work: on a terminal they overwrite themselves, elsewhere each state becomes a line.
class LineCutter {
 public:
  LineCutter(std::string prefix, LineSink* sink) : prefix_(std::move(prefix)), sink_(sink) {}
  void feed(std::string_view bytes);
  /// The stream has ended: what is left is a line too.
  void finish();

 private:
  void emit(std::string& out, std::string_view line, char end);
  std::string prefix_;
  LineSink* sink_;
  std::string partial_;
  bool cut_return_ = false;  ///< what was fed last ended with a carriage return
};

/// "[2] ", in a colour of its own when `colour`.
std::string rank_prefix(int rank, bool colour);

}  // namespace unisono::cli
