#include "engine/plan/precision.hpp"

#include "engine/base/error.hpp"

namespace plait::plan {

Precision precision_of(const config::PrecisionConfig& config) {
  Precision p;
  p.tf32 = config.tf32;
  p.libraries = config.library_attention;
  if (config.frozen == "int8" || config.frozen == "nf4") p.frozen_format = config.frozen;
  p.low_states = config.states == "bf16";
  // Empty: what the file says was refused, and is told already.
  if (config.compute == "f32" || config.compute.empty()) return p;
  if (config.compute == "f64") {
    p.compute = p.parameter = p.gradient = p.state = p.scalar = PLAIT_F64;
    p.low_states = false;
    return p;
  }
  p.low_residual = config.residual == "compute";
  if (config.compute == "bf16") p.low = PLAIT_BF16;
  p.low_weights = !config.master;
  p.low_frozen = p.low_weights || config.frozen != "master";
  p.split = config.split_master;
  if (config.compute == "f16") p.low = PLAIT_F16;
  if (p.is_mixed()) return p;
  fail_config("[plan] precision.compute is '" + config.compute +
              "', expected \"f32\", \"f64\", "
              "\"bf16\" or \"f16\"");
}

}  // namespace plait::plan
