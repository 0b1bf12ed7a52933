#pragma once
/// The file behind a file store: a log that processes append to under a lock.
///
/// The file starts with 8 bytes of magic; then records: {length of the rest, CRC-32 of the rest, operation, key,
/// value}. It is opened anew for every operation and locked whole with flock: over NFS that is what makes a client see
/// what another one wrote. A record that a killed writer left half-written is cut off by the next writer.

#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// What a record does to a key.
enum class FileRecord : unsigned char { set = 1, erase = 2 };

/// Thread-safety: none; guarded by its owner.
class FileLog {
 public:
  using Apply = std::function<void(FileRecord, std::string_view key, std::span<const std::byte> value)>;

  explicit FileLog(std::string path) : path_(std::move(path)) {}

  /// Lock the file, read what is new through `apply`, run `change`, and append the records it asked for with append().
  /// Waits for the lock, at most `patience`.
  Status transact(const Apply& apply, const std::function<Status()>& change, Duration patience);
  /// Within transact's `change`: add a record.
  Status append(FileRecord record, std::string_view key, std::span<const std::byte> value);
  /// Whether there may be something that transact has not read yet. Cheap: no lock.
  bool changed() const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  Status open_and_lock(Duration patience);
  Status check_same_file();
  Status read_new(const Apply& apply);
  Status write_all(std::span<const std::byte> bytes);
  Status failed(std::string_view what) const;

  std::string path_;
  Fd fd_;           // open within transact only
  off_t read_ = 0;  // everything before it has been applied
  std::optional<ino_t> inode_;
};

}  // namespace unisono::rendezvous
