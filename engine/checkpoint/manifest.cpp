#include "engine/checkpoint/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

namespace {

constexpr std::string_view kSealBegin = ",\n  \"checksum\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr size_t kSealBytes = kSealBegin.size() + 32 + kSealEnd.size();

void write_extents(JsonWriter& json, const char* key, const std::vector<int64_t>& values) {
  json.key(key).array();
  for (const int64_t v : values) json.value(v);
  json.end_array();
}

void write_state(JsonWriter& json, const RunState& state) {
  json.field("engine_version", state.engine_version);
  if (state.saved_at > 0) json.field("saved_at", state.saved_at);
  if (state.states_left_out) json.field("states_left_out", true);
  json.field("step", state.step).field("samples", state.samples);
  json.key("world").object();
  json.field("data", state.world.data)
      .field("tensor", state.world.tensor)
      .field("pipeline", state.world.pipeline);
  json.end_object();
  json.key("random")
      .object()
      .field("seed", state.seed)
      .field("step", state.random_step)
      .end_object();
  json.key("cursors").object();
  for (const auto& [name, index] : state.cursors) json.field(name, index);
  json.end_object();
  json.field("config_hash", state.config_hash);
  json.key("settings").object();
  for (const auto& [key, value] : state.settings) json.field(key, value);
  json.end_object();
  json.key("extra").raw(state.extra);
  if (state.bases.empty()) return;
  json.key("bases").array();
  for (const BaseRecord& base : state.bases) {
    json.object().field("model", base.model).field("path", base.path);
    json.field("xxh3_128", base.hash.hex()).texts("parameters", base.parameters).end_object();
  }
  json.end_array();
}

void write_tensor(JsonWriter& json, const TensorRecord& t) {
  json.object().field("name", t.name).field("dtype", dtype_name(t.dtype));
  write_extents(json, "shape", t.shape);
  json.key("slices").array();
  for (const SliceRecord& s : t.slices) {
    json.object().field("file", s.file).field("key", s.key);
    write_extents(json, "offset", s.offset);
    write_extents(json, "extent", s.extent);
    json.field("xxh3_128", s.hash.hex()).end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

uint64_t tensor_bytes(const TensorRecord& tensor) {
  uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const int64_t extent : tensor.shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return UINT64_MAX;
  return bytes;
}

std::string seal_manifest(std::string body) {
  const std::string hash = hash128(body).hex();
  body += kSealBegin;
  body += hash;
  body += kSealEnd;
  return body;
}

std::string manifest_text(const Manifest& manifest) {
  if (!starts_with(manifest.state.extra, "{") || !nlohmann::json::accept(manifest.state.extra))
    fail_internal("[checkpoint] the extra state is not a JSON object: '" +
                  manifest.state.extra.substr(0, 80) + "'");
  JsonWriter json(true);
  json.object().field("format_version", kFormatVersion);
  write_state(json, manifest.state);
  if (manifest.commit > 0)
    json.key("lineage")
        .object()
        .field("commit", manifest.commit)
        .field("id", manifest.state.lineage)
        .field("from", manifest.state.lineage_from)
        .end_object();
  json.key("files").array();
  for (const FileRecord& f : manifest.files)
    json.object()
        .field("name", f.name)
        .field("size", f.size)
        .field("xxh3_128", f.hash.hex())
        .end_object();
  json.end_array();
  json.key("tensors").array();
  for (const TensorRecord& t : manifest.tensors) write_tensor(json, t);
  json.end_array();
  return seal_manifest(json.text());
}

const TensorRecord* Manifest::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const TensorRecord& t, std::string_view n) { return t.name < n; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

std::string_view unseal_manifest(std::string_view text, const std::string& where) {
  const auto bad = [&where](const char* what) {
    fail_data("[checkpoint] " + where + ": the manifest " + what + kDamageHint);
  };
  if (text.size() < kSealBytes) bad("is truncated");
  const std::string_view body = text.substr(0, text.size() - kSealBytes);
  const std::string_view seal = text.substr(body.size());
  if (seal.substr(0, kSealBegin.size()) != kSealBegin ||
      seal.substr(kSealBytes - kSealEnd.size()) != kSealEnd)
    bad("does not end in its checksum: it is truncated or damaged");
  if (seal.substr(kSealBegin.size(), 32) != hash128(body).hex())
    bad("does not match its checksum: it is damaged");
  return body;
}

std::string read_manifest_head(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  const std::string text = files.read_all(path, kMaxManifestBytes);
  const std::string_view body = unseal_manifest(text, path);
  return std::string(body.substr(0, body.find("\n  \"files\": [")));
}

bool says_states_left_out(std::string_view head) {
  return head.find("\n  \"states_left_out\": true") != head.npos;
}

bool states_left_out(FileSystem& files, const std::string& folder) {
  try {
    return says_states_left_out(read_manifest_head(files, folder));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace plait::checkpoint
