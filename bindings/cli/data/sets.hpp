// The data sets of `plait data get`: files, mirrors and expected contents.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plait::cli {

struct SetFile {
  const char* name;    // of the file, which may be packed by gzip
  uint64_t bytes;      // decoded
  const char* sha256;  // of the decoded bytes: mirrors compress differently
};

struct DataSet {
  const char* name;
  const char* help;
  const char* licence;
  std::span<const SetFile> files;
  std::span<const char* const> mirrors;  // folders, each ending in '/'
};

std::span<const DataSet> data_sets();
// NULL if no set has that name.
const DataSet* find_data_set(std::string_view name);

}  // namespace plait::cli
