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

// "optimizer.safetensors" or "optimizer-00001-of-00002.safetensors".
bool is_of_states(std::string_view name) {
  constexpr std::string_view kStem = "optimizer", kEnd = ".safetensors", kShard = "-00000-of-00000";
  if (!name.starts_with(kStem) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(kStem.size());
  name.remove_suffix(std::min(name.size(), kEnd.size()));
  return name.empty() ||
         std::equal(name.begin(), name.end(), kShard.begin(), kShard.end(),
                    [](char c, char of) { return of == '0' ? c >= '0' && c <= '9' : c == of; });
}

// Files of states, and manifests that were not renamed to their place (FileSystem::replace).
std::vector<std::string> files_that_may_go(FileSystem& files, const std::string& folder) {
  std::vector<std::string> names = files.list(folder);
  std::erase_if(names, [](const std::string& name) {
    return !starts_with(name, std::string(kManifestName) + ".tmp-") && !is_of_states(name);
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

void remove_unnamed(FileSystem& files, const std::string& folder, const Manifest& manifest) {
  for (const std::string& name : files_that_may_go(files, folder))
    if (!names_file(manifest, name)) files.remove(join_path(folder, name));
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
  remove_unnamed(files, folder, manifest);
}

void remove_leftover_states(FileSystem& files, const std::string& folder) {
  if (files_that_may_go(files, folder).empty()) return;
  const Manifest manifest = read_manifest(files, folder);
  files.sync_folder(folder);  // as above
  remove_unnamed(files, folder, manifest);
}

}  // namespace plait::checkpoint
