// Weights in the layout of the Hugging Face hub: `model.safetensors`, or shards of whole tensors
// named by `model.safetensors.index.json` ({"metadata": {"total_size"}, "weight_map": {tensor:
// file}}). Read for model.load, written by export_weights.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/tensor_map.hpp"
#include "engine/topology/box.hpp"

namespace plait::checkpoint {

inline constexpr char kWeightsName[] = "model.safetensors";
inline constexpr char kWeightsIndexName[] = "model.safetensors.index.json";

// Files of weights, open for reading. Immutable.
class Weights {
 public:
  // path: a safetensors file, an index, a folder that holds one of them, or a map of tensors, after
  // which names are those of parameters.
  // Errors: PLAIT_ERR_DATA naming file and tensor, also for a tensor that a map neither uses nor
  // ignores; as SafetensorsFile.
  Weights(FileSystem& files, const std::string& path);
  // The same by a map that is not in a file. where: its name in messages.
  Weights(FileSystem& files, const std::string& path, const TensorMap& map,
          const std::string& where);
  // True if the folder holds weights and is no checkpoint, which has checksums besides.
  static bool is_folder_of_weights(FileSystem& files, const std::string& folder);

  struct Stored {
    const SafetensorsFile* file = nullptr;
    const TensorEntry* entry = nullptr;  // NULL: there is no such tensor
  };
  // Of a parameter in several tensors: the first of them, and all, `slices`.
  struct Place : Stored {
    TensorPlace in;              // the part of it that is meant
    std::vector<int64_t> shape;  // of that part
    std::vector<Stored> slices = {};
  };
  // The elements of a box of a part, row-major, as `dtype`, to which they are convertible.
  static void read(const Place& from, const topology::Box& box, uint32_t dtype, std::byte* out);
  Place find(const std::string& name) const;
  std::vector<std::string> names() const;
  std::vector<const SafetensorsFile*> open_files() const;
  uint64_t bytes() const;                     // of all tensors of the files
  bool is_mapped() const { return mapped_; }  // by a map of tensors

 private:
  void read_json(FileSystem& files, const std::string& path);
  void read_index(FileSystem& files, const std::string& path, const JsonValue& json);
  using Places = std::map<std::string, Place, std::less<>>;
  void apply(const TensorMap& map, const std::string& from, const std::string& path);
  static Place place_of(const std::string& parameter, const TensorPlace& in, const Places& stored,
                        const std::string& from, const std::string& path);
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  Places tensors_;
  bool mapped_ = false;
};

// Whether a path that can be loaded is that of a checkpoint, and not of files of weights.
bool names_checkpoint(FileSystem& files, const std::string& path);

// The names that a parameter may have in a file, the likeliest first: the one that a rule of
// model.load_names gives it, or the one that Plait writes, and the same without the model's.
std::vector<std::string> names_in_file(const std::string& parameter, const std::string& model,
                                       const std::vector<std::string>& rules);

// The text of an index of `file_of` (tensor -> file).
std::string weights_index_text(const std::map<std::string, std::string>& file_of,
                               uint64_t total_bytes);

// The index of a checkpoint whose files hold every parameter whole; "" where one is divided.
std::string checkpoint_index_text(const Manifest& manifest);

// Whether a tensor of a checkpoint is a parameter, not a state of the optimizer.
bool is_parameter(const TensorRecord& t);

}  // namespace plait::checkpoint
