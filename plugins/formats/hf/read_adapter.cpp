#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "kit/json_cursor.hpp"
#include "plugins/formats/hf/modules.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/formats/hf/places.hpp"
#include "plugins/formats/hf/prompt_adapter.hpp"
#include "plugins/formats/hf/read_config.hpp"
#include "plugins/formats/hf/toml_text.hpp"
#include "plugins/support/description_file.hpp"
#include "plugins/support/json_file.hpp"
#include "plugins/support/tensor_file.hpp"

namespace plait::hf {
namespace {

namespace fs = std::filesystem;
using support::JsonPlace;
using support::SourceFile;
using Shape = std::vector<int64_t>;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}
std::string text_of(const Shape& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + ")";
}

// Keys that change nothing of what a trained adapter computes.
constexpr const char* kOfNoEffect[] = {"peft_type",
                                       "task_type",
                                       "base_model_name_or_path",
                                       "base_model_class",
                                       "parent_library",
                                       "revision",
                                       "inference_mode",
                                       "auto_mapping",
                                       "peft_version",
                                       "target_modules",
                                       "exclude_modules",
                                       "feedforward_modules",
                                       "r",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "fan_in_fan_out",
                                       "use_rslora",
                                       "use_dora",
                                       "rank_pattern",
                                       "alpha_pattern",
                                       "init_lora_weights",
                                       "init_ia3_weights",
                                       "layers_to_transform",
                                       "layers_pattern",
                                       "megatron_config",
                                       "megatron_core",
                                       "loftq_config",
                                       "eva_config",
                                       "corda_config",
                                       "lora_ga_config",
                                       "runtime_config",
                                       "qalora_group_size",
                                       "ensure_weight_tying"};
// Keys that do, unless they are absent, false or empty.
constexpr const char* kComputed[] = {
    "modules_to_save", "trainable_token_indices", "target_parameters", "use_qalora",
    "use_bdlora",      "alora_invocation_tokens", "layer_replication", "arrow_config",
    "lora_bias",       "velora_config",           "monteclora_config", "kasa_config"};

constexpr char kMagnitude[] = ".lora_magnitude_vector";

// The tensors of one module.
struct Found {
  std::map<std::string, Shape, std::less<>> tensors;  // by their ends: ".lora_A.weight"
};

// Options of a part of an adapter.
struct Entry {
  int64_t rank = 0;
  double alpha = 0;
  std::string on;
  bool operator==(const Entry&) const = default;
};
// The parameters of the base that have them.
struct Group {
  Entry entry;
  std::vector<std::string> parameters;
};

class AdapterReader {
 public:
  AdapterReader(const std::string& folder, const JsonPlace& config, const Model& base,
                std::string base_name, const std::string& name, const FormatOutput& out)
      : folder_(folder),
        config_(config),
        base_name_(std::move(base_name)),
        base_(base),
        modules_(modules_of(base)),
        out_(out) {
    lora_ = config["peft_type"].text() == "LORA";
    dora_ = lora_ && config["use_dora"].flag(false);
    name_ = !name.empty() ? name : dora_ ? "dora" : lora_ ? "lora" : "ia3";
    check_config();
  }

  void read() {
    out_.weights(kAdapterWeights);
    read_header();
    for (const auto& [path, found] : found_) lora_ ? read_lora(path, found) : read_ia3(path, found);
    if (groups_.empty()) bad("it has no tensors of an adapter");
  }

  std::string entries() const {
    if (lora_) return lora_entry();
    std::string text;
    for (size_t i = 0; i < groups_.size(); ++i)
      text += entry_head("ia3", entry_name(i), patterns(groups_[i].parameters)) +
              "on = " + toml_string(groups_[i].entry.on) + "\n" + kLoad;
    return text;
  }

 private:
  [[noreturn]] void bad(const std::string& what, uint32_t code = PLAIT_ERR_DATA) const {
    fail(code, "[format.peft] folder '" + folder_ + "': " + kAdapterWeights + ": " + what);
  }
  static constexpr char kLoad[] = "load = \"weights.map.json\"\n";
  static std::string listed(const std::vector<std::string>& texts) {
    std::string list;
    for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + toml_string(text);
    return "[" + list + "]\n";
  }
  static std::string entry_head(const std::string& type, const std::string& name,
                                const std::vector<std::string>& match) {
    return "\n[[model.adapters]]\ntype = " + toml_string(type) + "\nname = " + toml_string(name) +
           "\nmatch = " + listed(match);
  }

  // One entry, with the rank and alpha of most parameters, and patterns of those with others.
  std::string lora_entry() const {
    const auto most = std::max_element(
        groups_.begin(), groups_.end(),
        [](const Group& a, const Group& b) { return a.parameters.size() < b.parameters.size(); });
    std::vector<std::string> all, ranks, alphas;
    for (const Group& group : groups_) {
      all.insert(all.end(), group.parameters.begin(), group.parameters.end());
      for (const std::string& pattern : patterns(group.parameters)) {
        if (group.entry.rank != most->entry.rank)
          ranks.push_back(pattern + "=" + std::to_string(group.entry.rank));
        if (group.entry.alpha != most->entry.alpha)
          alphas.push_back(pattern + "=" + digits(group.entry.alpha));
      }
    }
    std::string text = entry_head(dora_ ? "dora" : "lora", name_, patterns(all)) +
                       "rank = " + std::to_string(most->entry.rank) +
                       "\nalpha = " + digits(most->entry.alpha) + "\n";
    if (!ranks.empty()) text += "rank_pattern = " + listed(ranks);
    if (!alphas.empty()) text += "alpha_pattern = " + listed(alphas);
    if (config_["use_rslora"].flag(false)) text += "rslora = true\n";
    if (const JsonPlace p = config_["lora_dropout"]; !p.null() && p.number() > 0)
      text += "dropout = " + digits(p.number()) + "\n";
    return text + kLoad;
  }

  std::string entry_name(size_t i) const { return i == 0 ? name_ : name_ + std::to_string(i + 1); }

  void check_config() {
    for (const char* key : kComputed) {
      const nlohmann::json& value = config_[key].value();
      const bool off = value.is_null() || value == false ||
                       ((value.is_array() || value.is_object()) && value.empty());
      if (!off)
        config_[key].bad("this is not computed by any adapter here; expected none or false",
                         PLAIT_ERR_UNIMPLEMENTED);
    }
    if (const JsonPlace bias = config_["bias"]; bias.text("none") != "none")
      bias.bad("found '" + kit::printable(bias.text()) +
                   "': biases of the base were trained as well, expected none",
               PLAIT_ERR_UNIMPLEMENTED);
    check_start();
    if (const JsonPlace p = config_["lora_dropout"];
        !p.null() && (p.number() < 0 || p.number() >= 1))
      p.bad("found " + p.value().dump() + ", expected at least 0 and less than 1");
    std::string unknown;
    for (const auto& [key, value] : config_.object().items()) {
      const auto is = [&key = key](const char* one) { return key == one; };
      if (std::none_of(std::begin(kOfNoEffect), std::end(kOfNoEffect), is) &&
          std::none_of(std::begin(kComputed), std::end(kComputed), is) && key != "bias")
        unknown += (unknown.empty() ? "'" : ", '") + kit::printable(key) + "'";
    }
    if (!unknown.empty())
      out_.warn("[format.peft] " + std::string(kAdapterConfig) + " of '" + folder_ +
                "' has keys that are not known and have no effect here: " + unknown);
  }

  // Some initial values take a part out of the base's weights.
  void check_start() const {
    const JsonPlace start = config_["init_lora_weights"];
    if (start.null() || start.value().is_boolean()) return;
    const std::string& text = start.text();
    if (text != "gaussian" && text != "orthogonal" && text != "eva")
      start.bad("found '" + kit::printable(text) +
                    "', which changes the weights of the base; convert the adapter to LoRA in the "
                    "library first",
                PLAIT_ERR_UNIMPLEMENTED);
  }

  void read_header() {
    const fs::path path = fs::path(folder_) / kAdapterWeights;
    if (!is_file(path))
      fail(PLAIT_ERR_NOT_FOUND,
           "[format.peft] folder '" + folder_ + "': it has no " + kAdapterWeights +
               (is_file(fs::path(folder_) / "adapter_model.bin")
                    ? "; its weights are pickled: load it with the library and save it again, "
                      "which writes safetensors"
                    : ""));
    const support::TensorFile file({"format.peft", "folder", path.string()});
    constexpr std::string_view kLora[] = {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A",
                                          ".lora_embedding_B", kMagnitude},
                               kIa3[] = {".ia3_l"};
    const std::span<const std::string_view> ends =
        lora_ ? std::span<const std::string_view>(kLora) : std::span<const std::string_view>(kIa3);
    for (const kit::SafetensorsEntry& entry : file.entries()) {
      if (is_copy_of_base(entry)) continue;
      const auto end = std::find_if(ends.begin(), ends.end(), [&](std::string_view one) {
        return entry.name.ends_with(one);
      });
      if (end == ends.end() || !entry.name.starts_with(kAdapterPrefix))
        bad("the tensor '" + kit::printable(entry.name) + "' is no part of " +
                (lora_ ? "LoRA" : "IA3") + ", expected names as base_model.model.MODULE" +
                std::string(ends[0]),
            PLAIT_ERR_UNIMPLEMENTED);
      constexpr size_t kFront = sizeof kAdapterPrefix - 1;
      if (entry.name.size() <= kFront + end->size())
        bad("the tensor '" + kit::printable(entry.name) + "' names no module");
      found_[entry.name.substr(kFront, entry.name.size() - kFront - end->size())]
          .tensors[std::string(*end)] = entry.shape;
    }
  }

  // Beside a change of the embedding or the head the library writes their own weight.
  bool is_copy_of_base(const kit::SafetensorsEntry& entry) const {
    constexpr std::string_view kEnd = ".base_layer.weight";
    if (!entry.name.ends_with(kEnd) || !entry.name.starts_with(kAdapterPrefix)) return false;
    constexpr size_t kFront = sizeof kAdapterPrefix - 1;
    if (entry.name.size() <= kFront + kEnd.size()) return false;
    const std::string path = entry.name.substr(kFront, entry.name.size() - kFront - kEnd.size());
    const Module& module = module_of(path);
    check(path, kEnd.data(), entry.shape, {module.out, module.in});
    out_.ignore(entry.name);
    out_.warn("[format.peft] " + std::string(kAdapterWeights) + " of '" + folder_ +
              "' holds a copy of the base's weight of '" + kit::printable(path) +
              "', which is not read: that of the base counts");
    return true;
  }

  // The module of the base; the files of a model without a head lack the first part of its path.
  const Module& module_of(const std::string& path) const {
    auto at = modules_.find(path);
    if (at == modules_.end()) at = modules_.find(usual_prefix(*base_.family) + path);
    if (at == modules_.end())
      bad("it changes the module '" + kit::printable(path) + "', which the base '" + base_name_ +
          "' (" + base_.family->type +
          ") does not have; give the folder of its own base with --option base=FOLDER");
    return at->second;
  }
  const Shape& tensor(const std::string& path, const Found& found, const char* end) const {
    const auto at = found.tensors.find(end);
    if (at == found.tensors.end())
      bad("it has no tensor '" + kit::printable(kAdapterPrefix + path + end) +
          "' beside the other one of its module");
    return at->second;
  }
  void check(const std::string& path, const char* end, const Shape& shape,
             const Shape& expected) const {
    if (shape != expected)
      bad("the tensor '" + kit::printable(kAdapterPrefix + path + end) + "' has the shape " +
          text_of(shape) + ", expected " + text_of(expected) + " for the base '" + base_name_ +
          "'; give the folder of its own base with --option base=FOLDER");
  }

  void read_lora(const std::string& path, const Found& found) {
    const Module& module = module_of(path);
    if (module.parts[0].parameter == "positions.weight")
      bad("it changes the table of positions, '" + kit::printable(path) +
              "', which no adapter changes here",
          PLAIT_ERR_UNIMPLEMENTED);
    const char* first = module.table ? ".lora_embedding_A" : ".lora_A.weight";
    const char* second = module.table ? ".lora_embedding_B" : ".lora_B.weight";
    const Shape &a = tensor(path, found, first), &b = tensor(path, found, second);
    const int64_t rank = a.size() == 2 ? a[0] : 0;
    if (rank < 1) bad("the tensor '" + kit::printable(path + first) + "' is " + text_of(a));
    check(path, first, a, {rank, module.table ? module.out : module.in});
    check(path, second, b, {module.table ? module.in : module.out, rank});
    if (dora_ && module.table)
      bad("it changes the table '" + kit::printable(path) + "' with DoRA, which changes products",
          PLAIT_ERR_UNIMPLEMENTED);
    if (dora_) check(path, kMagnitude, tensor(path, found, kMagnitude), {module.out});
    if (found.tensors.size() != (dora_ ? 3 : 2))
      bad("it has more tensors for '" + kit::printable(path) + "' than " +
          (dora_ ? "DoRA" : "LoRA") + " has: of products and of tables, or magnitudes without " +
          "use_dora in " + kAdapterConfig);
    if (const int64_t r = rank_of(path); r != rank)
      config_["r"].bad("the rank of '" + kit::printable(path) + "' is " + std::to_string(r) +
                       ", and " + kAdapterWeights + " has it with " + std::to_string(rank));
    const std::string name = take({rank, alpha_of(path), ""}, module);
    const std::string base = kAdapterPrefix + path;
    for (const ModulePart& part : module.parts) {
      const std::string own = part.parameter + "." + name;
      out_.place(own + ".a", base + first, module.table);
      const bool all = module.parts.size() == 1;
      out_.place(own + ".b", base + second, false, all ? 0 : part.row, all ? 0 : part.n_rows);
      if (dora_)
        out_.place(own + ".magnitude", base + kMagnitude, false, all ? 0 : part.row,
                   all ? 0 : part.n_rows);
    }
  }

  void read_ia3(const std::string& path, const Found& found) {
    const Module& module = module_of(path);
    const Shape& l = tensor(path, found, ".ia3_l");
    if (module.table) bad("it changes the table '" + kit::printable(path) + "'");
    const bool input = l.size() == 2 && l[1] != 1;
    check(path, ".ia3_l", l, input ? Shape{1, module.in} : Shape{module.out, 1});
    const std::string name = take({0, 0, input ? "input" : "output"}, module);
    for (const ModulePart& part : module.parts) {
      const std::string own = part.parameter + "." + name + ".factor",
                        tensor = kAdapterPrefix + path + ".ia3_l";
      out_.place({own.c_str(), tensor.c_str(), input ? 0 : part.row,
                  input ? module.in : part.n_rows,
                  PLAIT_PLACE_COLUMN | (input ? PLAIT_PLACE_TRANSPOSED : 0u), 0});
    }
  }

  // The name of the entry with these options; the module's parameters are added to those that it
  // matches.
  std::string take(const Entry& entry, const Module& module) {
    if (!taken_.insert(&module).second)
      bad("it changes the module of '" + kit::printable(module.parts[0].parameter) +
          "' twice, by a path with and without its first part");
    auto at = std::find_if(groups_.begin(), groups_.end(),
                           [&](const Group& group) { return group.entry == entry; });
    if (at == groups_.end()) at = groups_.insert(at, {entry, {}});
    for (const ModulePart& part : module.parts) at->parameters.push_back(part.parameter);
    return lora_ ? name_ : entry_name(static_cast<size_t>(at - groups_.begin()));
  }

  // A key of rank_pattern or alpha_pattern is the end of a module's path; the library allows any
  // regular expression there.
  static bool names(const JsonPlace& at, std::string key, const std::string& path) {
    const bool whole = key.starts_with('^');
    if (whole) key.erase(0, 1);
    if (key.ends_with('$')) key.pop_back();
    std::string plain;
    for (size_t i = 0; i < key.size(); ++i) {
      if (key[i] == '\\' && i + 1 < key.size() && key[i + 1] == '.')
        ++i;
      else if (!(std::isalnum(static_cast<unsigned char>(key[i])) || key[i] == '_' ||
                 key[i] == '.'))
        at.bad("a regular expression is not read here, expected the end of a module's path",
               PLAIT_ERR_UNIMPLEMENTED);
      plain += key[i];
    }
    if (path == plain) return true;
    return !whole && path.size() > plain.size() && path.ends_with(plain) &&
           path[path.size() - plain.size() - 1] == '.';
  }
  // The value of the first key that names the module.
  JsonPlace by_pattern(const char* key, const char* otherwise, const std::string& path) const {
    const JsonPlace patterns = config_[key];
    if (!patterns.null())
      for (const auto& [pattern, value] : patterns.object().items())
        if (names(patterns[pattern], pattern, path)) return patterns[pattern];
    return config_[otherwise];
  }
  int64_t rank_of(const std::string& path) const {
    const JsonPlace rank = by_pattern("rank_pattern", "r", path);
    return rank.null() ? 8 : rank.whole(1, INT32_MAX);
  }
  double alpha_of(const std::string& path) const {
    const JsonPlace alpha = by_pattern("alpha_pattern", "lora_alpha", path);
    return alpha.null() ? 8 : alpha.number();
  }

  // "h*" where all blocks have the parameter.
  std::vector<std::string> patterns(const std::vector<std::string>& parameters) const {
    std::map<std::string, std::set<std::string>> blocks;  // rest of the name -> blocks
    std::set<std::string> names;
    for (const std::string& name : parameters) {
      const size_t dot = name.find('.');
      if (name[0] == 'h' && std::isdigit(static_cast<unsigned char>(name[1])))
        blocks[name.substr(dot)].insert(name.substr(0, dot));
      else
        names.insert("model." + name);
    }
    for (const auto& [rest, of] : blocks) {
      if (of.size() == base_.blocks.size() && of.size() > 1)
        names.insert("model.h*" + rest);
      else
        for (const std::string& block : of) names.insert("model." + block + rest);
    }
    return {names.begin(), names.end()};
  }

  const std::string folder_;
  const JsonPlace config_;
  const std::string base_name_;
  const Model& base_;
  const Modules modules_;
  const FormatOutput& out_;
  bool lora_ = false, dora_ = false;  // of DoRA both
  std::string name_;
  std::map<std::string, Found> found_;  // by path of the module
  std::set<const Module*> taken_;
  std::vector<Group> groups_;
};

std::string head_of(const std::string& folder, const std::string& base_experiment) {
  return "# Adapter of the library PEFT from " + one_line(folder) +
         ",\n# and the model that it changes.\nextends = [" + toml_string(base_experiment) +
         "]\n\n[run]\nname = " + toml_string(name_of_folder(folder)) + "\n";
}

// The entries [[model.adapters]].
std::string entries_of(const std::string& folder, const JsonPlace& config, const Model& base,
                       const std::string& base_name, const std::string& name,
                       const FormatOutput& out) {
  const std::string type = config["peft_type"].text();
  if (type == "PROMPT_TUNING") return read_prompt(folder, config, base, name, out);
  if (type != "LORA" && type != "IA3") config["peft_type"].unknown("LORA, IA3, PROMPT_TUNING");
  AdapterReader reader(folder, config, base, base_name, name, out);
  reader.read();
  return reader.entries();
}

// The files beside the base's experiment, which are looked up beside the one that extends it.
std::string paths_of(const fs::path& base, const Speech& speech) {
  const auto set = [&](const std::string& table, const char* key, const std::string& name) {
    return is_file(base / name)
               ? "\n" + table + key + " = " + toml_string((base / name).string()) + "\n"
               : "";
  };
  // The type too: the import tries the tokenizer of this text alone.
  return (speech.file.empty() ? ""
                              : set("[tokenizer]\ntype = " + toml_string(speech.tokenizer) + "\n",
                                    "path", speech.file)) +
         set("[model]\n", "load", "weights.map.json");
}

// The folder that the base was imported to.
fs::path imported(const std::string& base, const JsonPlace& config) {
  if (base.empty()) {
    const std::string known = config["base_model_name_or_path"].text("");
    fail(PLAIT_ERR_CONFIG,
         "[format.peft] option 'base' is missing: the folder that `plait import hf` made of the "
         "base" +
             (known.empty() ? "" : ", '" + kit::printable(known) + "'") +
             "; add --option base=FOLDER");
  }
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(base, ignored) ? fs::path(base) : fs::path(base).parent_path();
  if (!fs::is_directory(base, ignored) && !is_file(base))
    fail(PLAIT_ERR_NOT_FOUND, "[format.peft] base '" + base +
                                  "' does not exist; name the folder that `plait import hf` made "
                                  "of the base, or the experiment in it");
  if (!is_file(folder / "config.json") || !is_file(folder / "experiment.toml"))
    fail(PLAIT_ERR_NOT_FOUND,
         "[format.peft] base '" + base + "': it has no " +
             (is_file(folder / "config.json") ? "experiment.toml" : "config.json") +
             "; make a folder of the base first: plait import hf MODEL FOLDER");
  return folder;
}

}  // namespace

void read_adapter(const std::string& folder, const std::string& base, const std::string& name,
                  const FindTokenizer& tokenizer_in, const FormatOutput& out) {
  const SourceFile file{"format.peft", "folder", (fs::path(folder) / kAdapterConfig).string()};
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    const JsonPlace config(file, json, "");
    const fs::path from = imported(base, config);
    const SourceFile base_file{"format.peft", "base", (from / "config.json").string()};
    const support::Bytes base_bytes = support::read_description(base_file);
    const nlohmann::json base_json = support::parse_json(base_file, base_bytes.span());
    const Model model = read_config(JsonPlace(base_file, base_json, ""));
    const std::string entries = entries_of(folder, config, model, from.string(), name, out);
    std::error_code ignored;
    const fs::path at = fs::canonical(from);
    const bool whole = fs::is_directory(base, ignored);
    const std::string experiment = (whole ? at / "experiment.toml" : fs::canonical(base)).string();
    out.file("experiment.toml",
             head_of(folder, experiment) + paths_of(at, tokenizer_in(at.string())) + entries);
  });
}

}  // namespace plait::hf
