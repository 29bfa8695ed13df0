#include "plugins/formats/hf/folder.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "kit/json_cursor.hpp"
#include "plugins/support/description_file.hpp"
#include "plugins/support/json_file.hpp"
#include "plugins/support/tensor_file.hpp"

namespace plait::hf {
namespace {

namespace fs = std::filesystem;
using support::SourceFile;

constexpr const char *kWeights = "model.safetensors", *kIndex = "model.safetensors.index.json";
constexpr const char* kCompanions[] = {"generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "tokenizer.model",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "chat_template.jinja",
                                       "chat_template.json"};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

SourceFile source(const fs::path& path) { return {"format.hf", "folder", path.string()}; }

support::Bytes bytes_of(const SourceFile& file, const std::string& tensor) {
  const support::TensorFile in(file);
  const auto entries = in.entries();
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const kit::SafetensorsEntry& e) { return e.name == tensor; });
  if (at == entries.end()) file.bad(0, "it has no tensor '" + tensor + "'");
  return in.read(*at);
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + ")";
}

}  // namespace

Folder::Folder(const std::string& path) : path_(path) {
  const fs::path folder = path;
  if (is_file(folder / kWeights)) {
    read_header(kWeights);
    for (const auto& [tensor, unused] : shapes_) files_[tensor] = kWeights;
    return;
  }
  if (!is_file(folder / kIndex))
    fail(PLAIT_ERR_NOT_FOUND,
         "[format.hf] folder '" + path + "': it has neither " + kWeights + " nor " + kIndex +
             (is_file(folder / "pytorch_model.bin") ||
                      is_file(folder / "pytorch_model.bin.index.json")
                  ? "; its weights are pickled: load it with the library and save it again, which "
                    "writes safetensors"
                  : "; give the folder of a model"));
  read_index((folder / kIndex).string());
}

void Folder::read_index(const std::string& path) {
  const SourceFile file = source(path);
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    const support::JsonPlace map = support::JsonPlace(file, json, "")["weight_map"];
    std::set<std::string> read;
    for (const auto& [tensor, unused] : map.object().items()) {
      const std::string name = map[tensor].text();
      if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
          name.find('\0') != std::string::npos)
        map[tensor].bad("found '" + kit::printable(name) +
                        "', expected a file beside it, without a folder");
      files_[tensor] = name;
      if (!is_file(fs::path(path_) / name))
        map[tensor].bad("found '" + kit::printable(name) +
                        "', which is no file beside it; copy the whole folder of the model");
      if (read.insert(name).second) read_header(name);
    }
  });
}

void Folder::read_header(const std::string& name) {
  const support::TensorFile file(source(fs::path(path_) / name));
  for (const kit::SafetensorsEntry& entry : file.entries()) shapes_[entry.name] = entry.shape;
}

void Folder::check_shape(const std::string& tensor, const std::vector<int64_t>& shape) const {
  const auto at = shapes_.find(tensor);
  if (at == shapes_.end() || at->second == shape) return;  // what is missing, the engine names
  const auto file = files_.find(tensor);
  fail(PLAIT_ERR_DATA, "[format.hf] folder '" + path_ + "': config.json gives the tensor '" +
                           tensor + "' the shape " + text_of(shape) + ", and " +
                           (file == files_.end() ? "its file" : kit::printable(file->second)) +
                           " has it with " + text_of(at->second) +
                           "; take a config.json that belongs to these weights");
}

void Folder::check_equal(const std::string& a, const std::string& b) const {
  const auto file_of = [&](const std::string& tensor) {
    const auto at = files_.find(tensor);
    if (at == files_.end())
      fail(PLAIT_ERR_DATA, "[format.hf] folder '" + path_ + "': it has no tensor '" + tensor + "'");
    return source(fs::path(path_) / at->second);
  };
  const support::Bytes left = bytes_of(file_of(a), a), right = bytes_of(file_of(b), b);
  if (!std::ranges::equal(left.span(), right.span()))
    fail(PLAIT_ERR_DATA, "[format.hf] folder '" + path_ + "': config.json says that '" + a +
                             "' is tied to '" + b +
                             "', but their values differ; set tie_word_embeddings to false there");
}

void copy_companions(const std::string& folder, const FormatOutput& out) {
  for (const char* name : kCompanions)
    if (is_file(fs::path(folder) / name)) out.copy(name, (fs::path(folder) / name).string());
}

}  // namespace plait::hf
