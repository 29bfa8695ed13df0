// The numbers by which programs normalise fields column by column: from the experiment, from a
// checkpoint, or found out in [data.train].
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// Owner thread only. Every rank has the same numbers: they read the same samples in one order.
class Normalizer {
 public:
  struct Numbers {
    std::vector<double> mean, deviation;  // (C)
  };
  using ByField = std::map<std::string, Numbers>;

  Normalizer(const plan::Plan& plan, runtime::Executor& executor, Log& log)
      : plan_(plan), executor_(executor), log_(log), ready_(plan.normalizations.empty()) {}

  // Before a launch that reads samples. The first call, and the first behind take(), read
  // [data.train] once where numbers are found out and the checkpoint has not brought them. Errors:
  // as data::column_statistics.
  void ensure() {
    if (!ready_) write();
  }
  // What a checkpoint keeps: the numbers that were found out, as the key "normalization".
  void save(JsonWriter& extra);
  // Those that a checkpoint has. Errors: PLAIT_ERR_DATA where they cannot be read; PLAIT_ERR_CONFIG
  // for another number of columns than the fields of this plan have.
  ByField parse(std::string_view extra, const std::string& path) const;
  // Uses them from the next launch on, and none of a checkpoint loaded before: fields that are not
  // among them are normalised by [data.train].
  void take(ByField numbers);

 private:
  void find_out();
  void write();

  const plan::Plan& plan_;
  runtime::Executor& executor_;
  Log& log_;
  ByField found_;
  bool ready_;  // what programs read is written
};

}  // namespace plait::session
