#pragma once
/// What is kept on disk of one topology: one small file in `<cache>/tuning`, which only its owner reads and writes. Whoever makes a group
/// of that topology reads it (rank 0 does, for all), `unisono bench --tune` writes it, and so does a group that measured its links.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono::tuning {

/// Thread-safety: a value.
struct Record {
  std::string topology;   ///< describe(): what it is true of
  std::string made;       ///< when, UTC, for people
  std::string by;         ///< what measured it, for people
  std::string constants;  ///< plan::CostModel as text; empty: none
  std::string rules;      ///< in the syntax of plan::Selector; empty: none
  std::string measured;   ///< JSON rows of `bench --tune`, for --explain and nobody else; not read unless asked for
  int streams = 0;        ///< to another host, for large messages; 0: not measured
};

/// The folder for a cache folder; empty for an empty one.
std::filesystem::path folder_of(const std::string& cache);
/// The file of a topology.
std::filesystem::path file_of(const std::string& cache, std::string_view topology);

/// Nothing when there is no such file. An error when there is one that cannot be trusted (another owner, others may write it), is not
/// what write() makes, or is of another topology than `topology` (empty: any). `measured` costs another file; false leaves it empty.
/// Blocks on the disk only.
Result<std::optional<Record>> read(const std::filesystem::path& file, std::string_view topology, bool measured = false);

/// All that there are, newest first; those that cannot be read are left out.
std::vector<Record> read_all(const std::string& cache);

/// Atomically: whoever reads meanwhile gets the old or the new one, whole. Folders 0700, files 0600.
Status write(const std::filesystem::path& file, const Record& record);

/// Now, as Record::made has it.
std::string timestamp();

}  // namespace unisono::tuning
