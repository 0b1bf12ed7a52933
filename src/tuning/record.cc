#include "tuning/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/fd.h"
#include "tuning/topology.h"

namespace unisono::tuning {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int kFormat = 1;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

fs::path rows_of(fs::path file) { return file.replace_extension(".measured.json"); }

Status system_error(std::string_view what, const fs::path& file) {
  return Status::system(fmt::format("cannot {} {}: {}", what, file.string(), std::generic_category().message(errno)),
                        errno);
}

/// The text of a file of ours that nobody else can write; nothing when there is none.
Result<std::optional<std::string>> read_text(const fs::path& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>{};
    return system_error("read", file);
  }
  struct stat about{};
  if (::fstat(fd.get(), &about) != 0) return system_error("look at", file);
  if (!S_ISREG(about.st_mode) || about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Status::invalid(fmt::format("{} is not a file of this user that nobody else can write", file.string()));
  if (static_cast<std::size_t>(about.st_size) > kMostBytes)
    return Status::invalid(fmt::format("{} has {} bytes", file.string(), about.st_size));
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", file);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return std::optional(std::move(text));
}

/// Beside the file, then renamed to it.
Status write_text(const fs::path& file, std::string_view text) {
  std::string name = file.string() + ".XXXXXX";
  Fd fd(::mkostemp(name.data(), O_CLOEXEC));  // mode 0600
  if (!fd) return system_error("write beside", file);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Status failed = system_error("write", name);
      ::unlink(name.c_str());
      return failed;
    }
    done += static_cast<std::size_t>(n);
  }
  fd.reset();
  if (std::rename(name.c_str(), file.c_str()) == 0) return {};
  Status failed = system_error("replace", file);
  ::unlink(name.c_str());
  return failed;
}

/// As mkdir -p, the last folder for its owner alone.
Status make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder.parent_path(), failed);
  if (failed)
    return Status::system(fmt::format("cannot make {}: {}", folder.parent_path().string(), failed.message()),
                          failed.value());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error("make", folder);
  return {};
}

Result<Record> parse(const std::string& text, const fs::path& file) {
  try {
    const auto json = ordered_json::parse(text);
    if (const int format = json.at("format").get<int>(); format != kFormat)
      return Status::invalid(fmt::format("{} has format {}, this is {}", file.string(), format, kFormat));
    Record record;
    record.topology = json.at("topology").get<std::string>();
    record.made = json.at("made").get<std::string>();
    record.by = json.at("by").get<std::string>();
    record.constants = json.at("constants").get<std::string>();
    record.streams = json.value("streams", 0);
    record.rules = json.at("rules").get<std::string>();
    return record;
  } catch (const nlohmann::json::exception& e) {
    return Status::invalid(fmt::format("{} is damaged: {}", file.string(), e.what()));
  }
}

}  // namespace

fs::path folder_of(const std::string& cache) { return cache.empty() ? fs::path{} : fs::path(cache) / "tuning"; }
fs::path file_of(const std::string& cache, std::string_view topology) {
  return folder_of(cache) / (key_of(topology) + ".json");
}

Result<std::optional<Record>> read(const fs::path& file, std::string_view topology, bool measured) {
  auto text = read_text(file);
  if (!text) return text.status();
  if (!*text) return std::optional<Record>{};
  auto record = parse(**text, file);
  if (!record) return record.status();
  if (!topology.empty() && record->topology != topology)
    return Status::invalid(fmt::format("{} is of another topology:\n{}", file.string(), record->topology));
  if (measured) {
    auto rows = read_text(rows_of(file));
    if (!rows) return rows.status();
    record->measured = rows->value_or("");
  }
  return std::optional(std::move(record).value());
}

std::vector<Record> read_all(const std::string& cache) {
  std::vector<Record> records;
  std::error_code none;
  if (cache.empty()) return records;
  for (const auto& entry : fs::directory_iterator(folder_of(cache), none)) {
    if (entry.path().extension() != ".json" || entry.path().stem().has_extension()) continue;
    auto record = read(entry.path(), {}, true);
    if (record && *record) records.push_back(std::move(**record));
  }
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.made > b.made; });
  return records;
}

Status write(const fs::path& file, const Record& record) {
  UNISONO_TRY(make_folder(file.parent_path()));
  ordered_json json;
  json["format"] = kFormat;
  json["topology"] = record.topology;
  json["made"] = record.made;
  json["by"] = record.by;
  json["constants"] = record.constants;
  if (record.streams > 0) json["streams"] = record.streams;
  json["rules"] = record.rules;
  if (!record.measured.empty()) UNISONO_TRY(write_text(rows_of(file), record.measured));
  return write_text(file, json.dump(1) + "\n");
}

std::string timestamp() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace unisono::tuning
