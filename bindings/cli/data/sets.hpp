// The data sets that `plait data get` knows: files, where they are, and what they must hold.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plait::cli {

struct SetFile {
  const char* name;    // as it is stored: gzip
  uint64_t bytes;      // decoded
  const char* sha256;  // of the decoded bytes, since each mirror packs them in its own way
};

struct DataSet {
  const char* name;
  const char* help;
  const char* licence;
  std::span<const SetFile> files;
  std::span<const char* const> mirrors;  // folders, each ending in '/'
};

std::span<const DataSet> data_sets();
// NULL when there is none of that name.
const DataSet* find_data_set(std::string_view name);

}  // namespace plait::cli
