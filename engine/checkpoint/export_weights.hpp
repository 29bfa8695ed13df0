// Weights of a checkpoint as files that other programs read.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/name_rules.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/tensor_map.hpp"

namespace plait::checkpoint {

// The types in which floating-point parameters are written.
struct WrittenTypes {
  uint32_t all = 0;                        // of every one; 0: as `each` says
  std::map<std::string, uint32_t> each{};  // by name; one that is not in it stays as it is
  uint32_t of(const TensorRecord& t) const;
};

// A tensor of the new files: parameters of the checkpoint, or slices of them along their first
// dimension, one below the other along dimension 0; or each at its corner of a matrix that is 0
// elsewhere.
struct ExportTensor {
  std::string name;
  std::vector<const TensorRecord*> parts;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;  // as it is written
  bool transposed = false;
  struct Corner {
    int64_t row = 0, column = 0;
  };
  std::vector<Corner> corners{};  // of the parts of a matrix; empty: one below the other
  std::vector<int64_t> slices{};  // of the parts; -1: all of it. Empty: all of each
  // Of a part's shape, what the tensor has.
  std::span<const int64_t> shape_of(size_t part) const;
  uint64_t bytes() const;
};

// Every parameter under its own name, or the name that a rule gives it.
// Errors: PLAIT_ERR_INVALID when two get one name, or for a type that a parameter can't have.
std::vector<ExportTensor> export_by_rules(const Checkpoint& from, const NameRules& rules,
                                          const WrittenTypes& types);
// By the places of a map, whose names are without `model`, the parameters' first part. Every
// parameter of that model has one place, or is the other name of one that has, or is ignored. A
// tensor of parameters of several types is f32, or f64 if one of them is.
// Errors: PLAIT_ERR_PLUGIN with what the map lacks.
std::vector<ExportTensor> export_by_map(const Checkpoint& from, const TensorMap& map,
                                        const std::string& model, const WrittenTypes& types);

// A file beside the weights: its content, or the path of the file that it copies.
struct ExportFile {
  std::string name, content, copy_of;
};

struct Exported {
  std::vector<std::string> files;   // paths
  std::vector<std::string> dtypes;  // of the tensors, sorted
  uint64_t tensors = 0, bytes = 0;
};
constexpr uint64_t kDefaultShardBytes = 5'000'000'000;

// Writes the tensors. weights_name: the file of all tensors in a folder, if it has a name of its
// own.
// `out`: a file NAME.safetensors, or a folder, which gets one file, or shards
// of at most max_shard_bytes (0: kDefaultShardBytes) and their index; and `beside`. It appears
// complete or not at all, and is durable on return. Needs memory for the largest tensor, twice if
// it is transposed or converted.
// Errors: PLAIT_ERR_INVALID when `out` exists; PLAIT_ERR_DATA for a finite number beyond the range
// of the new type; as Checkpoint::read().
Exported export_weights(FileSystem& files, const Checkpoint& from, const std::string& out,
                        std::vector<ExportTensor> tensors, uint64_t max_shard_bytes,
                        const std::vector<ExportFile>& beside = {},
                        const std::string& weights_name = "");

// Writes the files of a new folder, which appears complete or not at all. Returns their paths.
std::vector<std::string> write_new_folder(FileSystem& files, const std::string& out,
                                          const std::vector<ExportFile>& all);

}  // namespace plait::checkpoint
