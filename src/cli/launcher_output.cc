#include "cli/launcher_output.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace unisono::cli {
namespace {
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // longer ones are broken: memory is bounded
constexpr std::size_t kMostKept = std::size_t{64} << 10;    // of a stream that passes unchanged
}  // namespace

/// To where this stream's next byte belongs: on in its own line, or at the beginning of a new one.
void LineCutter::begin(std::string& out) {
  LineSink::Line& line = sink_->line_;
  if (line.open == this) {
    if (line.at_return) out += prefix_;
  } else {
    if (line.open != nullptr) out += line.at_return ? kClearLine : "\n";
    out += prefix_;
  }
  line = {this, false, false};
}

void LineCutter::emit(std::string& out, std::string_view line, char end) {
  const bool mine = sink_->line_.open == this;
  if (end == '\r' && line.empty() && !mine) return;                        // bars start with a carriage return
  if (end == '\r' && line.empty() && sink_->line_.at_return) return;       // and it stands there already
  if (mine && sink_->line_.at_return && !line.empty()) out += kClearLine;  // a bar may have become shorter
  begin(out);
  out += line;
  if (end == '\r' && sink_->is_terminal()) {
    out += '\r';
    sink_->line_.at_return = true;
  } else {
    out += '\n';
    sink_->line_ = {};
  }
}

void LineCutter::emit_partial(std::string& out) {
  if (partial_.empty()) return;
  begin(out);
  out += partial_;
  partial_.clear();
}

void LineCutter::feed_unchanged(std::string_view bytes) {
  partial_ += bytes;
  const auto newline = partial_.rfind('\n');
  std::size_t ready = newline == std::string::npos ? 0 : newline + 1;
  // A line that this stream has begun to show, and one that is too long, go on at once.
  if ((shown_ && ready == 0) || partial_.size() - ready > kMostKept) ready = partial_.size();
  if (ready == 0) return;
  shown_ = partial_[ready - 1] != '\n';
  sink_->line_ = {nullptr, false, partial_[ready - 1] != '\n'};
  sink_->write(std::string_view(partial_).substr(0, ready));
  partial_.erase(0, ready);
}

void LineCutter::feed(std::string_view bytes) {
  if (unchanged_) return feed_unchanged(bytes);
  std::string out;
  if (cut_return_ && !bytes.empty() && bytes.front() == '\n') {  // the other half of a "\r\n"
    bytes.remove_prefix(1);
    LineSink::Line& line = sink_->line_;
    if (line.open == this && line.at_return) {
      out += '\n';
      line = {};
    }
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
  // What continues a line that is shown already goes on at once: a person types in it.
  const LineSink::Line& line = sink_->line_;
  if (line.open == this && !line.at_return) emit_partial(out);
  if (partial_.size() > kLongestLine) {
    emit(out, partial_, '\n');
    partial_.clear();
  }
  sink_->write(out);
}

void LineCutter::show() {
  if (partial_.empty()) return;
  std::string out;
  if (unchanged_) {
    out.swap(partial_);
    shown_ = true;
    sink_->line_ = {nullptr, false, true};
  } else {
    emit_partial(out);
  }
  sink_->write(out);
}

void LineCutter::finish() {
  if (unchanged_) return show();
  std::string out;
  const LineSink::Line& line = sink_->line_;
  if (!partial_.empty() || (line.open == this && !line.at_return)) emit(out, partial_, '\n');
  partial_.clear();
  sink_->write(out);
}

std::string rank_prefix(int rank, bool colour) {
  if (!colour || std::getenv("NO_COLOR") != nullptr) return fmt::format("[{}] ", rank);
  constexpr std::array kColours = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};
  return fmt::format("\x1b[{}m[{}]\x1b[0m ", kColours[static_cast<std::size_t>(rank) % kColours.size()], rank);
}

}  // namespace unisono::cli
