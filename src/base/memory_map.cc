#include "base/memory_map.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/fd.h"

namespace unisono {

namespace {

/// The rest of a line, field by field.
class Fields {
 public:
  explicit Fields(std::string_view line) noexcept : rest_(line) {}
  /// A number up to `end`, which is skipped, or up to the end of the line.
  bool number(std::uint64_t& into, char end, int base = 16) noexcept {
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), into, base);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    if (rest_.empty()) return true;
    if (rest_.front() != end) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view take(std::size_t letters) noexcept {
    const std::string_view word = rest_.substr(0, letters);
    rest_.remove_prefix(word.size());
    return word;
  }
  std::string_view trimmed_rest() const noexcept {
    const auto first = rest_.find_first_not_of(' ');
    return first == std::string_view::npos ? std::string_view{} : rest_.substr(first);
  }

 private:
  std::string_view rest_;
};

/// "7f0a-7f0b rw-p 00001000 00:1a 4711     name" (proc_pid_maps(5)).
bool parse(std::string_view line, Mapping& m) noexcept {
  Fields fields(line);
  std::uint64_t begin = 0, end = 0, major = 0, minor = 0;
  if (!fields.number(begin, '-') || !fields.number(end, ' ')) return false;
  const std::string_view access = fields.take(5);
  if (access.size() != 5) return false;
  if (!fields.number(m.offset, ' ') || !fields.number(major, ':') || !fields.number(minor, ' ')) return false;
  if (!fields.number(m.inode, ' ', 10)) return false;
  m.begin = begin, m.end = end;
  m.device = ::makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  m.readable = access[0] == 'r', m.writable = access[1] == 'w', m.executable = access[2] == 'x';
  m.shared = access[3] == 's';
  m.name = fields.trimmed_rest();
  return true;
}

/// Lines as they come; shows each mapping once all of it is known.
class Visitor {
 public:
  Visitor(Detail detail, void* context, Visit visit) noexcept : detail_(detail), context_(context), visit_(visit) {}

  /// False: enough.
  bool line(std::string_view text) noexcept {
    constexpr std::string_view kFlags = "VmFlags:";
    if (text.starts_with(kFlags)) {
      current_.flags = text.substr(std::min(text.size(), kFlags.size() + 1));
      return visit_(context_, current_);
    }
    if (text.empty() || (text[0] >= 'A' && text[0] <= 'Z')) return true;  // a count of pages
    current_ = {};
    if (!parse(text, current_)) return true;
    if (detail_ == Detail::plain) return visit_(context_, current_);
    const std::size_t kept = std::min(current_.name.size(), name_.size());
    std::copy_n(current_.name.begin(), kept, name_.begin());
    current_.name = {name_.data(), kept};
    return true;
  }

 private:
  Detail detail_;
  void* context_;
  Visit visit_;
  Mapping current_;
  std::array<char, 63> name_{};
};

}  // namespace

bool Mapping::has_flag(std::string_view two_letters) const noexcept {
  for (std::size_t at = 0; at + 2 <= flags.size(); at += 3)
    if (flags.substr(at, 2) == two_letters) return true;
  return false;
}

int visit_mappings(Detail detail, void* context, Visit visit) noexcept {
  const Fd file(::open(detail == Detail::plain ? "/proc/self/maps" : "/proc/self/smaps", O_RDONLY | O_CLOEXEC));
  if (!file) return errno;
  Visitor visitor(detail, context, visit);
  std::array<char, 8192> buffer;  // the longest line is a path's 4096 and less than 100 before it
  std::size_t filled = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer.data() + filled, buffer.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return 0;
    filled += static_cast<std::size_t>(n);
    std::size_t begin = 0;
    while (const void* end = std::memchr(buffer.data() + begin, '\n', filled - begin)) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(end) - buffer.data()) - begin;
      if (!visitor.line({buffer.data() + begin, length})) return 0;
      begin += length + 1;
    }
    filled -= begin;
    std::memmove(buffer.data(), buffer.data() + begin, filled);
    if (filled == buffer.size()) return E2BIG;
  }
}

}  // namespace unisono
