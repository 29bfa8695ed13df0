#include "engine/plan/precision.hpp"

#include "engine/base/error.hpp"

namespace plait::plan {

Precision precision_of(const config::PrecisionConfig& config) {
  if (config.compute == "f32") return {};
  if (config.compute == "f64") return {PLAIT_F64, PLAIT_F64, PLAIT_F64, PLAIT_F64, PLAIT_F64};
  fail_config("[plan] precision.compute is '" + config.compute + "', expected \"f32\" or \"f64\"");
}

}  // namespace plait::plan
