// What fuzzers of formats share: a format of a plugin that is linked in, and folders of files that
// it reads.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/document.hpp"
#include "engine/format/format.hpp"
#include "tests/support/folder.hpp"

extern "C" const plait_plugin* plait_plugin_v1(uint32_t host_abi);

namespace plait::fuzz {

inline void write(const std::string& path, std::string_view content) {
  std::filesystem::remove(path);  // to overwrite a file waits for the disk
  std::ofstream(path, std::ios::binary) << content;
}

// toml: the format and its options.
class FormatFolder {
 public:
  explicit FormatFolder(const std::string& toml) {
    registry_->load_static(*plait_plugin_v1(PLAIT_ABI_VERSION));
    config::Problems problems;
    const auto document = config::Document::parse(toml, "format", problems);
    item_ = config::load_one_item(PLAIT_KIND_FORMAT, document, *registry_,
                                  {&FileSystem::posix(), "", ""}, problems);
    problems.raise_if_any();
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  // The folder is an error of its files; or an experiment that is TOML, and a place in the files
  // for each parameter.
  void check() const try {
    const format::Description made = format::Format(item_, registry_).read(folder_.path());
    const auto experiment = std::find_if(made.files.begin(), made.files.end(), [](const auto& f) {
      return f.name == format::kExperimentName;
    });
    config::Problems problems;
    config::Document::parse(experiment->content, "experiment.toml", problems);
    if (!problems.empty()) std::abort();
    const std::string from =
        made.map.weights.empty() ? folder_.path() : join_path(folder_.path(), made.map.weights);
    const checkpoint::Weights weights(FileSystem::posix(), from, made.map, format::kMapName);
    for (const auto& [parameter, place] : made.map.parameters)
      if (!weights.find(parameter).entry) std::abort();
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
  }

 private:
  test::Folder folder_;
  Log log_{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  std::shared_ptr<plugin::Registry> registry_ =
      std::make_shared<plugin::Registry>(log_, FileSystem::posix(), plugin::Extensions{});
  config::ItemConfig item_;
};

}  // namespace plait::fuzz
