#pragma once
/// One stream of a rank: from its pipe to the launcher's output and to its log file.

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "cli/launcher_output.h"

namespace unisono::cli {

struct Stream {
  Fd fd;                              ///< of the pipe, not blocking
  std::unique_ptr<LineCutter> lines;  ///< null: it is not shown
  Fd log;
  int log_error = 0;  ///< of the write that failed; to be told
  TimePoint fed{};    ///< when the last bytes came
  Duration quiet{};   ///< after which a line's beginning is shown
};

/// Its pipe; returns the writing end.
Result<Fd> open_pipe(Stream& stream);
/// Whether it is a pipe or a socket: a program, or a person behind one, is at its other end.
bool somebody_writes_to(int fd);
/// Its log file, DIRECTORY/rank-N.KIND, empty; the directory is made where it is not there.
Status open_log(Stream& stream, const std::string& directory, int rank, const char* kind);
/// Pass on what is there: one bufferful, or `all` that a pipe can hold.
void drain(Stream& stream, TimePoint now, bool all);
/// Nothing more will be read.
void end(Stream& stream);

}  // namespace unisono::cli
