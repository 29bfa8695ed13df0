// A folder of the library PEFT whose adapter_config.json and, behind a byte 0,
// adapter_model.safetensors are arbitrary: an error of its files; or an experiment that is TOML,
// and a place in the file for each parameter.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/config/document.hpp"
#include "engine/format/format.hpp"
#include "tests/support/folder.hpp"

extern "C" const plait_plugin* plait_plugin_v1(uint32_t host_abi);

using namespace plait;

namespace {

// GPT-2 joins q, k and v.
constexpr std::string_view kBase =
    R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_head": 2, "n_layer": 2,
        "n_positions": 8})";

struct Bench {
  test::Folder base, folder;
  Log log{[](uint32_t, std::string_view) {}, PLAIT_LOG_ERROR};
  std::shared_ptr<plugin::Registry> registry =
      std::make_shared<plugin::Registry>(log, FileSystem::posix(), plugin::Extensions{});
  config::ItemConfig item;

  Bench() {
    write(base / "config.json", kBase);
    write(base / "experiment.toml", "");
    registry->load_static(*plait_plugin_v1(PLAIT_ABI_VERSION));
    config::Problems problems;
    const auto document = config::Document::parse("type = \"peft\"\nbase = \"" + base.path() + "\"",
                                                  "format", problems);
    item = config::load_one_item(PLAIT_KIND_FORMAT, document, *registry,
                                 {&FileSystem::posix(), "", ""}, problems);
    problems.raise_if_any();
  }
  static void write(const std::string& path, std::string_view content) {
    std::filesystem::remove(path);  // to overwrite a file waits for the disk
    std::ofstream(path, std::ios::binary) << content;
  }
};

void check(const format::Description& made, const std::string& folder) {
  const auto experiment = std::find_if(made.files.begin(), made.files.end(), [](const auto& f) {
    return f.name == format::kExperimentName;
  });
  config::Problems problems;
  config::Document::parse(experiment->content, "experiment.toml", problems);
  if (!problems.empty()) std::abort();
  const checkpoint::Weights weights(FileSystem::posix(), join_path(folder, made.map.weights),
                                    made.map, format::kMapName);
  for (const auto& [parameter, place] : made.map.parameters)
    if (!weights.find(parameter).entry) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Bench bench;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t config_size = std::min(all.find('\0'), size);
  Bench::write(bench.folder / "adapter_config.json", all.substr(0, config_size));
  Bench::write(bench.folder / "adapter_model.safetensors",
               config_size == size ? std::string_view() : all.substr(config_size + 1));
  try {
    check(format::Format(bench.item, bench.registry).read(bench.folder.path()),
          bench.folder.path());
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
  }
  return 0;
}
