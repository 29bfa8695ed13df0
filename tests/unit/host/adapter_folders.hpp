// What tests of adapters of the library PEFT share: the golden folders
// (tests/golden/golden_peft_files.py), imported beside their base.
#pragma once

#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/host/imported.hpp"

namespace host::peft {

using nlohmann::json;
using plait::test::GoldenFile;
namespace fs = std::filesystem;

inline const GoldenFile& golden() {
  static const GoldenFile file("peft_files.safetensors");
  return file;
}
inline fs::path folder() { return fs::path(golden().path()).parent_path(); }

inline std::string peft_over(const std::string& base) {
  return "type = \"peft\"\nbase = \"" + base + "\"";
}

// The base of an adapter, imported.
struct Base {
  explicit Base(const std::string& adapter) : path(scratch / "base") {
    import_folder("type = \"hf\"", folder() / "hf" / adapter.substr(0, adapter.find('_')), path);
  }
  host::TempFolder scratch;
  const std::string path;
};

inline std::string absolute_load(std::string toml, const std::string& beside) {
  const std::string relative = "load = \"weights";
  for (size_t at = 0; (at = toml.find(relative, at)) != std::string::npos; at += relative.size())
    toml.replace(at, relative.size(), "load = \"" + beside + "/weights");
  return toml;
}

// The base's experiment on the golden batch in f64, with the entries of an imported adapter and
// what it trains of the base itself.
inline std::string experiment_of(const std::string& base, const std::string& adapter) {
  const std::string own = content(fs::path(adapter) / "experiment.toml");
  std::string toml = host::on_golden_batch(base);
  if (const size_t train = own.find("\ntrain = "); train != std::string::npos) {
    const size_t model = toml.find("[model]\n");
    REQUIRE(model != std::string::npos);
    toml.insert(model + 8, own.substr(train + 1, own.find('\n', train + 1) - train));
  }
  return absolute_load(toml, base) +
         absolute_load(own.substr(own.find("[[model.adapters]]")), adapter);
}

inline std::unique_ptr<Run> run_of(const std::string& toml) {
  return std::make_unique<Run>(toml, "", PLAIT_RESUME_NEVER,
                               std::vector<const char*>{"batch.global=2", "batch.micro=2"});
}

inline double error_of_logits(const Run& run, const std::string& adapter) {
  // The library gives none of the tokens in whose places a prefix stands.
  return host::error_of_logits(run, golden().values(adapter + ".logits"),
                               adapter.ends_with("_prefix") ? 4 : 0);
}

inline void export_to(const Run& run, const std::string& toml, const std::string& format,
                      const std::string& out) {
  host::export_session(run, toml, format, PLAIT_F32, out);
}

inline json config_of(const fs::path& adapter) {
  return json::parse(content(adapter / "adapter_config.json"));
}
inline std::string weights_of(const fs::path& adapter) {
  return content(adapter / "adapter_model.safetensors");
}

// Takes out tensors of a file, or gives them other names and shapes.
inline void edit_header(const fs::path& adapter, const std::function<void(json&)>& edit) {
  const std::string file = weights_of(adapter);
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  json header = json::parse(file.substr(sizeof size, size));
  edit(header);
  std::map<size_t, std::string> in_order;  // by where they begin
  for (const auto& [name, tensor] : header.items())
    if (tensor.contains("data_offsets")) in_order[tensor.at("data_offsets")[0]] = name;
  std::string data;
  for (const auto& [begin, name] : in_order) {
    json& at = header.at(name).at("data_offsets");
    const size_t n = at[1].get<size_t>() - begin, now = data.size();
    data += file.substr(sizeof size + size + begin, n);
    at = {now, now + n};
  }
  const std::string text = header.dump();
  const uint64_t now = text.size();
  write(adapter / "adapter_model.safetensors",
        std::string(reinterpret_cast<const char*>(&now), sizeof now) + text + data);
}

}  // namespace host::peft
