// Datasets, looked at outside of sessions.
#include <plait/dataset.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/hash.hpp"
#include "engine/base/json.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "kit/dtype.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

constexpr const char* kRoles[] = {"?", "input", "target", "weight"};

uint64_t bytes_of(const plait_field& f) {
  uint64_t bytes = kit::dtype_bytes(f.shape.dtype);
  for (uint32_t d = 0; d < f.shape.ndim; ++d) bytes *= static_cast<uint64_t>(f.shape.dims[d]);
  return bytes;
}

const plan::Dataset& open_one(const plait_dataset* d, const char* function) {
  require(d, "dataset");
  d->engine->check_own(function, "dataset");
  return d->dataset;
}

// The texts of one kind of a field; plugins number them without gaps.
std::vector<std::string> texts_of(const plan::Dataset& d, uint32_t field, uint32_t what) {
  constexpr uint64_t kMost = 1 << 20;
  std::vector<std::string> all;
  for (uint64_t i = 0; i < kMost; ++i) {
    const char* text = d.text_of(field, what, i);
    if (!text) break;
    all.emplace_back(text);
  }
  return all;
}

void write_list(JsonWriter& w, const std::vector<std::string>& texts) {
  w.array();
  for (const std::string& text : texts) w.value(text);
  w.end_array();
}

// The names of columns, and the classes of each column that has some.
void write_texts(JsonWriter& w, const plan::Dataset& d, uint32_t field) {
  const plait_shape& shape = d.info().fields[field].shape;
  const std::vector<std::string> columns = texts_of(d, field, PLAIT_TEXT_COLUMN);
  if (!columns.empty()) write_list(w.key("columns"), columns);
  const uint64_t n = shape.ndim == 1 ? static_cast<uint64_t>(shape.dims[0]) : 1;
  std::vector<std::vector<std::string>> classes;
  for (uint64_t k = 0; k < std::min<uint64_t>(n, 65536); ++k)
    classes.push_back(texts_of(d, field, PLAIT_TEXT_CLASS + static_cast<uint32_t>(k)));
  const auto none = [](const std::vector<std::string>& of) { return of.empty(); };
  if (std::all_of(classes.begin(), classes.end(), none)) return;
  w.key("classes").array();
  for (const std::vector<std::string>& of : classes) write_list(w, of);
  w.end_array();
}

// All fields of a sample: a plugin writes all of them.
class Sample {
 public:
  explicit Sample(const plait_dataset_info& info) {
    for (uint32_t f = 0; f < info.n_fields; ++f) fields_.emplace_back(bytes_of(info.fields[f]));
    for (std::vector<char>& one : fields_) outs_.push_back(one.data());
  }
  void* const* outs() const { return outs_.data(); }
  const std::vector<char>& field(uint32_t f) const { return fields_[f]; }

 private:
  std::vector<std::vector<char>> fields_;
  std::vector<void*> outs_;
};

}  // namespace

extern "C" {

plait_error* plait_dataset_open(plait_experiment* experiment, const char* name,
                                plait_dataset** out) {
  return guard_c([&] {
    require(experiment, "experiment");
    require(name, "name");
    require(out, "out");
    experiment->engine->check_own("plait_dataset_open", "experiment");
    const config::DatasetConfig* config = experiment->experiment.dataset(name);
    if (!config) {
      std::vector<std::string> names;
      for (const config::DatasetConfig& one : experiment->experiment.datasets)
        names.push_back(one.name);
      fail_not_found("[data] the experiment has no dataset '" + std::string(name) + "'" +
                     did_you_mean(nearest(name, names)) +
                     "; there are: " + (names.empty() ? "none" : join(names)));
    }
    *out = new plait_dataset{experiment->engine, {*config, *shared_registry(experiment->engine)}};
  });
}

plait_error* plait_dataset_parse(plait_engine* engine, const char* toml, uint64_t size,
                                 const char* name, plait_dataset** out) {
  return guard_c([&] {
    require(engine, "engine");
    require(out, "out");
    const ApiCall call(*engine, "plait_dataset_parse", "engine");
    const std::shared_ptr<EngineState>& state = engine->state;
    const config::ItemConfig item = read_item(
        *state, PLAIT_KIND_DATASET, text_argument(toml, size, "toml"), name ? name : "dataset");
    *out = new plait_dataset{state, {item.type, "", &item.options, *shared_registry(state)}};
  });
}

plait_error* plait_dataset_describe(const plait_dataset* dataset, plait_text** json) {
  return guard_c([&] {
    const plan::Dataset& d = open_one(dataset, "plait_dataset_describe");
    require(json, "json");
    const plait_dataset_info& info = d.info();
    JsonWriter w;
    w.object().field("schema", 1).field("type", d.item().name).field("plugin", d.plugin());
    w.field("samples", info.n_samples).field("fingerprint", hex64(info.fingerprint));
    w.field("host_bytes", info.host_bytes).key("fields").array();
    for (uint32_t f = 0; f < info.n_fields; ++f) {
      const plait_field& field = info.fields[f];
      w.object().field("name", field.name).field("role", kRoles[field.role]);
      w.field("dtype", kit::dtype_name(field.shape.dtype)).key("shape").array();
      for (uint32_t i = 0; i < field.shape.ndim; ++i) w.value(field.shape.dims[i]);
      w.end_array().field("bytes", bytes_of(field));
      write_texts(w, d, f);
      w.end_object();
    }
    *json = new_text(w.end_array().end_object().text());
  });
}

plait_error* plait_dataset_read(const plait_dataset* dataset, int64_t index, uint32_t field,
                                void* to, uint64_t size) {
  return guard_c([&] {
    const plan::Dataset& d = open_one(dataset, "plait_dataset_read");
    require(to, "to");
    const plait_dataset_info& info = d.info();
    if (index < 0 || index >= info.n_samples)
      fail_invalid(strf("[data] sample %lld was asked for, there are %lld",
                        static_cast<long long>(index), static_cast<long long>(info.n_samples)));
    if (field >= info.n_fields)
      fail_invalid(strf("[data] field %u was asked for, there are %u", field, info.n_fields));
    const uint64_t bytes = bytes_of(info.fields[field]);
    if (size != bytes)
      fail_invalid(strf("[data] there is room for %llu bytes, field '%s' has %llu",
                        static_cast<unsigned long long>(size), info.fields[field].name,
                        static_cast<unsigned long long>(bytes)));
    const Sample sample(info);
    check_plugin({d.plugin(), "read", "dataset", d.item().name}, "",
                 [&] { return d.item().read(d.handle(), &index, 1, sample.outs()); });
    __builtin_memcpy(to, sample.field(field).data(), bytes);
  });
}

void plait_dataset_close(plait_dataset* dataset) { delete dataset; }

}  // extern "C"
