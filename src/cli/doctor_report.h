#pragma once
/// What `unisono doctor` found, and how it is printed.

#include <string>
#include <vector>

namespace unisono::cli {

enum class Health : unsigned char {
  good,     ///< as it should be
  note,     ///< worth knowing, nothing to do
  warning,  ///< works, but slower or less robustly than it could: see the advice
  missing   ///< unisono cannot work without it
};

/// One thing that was looked at.
struct Finding {
  std::string group;  ///< "processor", "shared memory", ...
  std::string name;
  Health health = Health::good;
  std::string value;
  std::string advice;  ///< for warnings and missing things: what to do
};

using Findings = std::vector<Finding>;

/// An aligned table, a block a group, with a summary line.
std::string to_table(const Findings& findings);
/// {"findings": [{group, name, health, value, advice}], "missing": n, "warnings": n}
std::string to_json(const Findings& findings);
/// Whether something is missing.
bool anything_missing(const Findings& findings);

}  // namespace unisono::cli
