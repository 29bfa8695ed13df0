// A folder of the library PEFT whose adapter_config.json and, behind a byte 0,
// adapter_model.safetensors are arbitrary: an error of its files; or an experiment that is TOML,
// and a place in the file for each parameter.
#include "tests/fuzz/format_folder.hpp"

using namespace plait;

namespace {

// GPT-2 joins q, k and v.
constexpr std::string_view kBase =
    R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4, "n_head": 2, "n_layer": 2,
        "n_positions": 8})";

// The folder of the base.
struct Base {
  Base() {
    fuzz::write(folder / "config.json", kBase);
    fuzz::write(folder / "experiment.toml", "");
  }
  test::Folder folder;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Base base;
  static const fuzz::FormatFolder folder("type = \"peft\"\nbase = \"" + base.folder.path() + "\"");
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t config_size = std::min(all.find('\0'), size);
  fuzz::write(folder / "adapter_config.json", all.substr(0, config_size));
  fuzz::write(folder / "adapter_model.safetensors",
              config_size == size ? std::string_view() : all.substr(config_size + 1));
  folder.check();
  return 0;
}
