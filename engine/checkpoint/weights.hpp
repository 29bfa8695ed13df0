// Weights in the layout of the Hugging Face hub: `model.safetensors`, or shards of whole tensors
// named by `model.safetensors.index.json` ({"metadata": {"total_size"}, "weight_map": {tensor:
// file}}). Read for model.load, written by export_weights().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/name_rules.hpp"
#include "engine/checkpoint/store.hpp"

namespace plait::checkpoint {

inline constexpr char kWeightsName[] = "model.safetensors";
inline constexpr char kWeightsIndexName[] = "model.safetensors.index.json";

// Files of weights, open for reading. Immutable.
class Weights {
 public:
  // path: a safetensors file, an index, or a folder that holds one of them.
  // Errors: PLAIT_ERR_DATA naming file and tensor; as SafetensorsFile.
  Weights(FileSystem& files, const std::string& path);
  // True if the folder holds weights and is no checkpoint, which has checksums besides.
  static bool is_folder_of_weights(FileSystem& files, const std::string& folder);

  struct Place {
    const SafetensorsFile* file = nullptr;
    const TensorEntry* entry = nullptr;  // NULL: there is no such tensor
  };
  Place find(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  void read_index(FileSystem& files, const std::string& path);
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

// The text of an index of `file_of` (tensor -> file).
std::string weights_index_text(const std::map<std::string, std::string>& file_of,
                               uint64_t total_bytes);

// The index of a checkpoint whose files hold every parameter whole; "" where one is divided.
std::string checkpoint_index_text(const Manifest& manifest);

struct ExportSettings {
  uint64_t max_shard_bytes = 0;  // of tensors in a shard; 0: kDefaultShardBytes
  NameRules names;               // names in the files; without a rule as in the checkpoint
};
constexpr uint64_t kDefaultShardBytes = 5'000'000'000;

struct Exported {
  std::vector<std::string> files;  // paths
  uint64_t tensors = 0, bytes = 0;
};

// Writes the parameters of a checkpoint as global tensors. `out`: a file NAME.safetensors, or a
// folder, which gets one file, or shards and their index. It appears complete or not at all, and
// is durable on return. Needs memory for the largest tensor.
// Errors: PLAIT_ERR_INVALID when `out` exists, or two tensors get one name; as
// Checkpoint::read().
Exported export_weights(FileSystem& files, const Checkpoint& from, const std::string& out,
                        const ExportSettings& settings);

}  // namespace plait::checkpoint
