// The reason why a plugin file is not loaded, in the parts that the load report needs.
#pragma once

#include <string>
#include <utility>

#include "engine/base/error.hpp"

namespace plait::plugin {

// Text: "[plugin] 'PATH': REASON; FIX". The reason says what was found and what is supported.
class PluginLoadError : public Error {
 public:
  PluginLoadError(const std::string& path, std::string reason, std::string fix,
                  uint32_t code = PLAIT_ERR_PLUGIN)
      : Error(code, "[plugin] '" + path + "': " + reason + "; " + fix),
        reason_(std::move(reason)),
        fix_(std::move(fix)) {}
  const std::string& reason() const { return reason_; }
  const std::string& fix() const { return fix_; }

 private:
  std::string reason_, fix_;
};

}  // namespace plait::plugin
