#include "group/only_thread.h"

#include <unistd.h>

#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace unisono::group {

namespace {
/// As the library names its own.
constexpr std::array<std::string_view, 4> kOurs{"unisono", "unisono-rests", "unisono-calls", "unisono-store"};

bool is_ours(const std::filesystem::path& task) {
  std::string name;
  std::ifstream file(task / "comm");
  if (!std::getline(file, name)) return !std::filesystem::exists(task);  // it has just ended
  for (const std::string_view ours : kOurs)
    if (name == ours) return true;
  return false;
}
}  // namespace

bool is_only_thread() noexcept {
  try {
    const std::string self = std::to_string(::gettid());
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      if (task.path().filename() != self && !is_ours(task.path())) return false;
    return true;
  } catch (const std::exception&) {  // no /proc, or no memory
    return false;
  }
}

}  // namespace unisono::group
