// Folders of saves that were not finished: what is written gets its name by a rename, the last act
// of a save. Until then its folder is called `.tmp-...`.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/files.hpp"

namespace plait::checkpoint {

inline constexpr std::string_view kUnfinished = ".tmp-";  // how the name of such a folder begins

// The last part of a path, of "." and ".." that of the folder which they stand for.
std::string own_name(FileSystem& files, const std::string& path);

// What a folder of such a name lacks: "MANIFEST.json", "model-00002-of-00004.safetensors,
// MANIFEST.json", or what is wrong with its weights. "": it is whole (a checkpoint with its
// manifest, or weights alone, of which every file is as long as it should be), or it is no such
// folder, as one with folders inside. Reads no content of tensors.
// Errors: PLAIT_ERR_NOT_FOUND if a run removes it meanwhile; PLAIT_ERR_IO; PLAIT_ERR_MEMORY.
std::string missing_in_save(FileSystem& files, const std::string& folder);

// "'run/ckpt/.tmp-7-1f' is a save that was not finished, or is under way: it lacks MANIFEST.json".
std::string unfinished_text(const std::string& folder, const std::string& missing);

// For a message about a place without a checkpoint: "; its saves were not finished, such as
// 'run/ckpt/.tmp-..', and are not read", or "" where it has none. Looks into the place, and into
// ckpt/ of a run directory.
std::string unfinished_saves(FileSystem& files, const std::string& place);

}  // namespace plait::checkpoint
