#include "engine/plan/precision.hpp"

#include "engine/base/error.hpp"

namespace plait::plan {

Precision precision_of(const config::PrecisionConfig& config) {
  if (config.compute == "f32") return {};
  if (config.compute == "f64") return {PLAIT_F64, PLAIT_F64, PLAIT_F64, PLAIT_F64, PLAIT_F64};
  Precision mixed;
  mixed.low_residual = config.residual == "compute";
  if (config.compute == "bf16") mixed.low = PLAIT_BF16;
  mixed.low_weights = !config.master;
  mixed.split = config.split_master;
  if (config.compute == "f16") mixed.low = PLAIT_F16;
  if (mixed.is_mixed()) return mixed;
  fail_config("[plan] precision.compute is '" + config.compute +
              "', expected \"f32\", \"f64\", "
              "\"bf16\" or \"f16\"");
}

}  // namespace plait::plan
