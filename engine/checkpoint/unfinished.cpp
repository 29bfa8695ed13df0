#include "engine/checkpoint/unfinished.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {
namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& name) {
  return std::binary_search(names.begin(), names.end(), name);
}

std::string shard_name(uint32_t number, uint32_t of) {
  return strf("model-%05u-of-%05u.safetensors", number, of);
}

// How many files the name of one says that there are; none of another name.
std::optional<uint32_t> shards_of(const std::string& name) {
  constexpr size_t kNumber = sizeof "model-" - 1, kOf = sizeof "model-00001-of-" - 1, kDigits = 5;
  if (name.size() < kOf + kDigits) return std::nullopt;
  uint32_t number = 0, of = 0;
  std::from_chars(name.data() + kNumber, name.data() + kNumber + kDigits, number);
  std::from_chars(name.data() + kOf, name.data() + kOf + kDigits, of);
  if (number < 1 || number > of || name != shard_name(number, of)) return std::nullopt;
  return of;
}

// Files of the parameters that other ranks should have written.
Names missing_shards(const Names& names) {
  std::optional<uint32_t> of;
  for (size_t i = 0; i < names.size() && !of; ++i) of = shards_of(names[i]);
  Names missing;
  for (uint32_t i = 1; i <= of.value_or(0); ++i)
    if (std::string shard = shard_name(i, *of); !has(names, shard))
      missing.push_back(std::move(shard));
  return missing;
}

// Besides weights: states of the optimizer, and what each rank says of its files.
bool is_part_of_checkpoint(const std::string& name) {
  return name == "optimizer.safetensors" || starts_with(name, "optimizer-") ||
         name == "share.json" || starts_with(name, "share-") || name == kExperimentName;
}

// "" if files of weights can be opened: each is then as long as its header says.
std::string fault_of_weights(FileSystem& files, const std::string& file) {
  try {
    Weights(files, file);
    return "";
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    const std::string fault = without_part(e.text());
    return fault.substr(0, fault.find("; "));  // what to do about a download is no advice here
  }
}

// "a, b and 3 more".
std::string shortened(Names names) {
  constexpr size_t kShown = 4;
  const size_t n = names.size();
  if (n > kShown) names.resize(kShown);
  return join(names) + (n > kShown ? strf(" and %zu more", n - kShown) : "");
}

}  // namespace

std::string own_name(FileSystem& files, const std::string& path) {
  const std::string name = name_of(path);
  return name == "." || name == ".." ? name_of(files.real_path(path)) : name;
}

std::string missing_in_save(FileSystem& files, const std::string& folder) {
  if (!files.is_folder(folder) || !starts_with(own_name(files, folder), kUnfinished)) return "";
  const Names names = files.list(folder);
  if (has(names, kManifestName)) return "";
  // A save makes no folders: this one holds something else, as runs.
  for (const std::string& name : names)
    if (files.is_folder(join_path(folder, name))) return "";
  const char* const weights = has(names, kWeightsName)        ? kWeightsName
                              : has(names, kWeightsIndexName) ? kWeightsIndexName
                                                              : nullptr;
  if (weights) {
    const std::string fault = fault_of_weights(files, join_path(folder, weights));
    if (!fault.empty()) return std::string(kManifestName) + ", and " + fault;
    return std::none_of(names.begin(), names.end(), is_part_of_checkpoint) ? "" : kManifestName;
  }
  Names missing = missing_shards(names);
  if (std::none_of(names.begin(), names.end(),
                   [](const std::string& name) { return starts_with(name, "model"); }))
    missing.emplace_back("weights");
  return (missing.empty() ? "" : shortened(missing) + ", ") + kManifestName;
}

std::string unfinished_text(const std::string& folder, const std::string& missing) {
  return "'" + folder + "' is a save that was not finished, or is under way: it lacks " + missing;
}

std::string unfinished_saves(FileSystem& files, const std::string& place) {
  for (const std::string& folder : {place, join_path(place, kCheckpoints)}) {
    if (!files.is_folder(folder) || own_name(files, folder) != kCheckpoints) continue;
    for (const std::string& name : files.list(folder))
      if (starts_with(name, kUnfinished))
        return "; its saves were not finished, such as '" + join_path(folder, name) +
               "', and are not read";
  }
  return "";
}

}  // namespace plait::checkpoint
