#include "engine/checkpoint/weights.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/json.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"

namespace plait::checkpoint {

bool Weights::is_folder_of_weights(FileSystem& files, const std::string& folder) {
  const auto has = [&](const char* name) { return files.is_file(join_path(folder, name)); };
  return !has(kManifestName) && (has(kWeightsName) || has(kWeightsIndexName));
}

Weights::Weights(FileSystem& files, const std::string& path) {
  std::string file = path;
  if (files.is_folder(path)) {
    file = join_path(path, kWeightsName);
    if (!files.is_file(file)) file = join_path(path, kWeightsIndexName);
  }
  if (file.ends_with(".json")) {
    read_index(files, file);
    return;
  }
  const SafetensorsFile& one = *files_.emplace_back(std::make_unique<SafetensorsFile>(files, file));
  for (const TensorEntry& t : one.header().tensors) tensors_[t.name] = {&one, &t};
}

void Weights::read_index(FileSystem& files, const std::string& path) {
  const auto bad = [&](const std::string& text) { fail_data("[weights] '" + path + "' " + text); };
  const std::string text = files.read_all(path, kMaxManifestBytes);
  JsonValue json;
  try {
    json = with_memory("weights", "parse", path, text.size(), [&] { return parse_json(text); });
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) throw;
    bad(e.text());
  }
  using Kind = JsonValue::Kind;
  const JsonValue* map = json.is(Kind::kObject) ? json.find("weight_map") : nullptr;
  if (!map || !map->is(Kind::kObject))
    bad("has no object 'weight_map', expected {\"weight_map\": {tensor: file}}");
  std::map<std::string, const SafetensorsFile*, std::less<>> open;
  for (size_t i = 0; i < map->items.size(); ++i) {
    const std::string& tensor = map->keys[i];
    const std::string& name = map->items[i].text;
    // The files lie beside the index; a name that leads elsewhere is a trap.
    if (!map->items[i].is(Kind::kText) || name.empty() || name == "." || name == ".." ||
        name.find('/') != std::string::npos)
      bad("names '" + printable(name) + "' as the file of '" + printable(tensor) +
          "', expected a file beside it, without a folder");
    const SafetensorsFile*& file = open[name];
    if (!file)
      file = files_
                 .emplace_back(
                     std::make_unique<SafetensorsFile>(files, join_path(folder_of(path), name)))
                 .get();
    const TensorEntry* entry = file->header().find(tensor);
    if (!entry) bad("says that '" + printable(tensor) + "' is in '" + name + "', which has none");
    tensors_[tensor] = {file, entry};
  }
}

Weights::Place Weights::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? Place{} : at->second;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : tensors_) all.push_back(name);
  return all;
}

std::string weights_index_text(const std::map<std::string, std::string>& file_of,
                               uint64_t total_bytes) {
  JsonWriter w(true);
  w.object().key("metadata").object().field("total_size", total_bytes).end_object();
  w.key("weight_map").object();
  for (const auto& [tensor, file] : file_of) w.field(tensor, file);
  w.end_object().end_object();
  return w.text() + "\n";
}

namespace {

bool is_parameter(const TensorRecord& t) {
  return !t.slices.empty() && t.slices[0].file.starts_with("model");
}

uint64_t bytes_of(const TensorRecord& t) {
  uint64_t bytes = dtype_bytes(t.dtype);
  for (const int64_t extent : t.shape) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

}  // namespace

std::string checkpoint_index_text(const Manifest& manifest) {
  std::map<std::string, std::string> file_of;
  uint64_t bytes = 0;
  for (const TensorRecord& t : manifest.tensors) {
    if (!is_parameter(t)) continue;
    if (t.slices.size() != 1 || t.slices[0].key != t.name) return "";
    file_of[t.name] = t.slices[0].file;
    bytes += bytes_of(t);
  }
  return weights_index_text(file_of, bytes);
}

namespace {

struct Named {
  const TensorRecord* tensor;
  std::string name;
  uint64_t bytes;
};

std::vector<Named> parameters_of(const Checkpoint& from, const NameRules& rules) {
  std::map<std::string, std::string> taken;  // new name -> name
  std::vector<Named> all;
  for (const TensorRecord& t : from.tensors()) {
    if (!is_parameter(t)) continue;
    const std::string name = rules.find({t.name}).value_or(t.name);
    if (const auto [at, is_new] = taken.emplace(name, t.name); !is_new)
      fail_invalid("[export] '" + printable(at->second) + "' and '" + printable(t.name) +
                   "' both become '" + printable(name) + "'; correct the rules for names");
    all.push_back({&t, name, bytes_of(t)});
  }
  return all;
}

// The tensors of each file, in order, as many as fit; a tensor above the limit has its own.
std::vector<std::vector<Named>> shards_of(std::vector<Named> all, uint64_t limit) {
  std::vector<std::vector<Named>> shards(1);
  uint64_t used = 0;
  for (Named& t : all) {
    if (!shards.back().empty() && (t.bytes > limit || used > limit - t.bytes)) {
      shards.emplace_back();
      used = 0;
    }
    used += t.bytes;
    shards.back().push_back(std::move(t));
  }
  return shards;
}

void write_shard_of(FileSystem& files, const std::string& path, const Checkpoint& from,
                    const std::vector<Named>& tensors) {
  std::vector<char> bytes;  // of one tensor at a time
  std::vector<TensorSource> sources;
  for (const Named& t : tensors)
    sources.push_back({t.name, t.tensor->dtype, t.tensor->shape, nullptr, [&from, &bytes, &t] {
                         with_memory("export", ("hold tensor '" + t.tensor->name + "' of").c_str(),
                                     from.path(), t.bytes, [&] { bytes.resize(t.bytes); });
                         from.read(t.tensor->name, t.tensor->dtype, t.tensor->shape, bytes.data());
                         return static_cast<const void*>(bytes.data());
                       }});
  write_safetensors(files, path, sources);
}

// Writes the files of a folder; returns their names.
std::vector<std::string> write_folder(FileSystem& files, const std::string& folder,
                                      const Checkpoint& from,
                                      const std::vector<std::vector<Named>>& shards,
                                      uint64_t total) {
  std::vector<std::string> names;
  std::map<std::string, std::string> file_of;
  for (size_t i = 0; i < shards.size(); ++i) {
    names.push_back(shards.size() == 1
                        ? kWeightsName
                        : strf("model-%05zu-of-%05zu.safetensors", i + 1, shards.size()));
    write_shard_of(files, join_path(folder, names.back()), from, shards[i]);
    for (const Named& t : shards[i]) file_of[t.name] = names.back();
  }
  if (shards.size() > 1) {
    names.emplace_back(kWeightsIndexName);
    files.replace(join_path(folder, kWeightsIndexName), weights_index_text(file_of, total));
  }
  files.sync_folder(folder);
  return names;
}

}  // namespace

Exported export_weights(FileSystem& files, const Checkpoint& from, const std::string& out,
                        const ExportSettings& settings) {
  if (files.exists(out) || files.is_link(out))
    fail_invalid("[export] '" + out + "' exists; remove it, or choose another name");
  std::vector<Named> all = parameters_of(from, settings.names);
  Exported done;
  done.tensors = all.size();
  for (const Named& t : all) done.bytes += t.bytes;
  const std::string hidden = join_path(folder_of(out), ".tmp-" + unique_id());
  const std::string* made = &hidden;
  try {
    if (out.ends_with(".safetensors")) {
      write_shard_of(files, hidden, from, all);
      done.files = {out};
    } else {
      files.make_folder(hidden);
      const auto shards = shards_of(
          std::move(all), settings.max_shard_bytes ? settings.max_shard_bytes : kDefaultShardBytes);
      for (const std::string& name : write_folder(files, hidden, from, shards, done.bytes))
        done.files.push_back(join_path(out, name));
    }
    files.rename(hidden, out);
    made = &out;
    files.sync_folder(folder_of(out));
  } catch (...) {
    try {
      files.remove_all(*made);
    } catch (const std::exception&) {
      // The first error counts.
    }
    rethrow_with("[export] the weights of '" + from.path() + "' could not be written to '" + out +
                 "' (needs " + human_bytes(done.bytes) + ")");
  }
  return done;
}

}  // namespace plait::checkpoint
