#pragma once
/// The terminal that the launcher was started from, and that rank 0 may read.

#include <termios.h>

namespace unisono::cli {

/// Remembers how the terminal on standard input is set, and puts that back. Thread-safety: none.
class Terminal {
 public:
  Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  /// Standard input is a terminal that this process may read: it was not started in the background.
  bool readable() const noexcept { return readable_; }
  /// Ctrl-Z: stop this process as SIGTSTP does by default, with the terminal set as it was at
  /// first, and as now again when it continues. Returns at once where nobody could continue it (an
  /// orphaned process group).
  void stop_here();

 private:
  void set(const termios& how) const;
  bool readable_ = false;
  termios first_{};
};

}  // namespace unisono::cli
