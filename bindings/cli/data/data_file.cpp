#include "bindings/cli/data/data_file.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <utility>

#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct Chosen {
  std::string type;
  std::vector<std::string> options;
};

std::string option(const char* key, const std::string& path) {
  return std::string(key) + "=" + toml_value(fs::absolute(path).string());
}

// The name with `from` replaced by `to`, packed or not, if there is such a file; else "".
std::string beside(const std::string& path, const std::string& from, const std::string& to) {
  const fs::path whole(path);
  std::string name = whole.filename().string();
  const size_t at = name.find(from);
  if (at == std::string::npos) return "";
  name.replace(at, from.size(), to);
  const bool packed = name.ends_with(".gz");
  std::error_code ignored;
  for (const std::string& one : {name, packed ? name.substr(0, name.size() - 3) : name + ".gz"})
    if (const fs::path other = whole.parent_path() / one; fs::exists(other, ignored))
      return other.string();
  return "";
}

// MNIST's names: train-images-idx3-ubyte, train-labels-idx1-ubyte.
Chosen idx(const std::string& path) {
  const std::string images = beside(path, "labels-idx1", "images-idx3"),
                    labels = beside(path, "images-idx3", "labels-idx1");
  Chosen chosen{"idx", {option("images", images.empty() ? path : images)}};
  if (!images.empty())
    chosen.options.push_back(option("labels", path));
  else if (!labels.empty())
    chosen.options.push_back(option("labels", labels));
  return chosen;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_image(const fs::path& path) {
  const std::string name = lower(path.filename().string());
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

// Whether one of the first files in the folder is an image by its name.
bool has_images(const fs::path& folder) {
  constexpr int kMost = 1000;
  std::error_code ignored;
  int n = 0;
  for (fs::directory_iterator at(folder, ignored), end; at != end && n < kMost;
       at.increment(ignored), ++n)
    if (is_image(at->path())) return true;
  return false;
}
// Whether it is a folder of folders of images, and none of an experiment.
bool is_image_folder(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || fs::exists(fs::path(path) / "experiment.toml", ignored))
    return false;
  for (fs::directory_iterator at(path, ignored), end; at != end; at.increment(ignored))
    if (at->is_directory(ignored) && has_images(at->path())) return true;
  return false;
}

std::optional<Chosen> chosen_for(const std::string& path) {
  // Images of several sizes are shown, too.
  if (is_image_folder(path)) return Chosen{"images", {option("path", path), "size=[0, 0]"}};
  std::string name = lower(fs::path(path).filename().string());
  if (name.ends_with(".npy")) return Chosen{"npy", {option("input", path)}};
  for (const char* type : {"npz", "safetensors"})
    if (name.ends_with(std::string(".") + type))
      return Chosen{type, {option("path", path), "input=[\"*\"]", "target=[]"}};
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (name.ends_with("-ubyte")) return idx(path);
  if (name.ends_with(".csv") || name.ends_with(".tsv"))
    return Chosen{"csv",
                  {option("path", path), "categories=[\"*\"]", "encoding=id", "missing=nan"}};
  return std::nullopt;
}

}  // namespace

std::vector<IdxSet> idx_sets(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) ||
      fs::exists(fs::path(folder) / "experiment.toml", ignored))
    return {};
  std::map<std::string, IdxSet> sets;
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with("-ubyte") && !name.ends_with("-ubyte.gz")) continue;
    const size_t images = name.find("-images-idx3-"), labels = name.find("-labels-idx1-");
    const size_t begin = std::min(images, labels);
    if (begin == std::string::npos) continue;
    IdxSet& set = sets[name.substr(0, begin)];
    std::string& path = images == begin ? set.images : set.labels;
    if (path.empty() || at->path().string().size() < path.size())  // not packed rather than packed
      path = at->path().string();
  }
  std::vector<IdxSet> found;
  for (auto& [name, set] : sets) {
    set.name = name;
    found.push_back(std::move(set));
  }
  return found;
}

ClassFolders class_folders(const std::string& path) {
  constexpr int64_t kMost = 100000;
  ClassFolders found;
  std::error_code ignored;
  for (fs::directory_iterator at(path, ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.') || !at->is_directory(ignored)) continue;
    found.names.push_back(name);
    for (fs::recursive_directory_iterator in(at->path(), ignored), last;
         in != last && found.images < kMost; in.increment(ignored))
      found.images += is_image(in->path()) ? 1 : 0;
  }
  if (found.images == 0) found.names.clear();
  std::sort(found.names.begin(), found.names.end());
  return found;
}

LooseImages loose_images(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return LooseImages::kNone;
  if (!fs::is_directory(path, ignored))
    return is_image(path) ? LooseImages::kOne : LooseImages::kNone;
  if (fs::exists(fs::path(path) / "experiment.toml", ignored)) return LooseImages::kNone;
  if (has_images(path)) return LooseImages::kFolder;
  return fs::is_empty(path, ignored) && !ignored ? LooseImages::kEmpty : LooseImages::kNone;
}

std::optional<std::string> dataset_of_file(const std::string& path,
                                           const std::vector<std::string>& options) {
  std::optional<Chosen> chosen = chosen_for(path);
  if (!chosen) return std::nullopt;
  for (const std::string& given : options) {
    const std::string key = given.substr(0, given.find('=')) + "=";
    std::erase_if(chosen->options, [&](const std::string& own) { return own.starts_with(key); });
    chosen->options.push_back(given);
  }
  return item_toml(chosen->type, chosen->options);
}

}  // namespace plait::cli
