// What the functions of checkpoint.h return, as JSON.
#pragma once

#include <string>

#include "engine/base/files.hpp"
#include "engine/checkpoint/compare.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/rewrite.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/verify.hpp"

namespace plait::capi {

std::string survey_json(const checkpoint::Survey& found);
std::string description_json(const std::string& path, const checkpoint::Manifest& manifest);
std::string verification_json(const std::string& path, const checkpoint::Verification& done);
std::string comparison_json(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b,
                            const checkpoint::Comparison& c);
std::string rewritten_json(const checkpoint::Checkpoint& from, const checkpoint::Rewritten& done);

// Puts the keys of run.toml that differ in front of the settings of the manifests, of which those
// stay that tell something else: the device, the content of data. Nothing changes unless both
// checkpoints have one.
void add_experiments(FileSystem& files, const checkpoint::Checkpoint& a,
                     const checkpoint::Checkpoint& b, checkpoint::Comparison& c);

}  // namespace plait::capi
