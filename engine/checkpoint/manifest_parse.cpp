// Parses a manifest. Its checksum is verified before anything is parsed.
#include <algorithm>
#include <exception>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

namespace {

using Json = JsonValue;
using Kind = JsonValue::Kind;

constexpr size_t kMaxSlices = 1024;
constexpr size_t kMaxSetting = 1u << 20, kMaxPath = 1u << 14;
constexpr size_t kMaxBases = 1024, kMaxParameters = 1u << 24;

// Typed access to one object; every error names the path of keys.
class JsonReader {
 public:
  JsonReader(const Json& json, std::string at, const std::string& where)
      : json_(json), at_(std::move(at)), where_(where) {
    if (!json_.is(Kind::kObject)) wrong("", "an object");
  }

  const Json& get(const char* key) const {
    const Json* found = json_.find(key);
    if (!found) wrong(key, "a value, found none");
    return *found;
  }
  int64_t number(const char* key) const { return as_number(get(key), key); }
  int64_t count(const char* key) const { return as_count(get(key), key); }
  uint64_t word(const char* key) const {
    const Json& v = get(key);
    if (!v.is(Kind::kWhole)) wrong(key, "a whole number of 0 or more");
    return v.whole;
  }
  // false where the key is absent
  bool flag(const char* key) const {
    const Json* v = json_.find(key);
    if (v && !v->is(Kind::kBool)) wrong(key, "true or false");
    return v && v->whole == 1;
  }
  std::string text(const char* key, size_t longest = kMaxNameBytes) const {
    return as_text(get(key), key, longest);
  }
  const std::vector<Json>& list(const char* key, size_t longest) const {
    const Json& v = get(key);
    if (!v.is(Kind::kList) || v.items.size() > longest)
      wrong(key, strf("a list of at most %zu", longest).c_str());
    return v.items;
  }
  JsonReader object(const char* key) const { return JsonReader(get(key), at_ + key + ".", where_); }
  std::vector<int64_t> numbers(const char* key, size_t longest) const {
    std::vector<int64_t> all;
    for (const Json& v : list(key, longest)) all.push_back(as_number(v, key));
    return all;
  }
  Hash128 hash(const char* key) const;
  // The name of a file in the checkpoint's own folder; a path that leads outside is refused.
  std::string file_name(const char* key) const {
    std::string name = text(key, 255);
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
      wrong(key, "the name of a file in the same folder");
    return name;
  }
  int64_t as_number(const Json& v, const char* key) const {
    if (!v.is(Kind::kWhole) || v.whole > static_cast<uint64_t>(INT64_MAX))
      wrong(key, "a whole number from 0 to 2^63-1");
    return static_cast<int64_t>(v.whole);
  }
  int64_t as_count(const Json& v, const char* key) const {
    if (!v.is(Kind::kWhole) || v.whole > static_cast<uint64_t>(kMaxCount))
      wrong(key, "a whole number from 0 to 2^53");
    return static_cast<int64_t>(v.whole);
  }
  const std::string& as_text(const Json& v, const char* key, size_t longest) const {
    if (!v.is(Kind::kText) || v.text.size() > longest)
      wrong(key, strf("a string of at most %zu bytes", longest).c_str());
    return v.text;
  }
  [[noreturn]] void wrong(const char* key, const char* expected) const {
    fail_data("[checkpoint] " + where_ + ": '" + printable(at_) + key +
              "' in the manifest must be " + expected);
  }
  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string at_;
  const std::string& where_;
};

Hash128 JsonReader::hash(const char* key) const {
  const std::string digits = text(key, 32);
  Hash128 hash;
  uint64_t* halves[] = {&hash.high, &hash.low};
  if (digits.size() != 32) wrong(key, "32 hexadecimal digits");
  for (size_t i = 0; i < 32; ++i) {
    const char c = digits[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) wrong(key, "32 hexadecimal digits");
    uint64_t& half = *halves[i / 16];
    half = half << 4 | static_cast<uint64_t>(digit);
  }
  return hash;
}

BaseRecord read_base(const Json& json, const JsonReader& root) {
  const JsonReader at(json, "bases[].", root.where());
  BaseRecord base{at.text("model"), at.text("path", kMaxPath), at.hash("xxh3_128"), {}};
  for (const Json& name : at.list("parameters", kMaxParameters))
    base.parameters.push_back(at.as_text(name, "parameters", kMaxNameBytes));
  std::sort(base.parameters.begin(), base.parameters.end());
  return base;
}

RunState read_state(const JsonReader& root) {
  RunState s;
  s.engine_version = root.text("engine_version");
  if (root.json().find("saved_at")) s.saved_at = root.number("saved_at");  // older engines: absent
  s.states_left_out = root.flag("states_left_out");
  s.step = root.count("step");
  s.samples = root.count("samples");
  const JsonReader world = root.object("world");
  s.world = {world.number("data"), world.number("tensor"), world.number("pipeline")};
  const JsonReader random = root.object("random");
  s.seed = random.word("seed");
  s.random_step = random.count("step");
  const JsonReader cursors = root.object("cursors");
  for (size_t i = 0; i < cursors.json().items.size(); ++i) {
    const std::string& name = cursors.json().keys[i];
    s.cursors[name] = cursors.as_count(cursors.json().items[i], name.c_str());
  }
  s.config_hash = root.text("config_hash");
  if (root.json().find("settings")) {  // absent in checkpoints of older engines
    const JsonReader settings = root.object("settings");
    for (size_t i = 0; i < settings.json().items.size(); ++i) {
      const std::string& key = settings.json().keys[i];
      s.settings[key] = settings.as_text(settings.json().items[i], key.c_str(), kMaxSetting);
    }
  }
  s.extra = json_text(root.object("extra").json());
  if (root.json().find("bases"))
    for (const Json& one : root.list("bases", kMaxBases)) s.bases.push_back(read_base(one, root));
  return s;
}

constexpr const char* kOverflow = "a size below 2^64";

enum class Slices { kWhole, kSome };

TensorRecord read_tensor(const JsonReader& at, Slices expected) {
  TensorRecord t;
  t.name = at.text("name");
  t.dtype = dtype_from_name(at.text("dtype"));
  if (t.dtype == 0) at.wrong("dtype", "an element type that Plait supports");
  t.shape = at.numbers("shape", kMaxFileRank);
  const std::vector<Json>& slices = at.list("slices", kMaxSlices);
  for (size_t i = 0; i < slices.size(); ++i) {
    const JsonReader one(slices[i], "tensors." + t.name + ".slices.", at.where());
    SliceRecord s;
    s.file = one.file_name("file");
    s.key = one.text("key");
    s.offset = one.numbers("offset", kMaxFileRank);
    s.extent = one.numbers("extent", kMaxFileRank);
    s.hash = one.hash("xxh3_128");
    t.slices.push_back(std::move(s));
  }
  if (const char* fault = expected == Slices::kWhole ? slices_error(t) : nullptr)
    at.wrong(fault == kOverflow ? "shape" : "slices", fault);
  return t;
}

// What exists of a text of this size at a time. A record of a file or a tensor is dropped when it
// has been read, so this bounds settings, and one tensor: as much of each as an engine writes.
size_t max_values(size_t bytes) { return 32'768 + bytes / 48; }

void check_version(const JsonReader& root, const std::string& where) {
  const int64_t version = root.number("format_version");
  if (version > kFormatVersion)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         strf("[checkpoint] %s has format version %lld, this engine reads up to %lld; use the "
              "engine that wrote it or a newer one",
              where.c_str(), static_cast<long long>(version),
              static_cast<long long>(kFormatVersion)));
  if (version < 1) root.wrong("format_version", "1 or more");
}

// Takes the records of a manifest one by one, so that they are not in memory twice.
class RecordReader {
 public:
  RecordReader(Manifest& manifest, const std::string& where, Slices expected)
      : manifest_(manifest), where_(where), expected_(expected) {}

  bool take(const Json& root, const std::string& key, const Json& item) {
    try {
      if (!checked_) check_version(JsonReader(root, "", where_), where_);  // it is the first key
      checked_ = true;
      return take(key, item);
    } catch (...) {
      thrown_ = std::current_exception();
      throw;
    }
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  bool take(const std::string& key, const Json& item) {
    if (key == "files") {
      const JsonReader one(item, "files.", where_);
      check_number(manifest_.files.size(), "files", one);
      manifest_.files.push_back({one.file_name("name"), one.word("size"), one.hash("xxh3_128")});
      return true;
    }
    if (key != "tensors") return false;
    const JsonReader one(item, "tensors.", where_);
    check_number(manifest_.tensors.size(), "tensors", one);
    manifest_.tensors.push_back(read_tensor(one, expected_));
    return true;
  }
  void check_number(size_t n, const char* list, const JsonReader& one) const {
    if (n == kMaxTensors)
      one.wrong(
          "", (std::string("one of at most ") + std::to_string(kMaxTensors) + " " + list).c_str());
  }

  Manifest& manifest_;
  const std::string& where_;
  const Slices expected_;
  bool checked_ = false;
  std::exception_ptr thrown_;
};

Json parse_body(std::string_view body, const std::string& where, RecordReader& records) {
  JsonLimits limits;
  limits.max_values = max_values(body.size());
  limits.take = [&records](const Json& root, const std::string& key, const Json& item) {
    return records.take(root, key, item);
  };
  try {
    return parse_json(std::string(body) + "}", limits);
  } catch (const Error& e) {
    records.rethrow();
    fail_data("[checkpoint] " + where + ": the manifest " + e.text());
  }
}

void refuse_twins(const Manifest& manifest, const std::string& where) {
  for (size_t i = 1; i < manifest.tensors.size(); ++i)
    if (manifest.tensors[i].name == manifest.tensors[i - 1].name)
      fail_data("[checkpoint] " + where + ": tensor '" + printable(manifest.tensors[i].name) +
                "' is in the manifest twice");
}

// Each entry of the list is a file that is opened and read: a file given a thousand times would be
// read a thousand times.
void refuse_twin_files(const Manifest& manifest, const std::string& where) {
  std::vector<std::string_view> names;
  for (const FileRecord& file : manifest.files) names.emplace_back(file.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end())
    fail_data("[checkpoint] " + where + ": file '" + printable(*twin) +
              "' is in the manifest twice");
}

Manifest parse(std::string_view text, const std::string& where, Slices expected) {
  Manifest manifest;
  RecordReader records(manifest, where, expected);
  const Json json = parse_body(unseal_manifest(text, where), where, records);
  const JsonReader root(json, "", where);
  check_version(root, where);
  manifest.format_version = root.number("format_version");
  manifest.state = read_state(root);
  if (root.json().find("lineage")) {  // absent in checkpoints of older engines
    const JsonReader lineage = root.object("lineage");
    manifest.commit = lineage.count("commit");
    manifest.state.lineage = lineage.text("id");
    manifest.state.lineage_from = lineage.count("from");
  }
  // What is left in them is no record.
  for (const char* key : {"files", "tensors"})
    for (const Json& item : root.list(key, kMaxTensors))
      JsonReader(item, std::string(key) + ".", where);
  refuse_twin_files(manifest, where);
  if (expected == Slices::kSome) return manifest;
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
  refuse_twins(manifest, where);
  return manifest;
}

}  // namespace

namespace {

// Number of elements of a block; false on overflow.
bool volume(const std::vector<int64_t>& extent, uint64_t* out) {
  *out = 1;
  for (const int64_t e : extent)
    if (__builtin_mul_overflow(*out, static_cast<uint64_t>(e), out)) return false;
  return true;
}

bool disjoint(const SliceRecord& a, const SliceRecord& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (a.offset[d] + a.extent[d] <= b.offset[d] || b.offset[d] + b.extent[d] <= a.offset[d])
      return true;
  return false;
}

}  // namespace

const char* slices_error(const TensorRecord& t) {
  uint64_t total = 0, covered = 0;
  if (!volume(t.shape, &total)) return kOverflow;
  for (const SliceRecord& s : t.slices) {
    if (s.offset.size() != t.shape.size() || s.extent.size() != t.shape.size())
      return "blocks of the tensor's rank";
    for (size_t d = 0; d < t.shape.size(); ++d)
      if (s.offset[d] > t.shape[d] || s.extent[d] > t.shape[d] - s.offset[d])
        return "inside the tensor";
    uint64_t part = 0;
    if (!volume(s.extent, &part) || __builtin_add_overflow(covered, part, &covered))
      return "inside the tensor";
  }
  for (size_t i = 0; i < t.slices.size() && total > 0; ++i)
    for (size_t j = 0; j < i; ++j)
      if (!disjoint(t.slices[i], t.slices[j])) return "free of overlaps";
  return covered != total || t.slices.empty() ? "the whole tensor" : nullptr;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  return parse(text, where, Slices::kWhole);
}

Manifest read_manifest(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifestName);
  const std::string text = files.read_all(path, kMaxManifestBytes);
  return with_memory("checkpoint", "parse", path, text.size(),
                     [&] { return parse_manifest(text, path); });
}

Manifest parse_shard(std::string_view text, const std::string& where) {
  return parse(text, where, Slices::kSome);
}

}  // namespace plait::checkpoint
