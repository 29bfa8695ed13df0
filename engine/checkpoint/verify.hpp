// Checks what a checkpoint's files hold against its manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

// Told of bytes that have been read or written since the last call, every few megabytes. It may
// throw, to stop the work.
using Progress = std::function<void(uint64_t bytes)>;

// Takes a fault. It may throw it, to end the search at the first.
using FaultSink = std::function<void(const Error& fault)>;

// Reads every byte once, for the checksums of files and tensors. files: in the order of the
// manifest's; NULL: one that could not be opened, which is passed over. Faults of tensors come
// first, so that they name the damaged ones.
// Errors: those of `fault` and `progress`; what a read fails with is a fault.
void check_content(const std::string& folder, const Manifest& manifest,
                   std::span<const std::unique_ptr<SafetensorsFile>> files, const FaultSink& fault,
                   const Progress& progress);

// A file of the manifest, with the size that it must have and a valid header; NULL after a fault of
// these. Errors: what reading it fails with, and those of `fault`.
std::unique_ptr<SafetensorsFile> open_checked(FileSystem& files, const std::string& folder,
                                              const FileRecord& record, const FaultSink& fault);

struct Verification {
  std::vector<std::string> faults;  // none: the checkpoint is intact
  bool unreadable = false;          // all faults are of reading: nothing is known of it
  bool states_left_out = false;     // of the optimizer
  uint64_t files = 0, tensors = 0, bytes = 0;
};

// All faults of a checkpoint folder: of the manifest, of sizes, headers and checksums of files, of
// tensors that are missing, of another type or shape, that have gaps or overlaps, that the manifest
// does not name, and of the index for other programs.
// Errors: PLAIT_ERR_NOT_FOUND if the folder has no manifest; PLAIT_ERR_UNIMPLEMENTED for a newer
// format, which cannot be judged; PLAIT_ERR_MEMORY; those of `progress`.
Verification verify_checkpoint(FileSystem& files, const std::string& folder,
                               const Progress& progress);

}  // namespace plait::checkpoint
