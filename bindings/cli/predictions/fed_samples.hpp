// Samples of a dataset as feeds of a session.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <plait/data.hpp>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

class FedSamples {
 public:
  // Of [data.NAME]. predict: that entry point, as Plan::describe() has it. The experiment outlives
  // them. Errors: CliError (kUsage) when the dataset lacks a field without which the model has no
  // input.
  FedSamples(const Experiment& experiment, const std::string& name, const Json& predict);

  // As Dataset::describe().
  const Json& described() const { return described_; }
  int64_t size() const { return n_; }  // samples, as the limit of the dataset says
  // Samples [first, first + n), n 0 or more; valid until the next call.
  std::span<const plait_feed> read(int64_t first, int64_t n);
  // The texts of the classes of the first target with that many, of samples without labels as
  // [data.eval] or [data.train] has them; empty: there are none.
  std::vector<std::string> classes(int64_t n) const;

 private:
  struct Field {
    std::string name;
    uint32_t index;  // in the dataset
    uint64_t bytes;  // of a sample
    std::vector<int64_t> shape;
    plait_dl_tensor tensor;
    std::vector<char> rows;
  };
  const Experiment& experiment_;
  Dataset dataset_;
  Json described_, values_;  // values_: of the experiment
  int64_t n_ = 0;
  std::vector<Field> fields_;
  std::vector<plait_feed> feeds_;
};

}  // namespace plait::cli
