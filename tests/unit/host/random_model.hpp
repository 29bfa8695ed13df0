// Random experiments: small models of all kinds on made-up samples. The same seed gives the same text everywhere.
#pragma once

#include <cstdint>
#include <string>

namespace host {

struct RandomModel {
  std::string toml;
  int layers = 0;          // how deep: rounding adds up along it
  bool sign_like = false;  // the optimizer uses only the sign of a gradient
};

// Options are chosen so that an update is a smooth function of the gradient (eps not tiny), but for sign_like ones.
RandomModel random_model(uint64_t seed);

}  // namespace host
