#include "engine/checkpoint/probe_weights.hpp"

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {

namespace {

void require_path(FileSystem& files, const std::string& key, const std::string& path,
                  const std::string& expected) {
  if (!files.exists(path))
    fail_not_found("[weights] " + key + " names '" + path + "', which does not exist, expected " +
                   expected +
                   "a checkpoint, ckpt/best or a run directory; a relative path is looked up in "
                   "the data folder, beside the experiment file and in the current folder");
}

}  // namespace

void require_weights(FileSystem& files, const std::string& key, const std::string& path) {
  require_path(files, key, path, "a safetensors file, a folder of such files with their index, ");
}

void probe_weights(FileSystem& files, const std::string& key, const std::string& path) {
  require_weights(files, key, path);
  if (names_checkpoint(files, path))
    Checkpoint(files, choose_checkpoint(files, path), Checkpoint::Verify::kLater);
  else
    Weights(files, path);
}

void probe_checkpoint(FileSystem& files, const std::string& key, const std::string& path) {
  require_path(files, key, path, "");
  if (!names_checkpoint(files, path))
    fail_data("[checkpoint] " + key + " names '" + path +
              "', which is no checkpoint, expected one, ckpt/best or a run directory; weights "
              "alone are read by model.load");
  Checkpoint(files, choose_checkpoint(files, path), Checkpoint::Verify::kLater);
}

}  // namespace plait::checkpoint
