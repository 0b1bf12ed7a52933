#pragma once
/// What the ranks print, put together line by line.

#include <string>
#include <string_view>

#include "cli/launcher_sink.h"

namespace unisono::cli {

/// Cuts one rank's stream into lines and passes them on with a prefix. A carriage return ends a line too, so that progress
/// bars work: on a terminal they overwrite themselves, elsewhere each state becomes a line.
class LineCutter {
 public:
  /// `prefix` of each line; with `unchanged` there is none, and every byte passes as it is.
  LineCutter(std::string prefix, bool unchanged, LineSink* sink)
      : prefix_(std::move(prefix)), unchanged_(unchanged), sink_(sink) {}
  void feed(std::string_view bytes);
  /// Whether the beginning of a line is kept back.
  bool waits() const noexcept { return !partial_.empty(); }
  /// Nothing has come for a while: show the beginning of the line, which may be a question.
  void show();
  /// The stream has ended: what is left is a line too.
  void finish();

 private:
  void feed_unchanged(std::string_view bytes);
  void begin(std::string& out);
  void emit(std::string& out, std::string_view line, char end);
  void emit_partial(std::string& out);
  std::string prefix_;
  bool unchanged_;
  LineSink* sink_;
  std::string partial_;
  bool cut_return_ = false;  ///< what was fed last ended with a carriage return
  bool shown_ = false;       ///< unchanged: the beginning of the line has been passed on
};

/// "[2] ", in a colour of its own when `colour`.
std::string rank_prefix(int rank, bool colour);

}  // namespace unisono::cli
