#include "bindings/cli/data/verify.hpp"

#include "bindings/cli/context.hpp"

namespace plait::cli {

std::string verify(const std::string& path, const SetFile&) {
  throw Fault(kEnvironment, "[data] '" + path + "' cannot be verified: this build is without zlib");
}

}  // namespace plait::cli
