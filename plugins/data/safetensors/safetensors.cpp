// data-safetensors: tensors of a safetensors file, samples along the first axis. Fields have the
// names of the tensors; F64 becomes f32.
#include "plugins/data/column_dataset.hpp"
#include "plugins/support/tensor_file.hpp"

#include <algorithm>
#include <memory>

namespace {
using namespace plait;
using kit::SafetensorsEntry;

constexpr plait_option kSafetensors[] = {
    opt_path("path", nullptr, "safetensors file"),
    opt_texts("input", "[\"input\"]",
              "names of the input tensors, (samples, …); \"*\": all without another role"),
    opt_texts("target", "[\"target\"]", "names of the target tensors, (samples, …)"),
    opt_text("weight", "\"\"",
             "name of the tensor of sample weights, (samples), real numbers; empty: all 1"),
    data::kMemoryMib,
};

class Safetensors : public data::ColumnDataset {
 public:
  Safetensors(const Host& host, const Options& o) : Safetensors(host, o, false) {}
  Safetensors(const Host& host, const Options& o, MetadataOnly) : Safetensors(host, o, true) {}

 private:
  Safetensors(const Host& host, const Options& o, bool metadata)
      : ColumnDataset("data.safetensors", metadata),
        file_(std::make_unique<support::TensorFile>(
            support::SourceFile{"data.safetensors", "path", std::string(o.text("path"))})),
        source_(file_->source()),
        entries_(support::in_memory(source_, [this] { return file_->entries(); })) {
    note_source(source_.path);
    const std::vector<std::string> inputs = inputs_of(o);
    if (inputs.empty())
      fail(PLAIT_ERR_CONFIG,
           std::string("[data.safetensors] input is empty, expected a tensor's name; set at ") +
               o.origin("input"));
    for (const std::string& name : inputs) add_tensor(o, name, PLAIT_FIELD_INPUT, "input");
    for (const std::string& name : o.texts("target")) {
      add_tensor(o, name, PLAIT_FIELD_TARGET, "target");
      tell_of_ignored_labels(host, "tensor '" + name + "' of path '" + source_.path + "'");
    }
    if (const std::string name(o.text("weight")); !name.empty()) {
      add_tensor(o, name, PLAIT_FIELD_WEIGHT, "weight");
      check_weights(source_);
    }
    file_.reset();
    entries_.clear();
  }
  std::vector<std::string> inputs_of(const Options& o) const {
    std::vector<std::string> given = o.texts("input");
    const std::vector<std::string> targets = o.texts("target");
    if (given != std::vector<std::string>{"*"}) return given;
    std::vector<std::string> all;
    for (const SafetensorsEntry& e : entries_)
      if (e.name != o.text("weight") &&
          std::find(targets.begin(), targets.end(), e.name) == targets.end())
        all.push_back(e.name);
    return all;
  }

  [[noreturn]] void absent(const std::string& name, const char* option) const {
    std::string known;
    for (size_t i = 0; i < entries_.size() && i < 20; ++i)
      known += (i ? ", '" : "'") + entries_[i].name + "'";
    if (entries_.size() > 20) known += ", …";
    fail(PLAIT_ERR_CONFIG, source_.text() + ": " + option + " names tensor '" + name +
                               "', which does not exist; the tensors are " + known);
  }

  void add_tensor(const Options& o, const std::string& name, uint32_t role, const char* option) {
    const SafetensorsEntry* e = nullptr;
    for (const SafetensorsEntry& candidate : entries_)
      if (candidate.name == name) e = &candidate;
    if (!e) absent(name, option);
    uint32_t dtype = kit::safetensors_type(e->dtype)->dtype;
    if (dtype == 0)
      source_.bad(e->begin, "tensor '" + name + "' is " + e->dtype +
                                ", expected F32 F64 F16 BF16 I32 I64 U8 or BOOL; convert it");
    if (e->shape.empty() || e->shape.size() > PLAIT_MAX_NDIM)
      source_.bad(e->begin, "tensor '" + name + "' has " + std::to_string(e->shape.size()) +
                                " axes, expected 1 to 8, the samples first");
    const bool is_f64 = dtype == PLAIT_F64;
    if (is_f64) dtype = PLAIT_F32;
    const Shape sample({e->shape.begin() + 1, e->shape.end()}, dtype);
    if ((role != PLAIT_FIELD_WEIGHT || metadata_only()) && !fits_memory(o, e->end - e->begin)) {
      if (!steady_) steady_ = std::make_shared<const support::SteadyFile>(source_, "");
      return add_file(name.c_str(), role, sample, e->shape[0], steady_, e->begin, is_f64);
    }
    support::Bytes bytes = support::in_memory(
        source_, [&] { return file_->read(*e); }, data::kLessMemory);
    if (is_f64) data::narrow_f64(bytes, 0);
    if (role == PLAIT_FIELD_WEIGHT && (sample.ndim() != 0 || dtype != PLAIT_F32))
      source_.bad(e->begin, "tensor '" + name + "' has the weights as " +
                                Shape(e->shape, dtype).typed_text() +
                                ", expected F32 or F64 of shape (samples)");
    add(name.c_str(), role, sample, e->shape[0], std::move(bytes));
  }

  std::unique_ptr<support::TensorFile> file_;          // only while the dataset opens
  std::shared_ptr<const support::SteadyFile> steady_;  // where samples are read by position
  support::SourceFile source_;
  std::vector<SafetensorsEntry> entries_;
};
}  // namespace

PLAIT_PLUGIN("data-safetensors", "0.1.0", "Apache-2.0", "Tensors of a safetensors file") {
  static const auto safetensors = dataset<Safetensors>(
      "safetensors", "tensors of a safetensors file, samples along the first axis", kSafetensors);
  host.add(safetensors);
}
