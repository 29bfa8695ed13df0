#include "engine/capi/checkpoint_json.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/base/file_memory.hpp"
#include "engine/base/json.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/document.hpp"

namespace plait::capi {

using namespace checkpoint;

namespace {

const char* kind_of(const TensorRecord& t) { return is_parameter(t) ? "parameter" : "state"; }

void write_numbers(JsonWriter& w, const char* key, const std::vector<int64_t>& numbers) {
  w.key(key).array();
  for (const int64_t n : numbers) w.value(n);
  w.end_array();
}

void write_ranks(JsonWriter& w, const WriterGrid& grid) {
  w.key("ranks").object().field("data", grid.data).field("tensor", grid.tensor);
  w.field("pipeline", grid.pipeline).end_object();
}

constexpr const char* kConditions[] = {"complete", "damaged", "newer_format", "not_committed"};
constexpr const char* kKinds[] = {"checkpoint", "checkpoints", "run", "runs"};

void write_surveyed(JsonWriter& w, const Surveyed& c) {
  w.object().field("path", c.path).field("folder", c.folder).field("name", c.name);
  w.field("state", kConditions[static_cast<size_t>(c.condition)]);
  c.fault.empty() ? w.key("fault").null() : w.field("fault", c.fault);
  std::vector<std::string> marks;
  if (c.latest) marks.emplace_back("latest");
  if (c.best) marks.emplace_back("best");
  if (c.stale) marks.emplace_back("stale");
  w.texts("marks", marks).field("bytes", c.bytes).field("files", c.files);
  if (c.condition != Condition::kNotCommitted) w.field("step", c.state.step);
  if (!c.read) {
    w.end_object();
    return;
  }
  w.field("samples", c.state.samples).field("saved_at", c.saved_at);
  write_ranks(w, c.state.world);
  w.field("engine_version", c.state.engine_version);
  w.field("parameters", c.parameters).field("states", c.states);
  w.field("states_left_out", c.state.states_left_out);
  w.field("tensor_bytes", c.tensor_bytes);
  const BestValue best = best_value(c.state);
  w.key("best");
  if (best.metric.empty())
    w.null();
  else
    w.object()
        .field("metric", best.metric)
        .field("value", best.value)
        .field("step", best.step)
        .end_object();
  w.end_object();
}

void write_tensor(JsonWriter& w, const TensorRecord& t) {
  w.object().field("name", t.name).field("kind", kind_of(t)).field("dtype", dtype_name(t.dtype));
  write_numbers(w, "shape", t.shape);
  w.field("bytes", tensor_bytes(t)).key("slices").array();
  for (const SliceRecord& s : t.slices) {
    w.object().field("file", s.file).field("key", s.key);
    write_numbers(w, "offset", s.offset);
    write_numbers(w, "extent", s.extent);
    w.field("xxh3_128", s.hash.hex()).end_object();
  }
  w.end_array().end_object();
}

void write_changes(JsonWriter& w, const char* key, const std::vector<ChangedValue>& changes) {
  w.key(key).array();
  for (const ChangedValue& c : changes) {
    w.object().field("key", c.key);
    c.a.empty() ? w.key("a").null() : w.field("a", c.a);
    c.b.empty() ? w.key("b").null() : w.field("b", c.b);
    w.end_object();
  }
  w.end_array();
}

void write_records(JsonWriter& w, const char* key, const std::vector<const TensorRecord*>& all) {
  w.key(key).array();
  for (const TensorRecord* t : all) {
    w.object().field("name", t->name).field("kind", kind_of(*t));
    w.field("dtype", dtype_name(t->dtype));
    write_numbers(w, "shape", t->shape);
    w.end_object();
  }
  w.end_array();
}

std::vector<int64_t> index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) at[d] = flat % shape[d];
  return at;
}

void write_changed(JsonWriter& w, const ChangedTensor& t) {
  w.object().field("name", t.a->name).field("kind", kind_of(*t.a)).key("dtype").array();
  w.value(dtype_name(t.a->dtype)).value(dtype_name(t.b->dtype)).end_array().key("shape").array();
  for (const TensorRecord* one : {t.a, t.b}) {
    w.array();
    for (const int64_t extent : one->shape) w.value(extent);
    w.end_array();
  }
  w.end_array();
  if (!t.compared) {
    w.key("elements").null().end_object();
    return;
  }
  w.field("elements", t.elements).field("different", t.different);
  w.field("not_finite", t.not_finite).field("max_abs", t.max_abs).field("max_rel", t.max_rel);
  if (t.at >= 0)
    write_numbers(w, "at", index_of(t.at, t.a->shape));
  else
    w.key("at").null();
  w.end_object();
}

using Values = std::map<std::string, std::string>;

void flatten(const config::Node& node, const std::string& path, Values& to) {
  const bool tables = node.is(config::NodeKind::kArray) && !node.items().empty() &&
                      node.items()[0].is(config::NodeKind::kTable);
  if (node.is(config::NodeKind::kTable))
    for (const config::Node::Entry& e : node.entries())
      flatten(e.value, path.empty() ? e.key : path + "." + e.key, to);
  else if (tables)
    for (size_t i = 0; i < node.items().size(); ++i)
      flatten(node.items()[i], path + "[" + std::to_string(i) + "]", to);
  else
    to[path] = node.toml();
}

// Empty where a checkpoint has no run.toml, or one that is not TOML. Errors: of reading it.
Values experiment_of(FileSystem& files, const Checkpoint& c) {
  const std::string path = join_path(c.path(), kExperimentName);
  Values all;
  if (!files.is_file(path)) return all;
  const std::string text = files.read_all(path, config::kMaxFileBytes);
  config::Problems problems;
  with_memory("checkpoint", "parse", path, text.size(),
              [&] { flatten(config::Document::parse(text, path, problems).root, "", all); });
  return all;
}

// "losses[0].weight" of "loss.weight", which an experiment with one loss may write.
std::string of_list(const std::string& key) {
  constexpr std::string_view kOne = "loss.", kFirst = "losses[0].";
  const size_t at = key.starts_with(kOne) ? 0 : key.find("." + std::string(kOne));
  if (at == key.npos) return key;
  return std::string(key).replace(at + (at > 0), kOne.size(), kFirst);
}

bool tells_the_same(const ChangedValue& longer, const ChangedValue& change) {
  const std::string key = of_list(change.key);
  return longer.a == change.a && longer.b == change.b &&
         (longer.key == key || longer.key.ends_with("." + key));
}

}  // namespace

std::string survey_json(const Survey& found) {
  JsonWriter w;
  w.object().field("schema", 1).field("kind", kKinds[static_cast<size_t>(found.kind)]);
  w.key("checkpoints").array();
  for (const Surveyed& c : found.checkpoints) write_surveyed(w, c);
  return w.end_array().end_object().text();
}

std::string description_json(const std::string& path, const Manifest& manifest) {
  const RunState& s = manifest.state;
  JsonWriter w;
  w.object().field("schema", 1).field("checkpoint", path);
  w.field("format_version", manifest.format_version).field("step", s.step);
  w.field("samples", s.samples);
  s.saved_at > 0 ? w.field("saved_at", s.saved_at) : w.key("saved_at").null();
  write_ranks(w, s.world);
  w.field("seed", s.seed).field("engine_version", s.engine_version);
  w.field("states_left_out", s.states_left_out).key("settings").object();
  for (const auto& [key, value] : s.settings) w.field(key, value);
  w.end_object().key("bases").array();
  for (const BaseRecord& base : s.bases)
    w.object()
        .field("model", base.model)
        .field("path", base.path)
        .field("xxh3_128", base.hash.hex())
        .end_object();
  w.end_array().key("files").array();
  for (const FileRecord& f : manifest.files)
    w.object()
        .field("name", f.name)
        .field("bytes", f.size)
        .field("xxh3_128", f.hash.hex())
        .end_object();
  w.end_array().key("tensors").array();
  for (const TensorRecord& t : manifest.tensors) write_tensor(w, t);
  return w.end_array().end_object().text();
}

std::string verification_json(const std::string& path, const Verification& done) {
  JsonWriter w;
  w.object().field("schema", 1).field("checkpoint", path);
  w.field("intact", done.faults.empty()).field("unreadable", done.unreadable);
  w.field("states_left_out", done.states_left_out).texts("faults", done.faults);
  w.field("files", done.files).field("tensors", done.tensors).field("bytes", done.bytes);
  return w.end_object().text();
}

std::string comparison_json(const Checkpoint& a, const Checkpoint& b, const Comparison& c) {
  JsonWriter w;
  w.object().field("schema", 1).field("a", a.path()).field("b", b.path());
  w.field("equal", c.equal());
  write_changes(w, "state", c.state);
  write_changes(w, "settings", c.settings);
  write_records(w, "only_a", c.only_a);
  write_records(w, "only_b", c.only_b);
  w.key("changed").array();
  for (const ChangedTensor& t : c.changed) write_changed(w, t);
  w.end_array().field("tensors", c.tensors).field("elements", c.elements);
  return w.end_object().text();
}

std::string rewritten_json(const Checkpoint& from, const Rewritten& done) {
  JsonWriter w;
  w.object().field("schema", 1).field("checkpoint", from.path());
  w.field("step", from.state().step).texts("files", done.files);
  w.field("tensors", done.tensors).field("bytes", done.bytes);
  return w.end_object().text();
}

void add_experiments(FileSystem& files, const Checkpoint& a, const Checkpoint& b, Comparison& c) {
  const Values of_a = experiment_of(files, a), of_b = experiment_of(files, b);
  if (of_a.empty() || of_b.empty()) return;
  std::vector<ChangedValue> all;
  changed_values(of_a, of_b, all);
  std::erase_if(c.settings, [&](const ChangedValue& setting) {
    return std::any_of(all.begin(), all.end(),
                       [&](const ChangedValue& one) { return tells_the_same(setting, one); });
  });
  // The topology is part of the state.
  std::erase_if(all, [&](const ChangedValue& one) {
    return std::any_of(c.state.begin(), c.state.end(),
                       [&](const ChangedValue& known) { return known.key == one.key; });
  });
  c.settings.insert(c.settings.begin(), all.begin(), all.end());
}

}  // namespace plait::capi
