#pragma once
/// Where the job secret comes from.

#include "base/fd.h"
#include "rendezvous/environment.h"
#include "rendezvous/secret.h"

namespace unisono::rendezvous {

/// From UNISONO_SECRET_FD, UNISONO_SECRET_FILE or UNISONO_SECRET, the first that is set; empty when
/// none is.
///
/// The descriptor is the launcher's sealed memfd. It stays open, closed on exec, so that the
/// environment means the same when it is read a second time; a pipe or another file is read to its
/// end and closed. Where a wrapper closed the descriptor, the file counts, or the launcher is asked
/// at UNISONO_SECRET_DOOR (secret_door.h), which may block for 5 s. The file must belong
/// to this user or to root and be closed to everybody else (0600). Errors never show the secret.
Result<Secret> read_secret(const Environment& environment);

/// The secret in a file, with the same demands.
Result<Secret> read_secret_file(const std::string& path);

/// A sealed memfd that holds `secret` in hexadecimal, for a child to inherit. It is closed on exec until the caller lets it through.
Result<Fd> make_secret_fd(const Secret& secret);

}  // namespace unisono::rendezvous
