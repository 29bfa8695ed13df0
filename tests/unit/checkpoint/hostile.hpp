// Files that are made to cost their reader much memory or time: many entries, long lists, deep
// nesting. Some are valid, others an error in the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::checkpoint {

struct HostileFile {
  std::string what;
  std::string bytes;
};

std::vector<HostileFile> hostile_manifests();  // their checksums are right
std::vector<HostileFile> hostile_headers();    // of safetensors
// The largest header that a reader accepts: kMaxHeaderBytes for kMaxTensors entries, whose order is
// neither that of their names nor that of their bytes. data_bytes: set to the size of the data.
HostileFile largest_header(uint64_t& data_bytes);

}  // namespace plait::checkpoint
