// Random experiments: small models of all kinds on generated samples. The same seed gives the same
// text on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace host {

struct RandomModel {
  std::string toml;
  int layers = 0;          // depth of the model: rounding errors accumulate with it
  bool sign_like = false;  // the optimizer uses only the sign of a gradient
};

// Options are chosen so that an update is a smooth function of the gradient (eps not tiny), except
// for sign_like ones.
RandomModel random_model(uint64_t seed);

}  // namespace host
