#include "engine/checkpoint/remove_states.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/text.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {
namespace {

bool names_file(const Manifest& manifest, const std::string& name) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [&](const FileRecord& f) { return f.name == name; });
}

// Files of states, and manifests that were not renamed to their place (FileSystem::replace).
std::vector<std::string> files_that_may_go(FileSystem& files, const std::string& folder) {
  std::vector<std::string> names = files.list(folder);
  std::erase_if(names, [](const std::string& name) {
    const bool unplaced = starts_with(name, std::string(kManifestName) + ".tmp-");
    return !unplaced && !(starts_with(name, "optimizer") && name.ends_with(".safetensors"));
  });
  return names;
}

// What it says when the states, and the files that hold nothing else, are no more.
Manifest without_states(Manifest manifest) {
  std::set<std::string> dropped;  // files with states
  for (const TensorRecord& t : manifest.tensors)
    if (!is_parameter(t))
      for (const SliceRecord& s : t.slices) dropped.insert(s.file);
  std::erase_if(manifest.tensors, [](const TensorRecord& t) { return !is_parameter(t); });
  for (const TensorRecord& t : manifest.tensors)
    for (const SliceRecord& s : t.slices) dropped.erase(s.file);
  std::erase_if(manifest.files, [&](const FileRecord& f) { return dropped.contains(f.name); });
  manifest.state.states_left_out = true;
  return manifest;
}

}  // namespace

void remove_states(FileSystem& files, const std::string& folder) {
  if (files_that_may_go(files, folder).empty()) return;
  Manifest manifest = read_manifest(files, folder);
  if (!std::all_of(manifest.tensors.begin(), manifest.tensors.end(), is_parameter)) {
    manifest = without_states(std::move(manifest));
    // Durable before a file is deleted: else a power cut could restore the manifest that names it.
    files.replace(join_path(folder, kManifestName), manifest_text(manifest));
  } else {
    files.sync_folder(folder);  // an interrupted call may have renamed it, and no more
  }
  for (const std::string& name : files_that_may_go(files, folder))
    if (!names_file(manifest, name)) files.remove(join_path(folder, name));
}

}  // namespace plait::checkpoint
