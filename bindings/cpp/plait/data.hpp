// plait/data.hpp - datasets from C++20, over data.h.
//
//   plait::Dataset dataset(experiment, "train");
//   dataset.read(0, 0, to, size);
#pragma once

#include <plait/data.h>
#include <plait/plait.hpp>

namespace plait {
inline namespace embedding {

// A dataset, opened to be looked at.
class Dataset {
 public:
  // [data.NAME] of an experiment.
  Dataset(const Experiment& experiment, const std::string& name) {
    plait_dataset* d = nullptr;
    host_detail::check(plait_dataset_open(experiment.get(), name.c_str(), &d));
    dataset_ = {d, {experiment.keep()}};
  }
  // toml: its type and options, `type = "csv"`.
  Dataset(const Engine& engine, std::string_view toml, const char* name) {
    plait_dataset* d = nullptr;
    host_detail::check(plait_dataset_parse(engine.get(), toml.data(), toml.size(), name, &d));
    dataset_ = {d, {engine.keep()}};
  }
  plait_dataset* get() const { return dataset_.get(); }
  // JSON: type, samples, fields.
  std::string describe() const {
    return host_detail::text_of([&](plait_text** t) { return plait_dataset_describe(get(), t); });
  }
  // Field `field` of a sample, into (size bytes) at `to`.
  void read(int64_t index, uint32_t field, void* to, uint64_t size) const {
    host_detail::check(plait_dataset_read(get(), index, field, to, size));
  }

 private:
  host_detail::Handle<plait_dataset, plait_dataset_close> dataset_;
};

}  // namespace embedding
}  // namespace plait
