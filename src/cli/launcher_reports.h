#pragma once
/// Where ranks tell the launcher whose end made their calls fail (base/run_report.h).

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "cli/launcher_verdict.h"

namespace unisono::cli {

struct Report {
  int rank = -1;  ///< whose error it was
  Culprit culprit;
};

/// An abstract socket that takes datagrams of this user's processes only. Thread-safety: none.
class Reports {
 public:
  /// Listen under a new name.
  Status open();
  const std::string& name() const noexcept { return name_; }
  int fd() const noexcept { return fd_.get(); }
  /// What has come; never blocks.
  std::vector<Report> read();

 private:
  Fd fd_;
  std::string name_, host_;
  std::map<std::int64_t, int> rank_of_;  ///< by process id, of those on this host
};

}  // namespace unisono::cli
