#include "engine/checkpoint/weights_hash.hpp"

#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {

Hash128 hash_of_weights(FileSystem& files, const std::string& path) {
  Hasher all;
  if (names_checkpoint(files, path)) {
    const Checkpoint from(files, choose_checkpoint(files, path), Checkpoint::Verify::kLater);
    for (const TensorRecord& t : from.tensors()) {
      if (!is_parameter(t)) continue;
      all.update(t.name);
      all.update(shape_text(t.shape));
      for (const SliceRecord& slice : t.slices) all.update(slice.hash.hex());
    }
  } else {
    for (const std::string& file : Weights(files, path).paths())
      all.update(hash128_file(files, file).hex());
  }
  return all.digest128();
}

}  // namespace plait::checkpoint
