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

// The reason is a folder, and as good for every other plugin below it.
class PluginFolderError : public PluginLoadError {
 public:
  // where: what the folder is to the plugin, as "its folder". fault: "has mode 0777, expected ...".
  // fix: what to do with the folder; "" where nothing but another place helps.
  PluginFolderError(const std::string& path, const std::string& where, std::string folder,
                    std::string fault, const std::string& fix)
      : PluginLoadError(path, where + " " + fault, remedy(fix, "plugin")),
        folder_(std::move(folder)),
        fault_(std::move(fault)),
        fix_(remedy(fix, "plugins")) {}
  const std::string& folder() const { return folder_; }
  const std::string& fault() const { return fault_; }
  const std::string& fix_of_all() const { return fix_; }  // of all plugins below the folder

 private:
  static std::string remedy(const std::string& fix, const std::string& what) {
    return fix.empty() ? "move the " + what + " to a folder of yours"
                       : fix + ", or move the " + what;
  }

  std::string folder_, fault_, fix_;
};

}  // namespace plait::plugin
