#include "rendezvous/secret_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "rendezvous/secret_door.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr Duration kDoorPatience = std::chrono::seconds(5);  // it was there before the rank

/// Text of a secret, wiped when it goes.
struct SecretText {
  std::array<char, kMaxText> text{};
  std::size_t size = 0;
  ~SecretText() { ::explicit_bzero(text.data(), text.size()); }
  std::string_view view() const noexcept { return {text.data(), size}; }
};

/// Read to the end: from the start when the file can seek, so that it can be read again.
Status read_all(int fd, bool seekable, SecretText& into) {
  while (into.size < into.text.size()) {
    char* to = into.text.data() + into.size;
    const std::size_t room = into.text.size() - into.size;
    const ssize_t n = seekable ? ::pread(fd, to, room, static_cast<off_t>(into.size)) : ::read(fd, to, room);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::system("cannot read the job secret", errno);
    if (n == 0) return {};
    into.size += static_cast<std::size_t>(n);
  }
  return Status::invalid(fmt::format("the job secret is longer than {} characters", kMaxText - 1));
}

/// As the launcher's memfd is; its number may since have become another file's.
bool is_sealed(int fd) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_WRITE) != 0;
}

Result<Secret> read_inherited(int fd) {
  struct stat s{};
  if (::fstat(fd, &s) != 0)
    return Status::invalid(
        fmt::format("UNISONO_SECRET_FD={}: there is no such open descriptor. A program between the launcher "
                    "and this process closed it: start the job with `unisono run --secret-file FILE`",
                    fd));
  const bool sealed = is_sealed(fd);
  if (!sealed && !S_ISFIFO(s.st_mode) && !S_ISREG(s.st_mode))
    return Status::invalid(
        fmt::format("UNISONO_SECRET_FD={}: that descriptor is neither the launcher's memfd nor a pipe nor a "
                    "file: the variable was inherited by a process it was not meant for",
                    fd));
  Fd owned(fd);
  SecretText text;
  UNISONO_TRY(read_all(fd, sealed, text).with_context(fmt::format("UNISONO_SECRET_FD={}", fd)));
  if (sealed) {
    (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)owned.release();
  }
  auto secret = Secret::parse(text.view());
  if (!secret) return secret.status().with_context(fmt::format("UNISONO_SECRET_FD={}", fd));
  if (secret->empty())
    return Status::invalid(fmt::format("UNISONO_SECRET_FD={}: nothing in it (was it read already?)", fd));
  return secret;
}

}  // namespace

Result<Secret> read_secret_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return Status::system(fmt::format("cannot open the secret file {}", path), errno);
  struct stat s{};
  if (::fstat(fd.get(), &s) != 0) return Status::system(fmt::format("cannot look at the secret file {}", path), errno);
  if (!S_ISREG(s.st_mode)) return Status::invalid(fmt::format("secret file {}: it is not a regular file", path));
  if (s.st_uid != ::geteuid() && s.st_uid != 0)
    return Status::invalid(
        fmt::format("secret file {}: it belongs to user {}, not to this one ({})", path, s.st_uid, ::geteuid()));
  if ((s.st_mode & 077) != 0)
    return Status::invalid(
        fmt::format("secret file {}: its mode is {:04o}, so others may read or change it; `chmod 600` it", path,
                    s.st_mode & 07777));
  SecretText text;
  UNISONO_TRY(read_all(fd.get(), true, text).with_context("secret file " + path));
  auto secret = Secret::parse(text.view());
  if (!secret) return secret.status().with_context("secret file " + path);
  if (secret->empty()) return Status::invalid(fmt::format("secret file {}: it is empty", path));
  return secret;
}

Result<Secret> read_secret(const Environment& environment) {
  std::int64_t number = -1, rank = 0;
  const auto inherited = read_integer(environment, "UNISONO_SECRET_FD", 0, 1 << 30, number);
  if (!inherited) return inherited.status();
  const int fd = static_cast<int>(number);
  const auto path = environment("UNISONO_SECRET_FILE"), door = environment("UNISONO_SECRET_DOOR");
  const bool has_file = path && !path->empty(), has_door = door && !door->empty();
  if (*inherited) {
    // A wrapper (subprocess, multiprocessing's spawn) may have closed the descriptor, and opened
    // another file under its number. The launcher's file and its door say the same.
    const bool lost = has_door ? !is_sealed(fd) : ::fcntl(fd, F_GETFD) < 0;
    if (!lost || (!has_file && !has_door)) return read_inherited(fd);
  }
  if (has_file) {
    auto secret = read_secret_file(*path);
    return secret ? std::move(secret) : Result<Secret>(secret.status().with_context("UNISONO_SECRET_FILE"));
  }
  if (*inherited) {
    UNISONO_TRY(read_integer(environment, "UNISONO_RANK", 0, 1 << 30, rank).status());
    auto secret = fetch_secret(*door, static_cast<int>(rank), kDoorPatience, Logger());
    if (secret) return secret;
    return secret.status().with_context(
        fmt::format("UNISONO_SECRET_FD={}: a program between the launcher and this process closed the descriptor, and "
                    "the launcher does not answer at {} (`unisono run --secret-file FILE` needs neither)",
                    fd, *door));
  }
  if (auto text = environment("UNISONO_SECRET")) {
    auto secret = Secret::parse(*text);
    ::explicit_bzero(text->data(), text->size());
    return secret ? std::move(secret) : Result<Secret>(secret.status().with_context("UNISONO_SECRET"));
  }
  return Secret{};
}

Result<Fd> make_secret_fd(const Secret& secret) {
  Fd fd(::memfd_create("unisono-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Status::system("cannot make a memfd for the job secret", errno);
  std::string text = secret.reveal();
  const ssize_t n = ::write(fd.get(), text.data(), text.size());
  const bool whole = n == static_cast<ssize_t>(text.size());
  ::explicit_bzero(text.data(), text.size());
  if (!whole) return Status::system("cannot write the job secret into a memfd", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Status::system("cannot seal the memfd of the job secret", errno);
  return fd;
}

}  // namespace unisono::rendezvous
