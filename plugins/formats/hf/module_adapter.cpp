#include "plugins/formats/hf/module_adapter.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plugins/formats/hf/adapter_config.hpp"
#include "plugins/formats/hf/module_types.hpp"
#include "plugins/formats/hf/modules.hpp"
#include "plugins/formats/hf/own_parameters.hpp"
#include "plugins/formats/hf/places.hpp"
#include "plugins/formats/hf/toml_text.hpp"

namespace plait::hf {
namespace {

using support::JsonPlace;
using Shape = std::vector<int64_t>;

enum class Method { kLora, kDora, kIa3, kVera, kAdalora };

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
        out_(out),
        type_(module_type_of(config)),
        own_(folder, config, base, base_name_, type_.biases, out) {
    const std::string_view type = type_.peft_type;
    method_ = type == "IA3"                    ? Method::kIa3
              : type == "VERA"                 ? Method::kVera
              : type == "ADALORA"              ? Method::kAdalora
              : config["use_dora"].flag(false) ? Method::kDora
                                               : Method::kLora;
    name_ = name.empty() ? plait_type() : name;
    check_config(folder, config, type_.keys, out);
    check_start();
    check_dropout();
  }

  void read() {
    out_.weights(kAdapterWeights);
    read_header();
    if (method_ == Method::kVera) check_projections();
    for (const auto& [path, found] : found_) {
      if (method_ == Method::kIa3)
        read_ia3(path, found);
      else if (method_ == Method::kVera)
        read_vera(path, found);
      else if (method_ == Method::kAdalora)
        read_adalora(path, found);
      else
        read_lora(path, found);
    }
    if (groups_.empty()) bad("it has no tensors of an adapter");
  }

  // As patterns of `train`.
  std::vector<std::string> trained() const { return patterns(own_.trained()); }
  std::string entries() const {
    if (lora()) return lora_entry();
    if (method_ == Method::kVera) return vera_entry();
    if (method_ == Method::kAdalora) return adalora_entries();
    std::string text;
    for (size_t i = 0; i < groups_.size(); ++i)
      text += entry_head("ia3", entry_name(i), patterns(groups_[i].parameters)) +
              "on = " + toml_string(groups_[i].entry.on) + "\n" + kLoad;
    return text;
  }

 private:
  [[noreturn]] void bad(const std::string& what, uint32_t code = PLAIT_ERR_DATA) const {
    bad_weights(folder_, what, code);
  }
  bool lora() const { return method_ == Method::kLora || method_ == Method::kDora; }
  bool dora() const { return method_ == Method::kDora; }
  const char* plait_type() const {
    constexpr const char* kNames[] = {"lora", "dora", "ia3", "vera", "adalora"};
    return kNames[static_cast<int>(method_)];
  }
  const char* dropout_key() const {
    return method_ == Method::kVera ? "vera_dropout" : "lora_dropout";
  }
  std::string dropout() const {
    const JsonPlace p = config_[dropout_key()];
    return !p.null() && p.number() > 0 ? "dropout = " + digits(p.number()) + "\n" : "";
  }
  static constexpr char kLoad[] = "load = \"weights.map.json\"\n";
  static std::string listed(const std::vector<std::string>& texts) {
    return toml_strings(texts) + "\n";
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
    std::string text = entry_head(plait_type(), name_, patterns(all)) +
                       "rank = " + std::to_string(most->entry.rank) +
                       "\nalpha = " + digits(most->entry.alpha) + "\n";
    if (!ranks.empty()) text += "rank_pattern = " + listed(ranks);
    if (!alphas.empty()) text += "alpha_pattern = " + listed(alphas);
    if (config_["use_rslora"].flag(false)) text += "rslora = true\n";
    return text + dropout() + kLoad;
  }

  std::string vera_entry() const {
    return entry_head("vera", name_, patterns(groups_[0].parameters)) +
           "rank = " + std::to_string(groups_[0].entry.rank) + "\n" + dropout() + kLoad;
  }

  // One entry for each rank that is left: entries of one name are one adapter. Where ranks
  // have gone already, the others stay.
  std::string adalora_entries() const {
    const bool chosen = !config_["rank_pattern"].null();
    const auto whole = [&](const char* key, int64_t otherwise, int64_t least = 0) {
      const JsonPlace at = config_[key];
      return std::to_string(at.null() ? otherwise : at.whole(least, INT32_MAX));
    };
    const auto beta = [&](const char* key) {
      const JsonPlace at = config_[key];
      if (at.null()) return digits(0.85);
      if (!(at.number() > 0 && at.number() < 1))
        at.bad("found " + at.value().dump() + ", expected more than 0 and less than 1");
      return digits(at.number());
    };
    const JsonPlace weight = config_["orth_reg_weight"];
    if (!weight.null() && !(weight.number() >= 0))
      weight.bad("found " + weight.value().dump() + ", expected at least 0");
    const std::string orth = digits(weight.null() ? 0.5 : weight.number());
    std::string text;
    for (const Group& group : groups_) {
      const JsonPlace target = config_["target_r"];
      const int64_t most = target.null() ? 8 : target.whole(1, INT32_MAX);
      text += entry_head("adalora", name_, patterns(group.parameters)) +
              "init_rank = " + std::to_string(group.entry.rank) + "\ntarget_rank = " +
              std::to_string(chosen ? group.entry.rank : std::min(most, group.entry.rank)) +
              "\nalpha = " + digits(group.entry.alpha) + "\n" + dropout() +
              "tinit = " + (chosen ? "0" : whole("tinit", 0)) +
              "\ntfinal = " + (chosen ? "0" : whole("tfinal", 0)) +
              "\ndelta_t = " + whole("deltaT", 1, 1) + "\nbeta1 = " + beta("beta1") +
              "\nbeta2 = " + beta("beta2") + "\north_reg_weight = " + orth + "\n" + kLoad;
    }
    return text;
  }

  std::string entry_name(size_t i) const { return i == 0 ? name_ : name_ + std::to_string(i + 1); }

  void check_dropout() const {
    if (const JsonPlace p = config_[dropout_key()];
        !p.null() && (p.number() < 0 || p.number() >= 1))
      p.bad("found " + p.value().dump() + ", expected at least 0 and less than 1");
  }

  // Some initial values take a part out of the base's weights.
  void check_start() const {
    const JsonPlace start = config_["init_lora_weights"];
    if (start.null() || start.value().is_boolean()) return;
    const std::string& text = start.text();
    if (text != "gaussian" && text != "orthogonal" && text != "eva")
      start.bad("found '" + kit::printable(text) +
                    "', which takes a part out of the weights of the base; save the adapter with "
                    "save_pretrained(..., path_initial_model_for_weight_conversion=START), START "
                    "the folder of the adapter before training, which makes it plain LoRA",
                PLAIT_ERR_UNIMPLEMENTED);
  }

  void read_header() {
    for (const kit::SafetensorsEntry& entry : adapter_tensors(folder_)) {
      if (std::find(type_.tensors.begin(), type_.tensors.end(), entry.name) !=
          type_.tensors.end()) {
        shared_[entry.name] = entry.shape;
        continue;
      }
      if (is_copy_of_base(entry) || own_.take(entry)) continue;
      const auto end =
          std::find_if(type_.ends.begin(), type_.ends.end(),
                       [&](std::string_view one) { return entry.name.ends_with(one); });
      if (end == type_.ends.end() || !entry.name.starts_with(kAdapterPrefix))
        bad("the tensor '" + kit::printable(entry.name) + "' is no part of " + type_.words +
                ", expected names as base_model.model.MODULE" + std::string(type_.ends[0]),
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
    // Newer versions of the library call what has a router "mlp" in every family.
    if (const size_t mlp = path.find(".mlp."); at == modules_.end() && mlp != std::string::npos)
      at = modules_.find(std::string(path).replace(mlp + 1, 3, base_.family->experts.module));
    // Newer versions of the library have all experts of a block in one module.
    if (at == modules_.end() ? base_.experts > 0 && path.find(".experts") != std::string::npos
                             : !at->second.slice_of.empty())
      bad("it changes experts, '" + kit::printable(path) +
              "', and adapters of experts are not read; merge it in the library "
              "(merge_and_unload) and import the model that it saves",
          PLAIT_ERR_UNIMPLEMENTED);
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
    if (dora() && module.table)
      bad("it changes the table '" + kit::printable(path) + "' with DoRA, which changes products",
          PLAIT_ERR_UNIMPLEMENTED);
    if (dora()) check(path, kMagnitude, tensor(path, found, kMagnitude), {module.out});
    if (found.tensors.size() != (dora() ? 3 : 2))
      bad("it has more tensors for '" + kit::printable(path) + "' than " +
          (dora() ? "DoRA" : "LoRA") + " has: of products and of tables, or magnitudes without " +
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
      if (dora())
        out_.place(own + ".magnitude", base + kMagnitude, false, all ? 0 : part.row,
                   all ? 0 : part.n_rows);
    }
  }

  // b·diag(e)·a, times alpha / (init_r + 1e-5), also where ranks have gone; here the last rank of
  // an entry is that of its parameters.
  void read_adalora(const std::string& path, const Found& found) {
    const Module& module = module_of(path);
    if (module.table)
      bad("it changes the table '" + kit::printable(path) +
              "' with AdaLoRA, which changes products",
          PLAIT_ERR_UNIMPLEMENTED);
    const Shape& a = tensor(path, found, ".lora_A");
    const int64_t rank = a.size() == 2 ? a[0] : -1;
    if (rank < 0) bad("the tensor '" + kit::printable(path + ".lora_A") + "' is " + text_of(a));
    check(path, ".lora_A", a, {rank, module.in});
    check(path, ".lora_B", tensor(path, found, ".lora_B"), {module.out, rank});
    check(path, ".lora_E", tensor(path, found, ".lora_E"), {rank, 1});
    const std::string base = kAdapterPrefix + path;
    if (found.tensors.contains(".ranknum")) out_.ignore(base + ".ranknum");
    const JsonPlace init_r = config_["init_r"];
    const int64_t at_first = init_r.null() ? 12 : init_r.whole(1, INT32_MAX);
    check_adalora_rank(path, rank, at_first);
    if (rank == 0) {
      for (const char* end : {".lora_A", ".lora_B", ".lora_E"}) out_.ignore(base + end);
      return;
    }
    const JsonPlace alpha = config_["lora_alpha"];
    const double given = alpha.null() ? 8 : alpha.number();
    const double scale =
        (given > 0 ? given : static_cast<double>(rank)) / (static_cast<double>(at_first) + 1e-5);
    const std::string name = take(
        {rank, rank == at_first && given > 0 ? given : scale * (static_cast<double>(rank) + 1e-5),
         ""},
        module);
    for (const ModulePart& part : module.parts) {
      const std::string own = part.parameter + "." + name, e = own + ".e", of_e = base + ".lora_E";
      const bool all = module.parts.size() == 1;
      out_.place(own + ".a", base + ".lora_A");
      out_.place({e.c_str(), of_e.c_str(), 0, 0, PLAIT_PLACE_COLUMN, 0});
      out_.place(own + ".b", base + ".lora_B", false, all ? 0 : part.row, all ? 0 : part.n_rows);
    }
  }
  // rank_pattern says of each of the first ranks whether it is left.
  void check_adalora_rank(const std::string& path, int64_t rank, int64_t at_first) const {
    const JsonPlace patterns = config_["rank_pattern"];
    int64_t expected = at_first;
    if (!patterns.null()) patterns.object();
    if (const JsonPlace left = patterns.null() ? patterns : patterns[path + ".lora_E"];
        !left.null()) {
      expected = 0;
      for (size_t i = 0; i < left.size(); ++i) expected += left[i].flag(false);
      if (static_cast<int64_t>(left.size()) != at_first)
        left.bad("it has " + std::to_string(left.size()) + " values, expected init_r, " +
                 std::to_string(at_first));
    }
    if (rank != expected)
      config_[patterns.null() ? "init_r" : "rank_pattern"].bad(
          "the rank of '" + kit::printable(path) + "' is " + std::to_string(expected) + ", and " +
          kAdapterWeights + " has it with " + std::to_string(rank) +
          "; take both files from one save_pretrained()");
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

  // Of VeRA all modules share two matrices, of which each has the first columns or rows.
  void check_projections() const {
    for (const char* name : {kVeraA, kVeraB}) {
      if (const auto at = shared_.find(name); at == shared_.end())
        bad(std::string("it has no tensor '") + name +
            "', which the library then draws again, not the same on every machine; save it with "
            "save_projection = True");
      else if (at->second.size() != 2)
        bad(std::string("the tensor '") + name + "' is " + text_of(at->second));
      out_.ignore(name);
    }
    const int64_t rank = config_["r"].null() ? 256 : config_["r"].whole(1, INT32_MAX);
    if (shared_.at(kVeraA)[0] != rank || shared_.at(kVeraB)[1] != rank)
      bad(std::string("the tensors '") + kVeraA + "' and '" + kVeraB + "' are " +
          text_of(shared_.at(kVeraA)) + " and " + text_of(shared_.at(kVeraB)) +
          ", expected the rank of " + kAdapterConfig + ", " + std::to_string(rank) +
          ", as rows of the first and columns of the second");
  }

  void read_vera(const std::string& path, const Found& found) {
    const Module& module = module_of(path);
    if (module.table) bad("it changes the table '" + kit::printable(path) + "'");
    const int64_t rank = shared_.at(kVeraA)[0];
    check(path, ".vera_lambda_d", tensor(path, found, ".vera_lambda_d"), {rank});
    check(path, ".vera_lambda_b", tensor(path, found, ".vera_lambda_b"), {module.out});
    if (shared_.at(kVeraA)[1] < module.in || shared_.at(kVeraB)[0] < module.out)
      bad(std::string("the tensors '") + kVeraA + "' and '" + kVeraB + "' are " +
          text_of(shared_.at(kVeraA)) + " and " + text_of(shared_.at(kVeraB)) + ", and '" +
          kit::printable(path) + "' of the base '" + base_name_ + "' has " +
          std::to_string(module.in) + " inputs and " + std::to_string(module.out) +
          " outputs; give the folder of its own base with --option base=FOLDER");
    const std::string name = take({rank, 0, ""}, module), base = kAdapterPrefix + path;
    for (const ModulePart& part : module.parts) {
      const std::string own = part.parameter + "." + name + ".";
      const int64_t rows = module.parts.size() == 1 ? module.out : part.n_rows;
      out_.place({(own + "a").c_str(), kVeraA, 0, module.in, PLAIT_PLACE_COLUMNS, 0});
      out_.place(own + "project", kVeraB, false, part.row, rows);
      out_.place(own + "d", base + ".vera_lambda_d");
      out_.place(own + "b", base + ".vera_lambda_b", false, part.row, rows);
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
    return method_ != Method::kIa3 ? name_ : entry_name(static_cast<size_t>(at - groups_.begin()));
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
  const ModuleType& type_;
  OwnParametersReader own_;
  Method method_ = Method::kLora;
  std::string name_;
  std::map<std::string, Shape> shared_;  // tensors of no module
  std::map<std::string, Found> found_;   // by path of the module
  std::set<const Module*> taken_;
  std::vector<Group> groups_;
};

}  // namespace

std::string read_modules(const std::string& folder, const JsonPlace& config, const Model& base,
                         const std::string& base_name, const std::string& name,
                         const FormatOutput& out, std::vector<std::string>& train) {
  AdapterReader reader(folder, config, base, base_name, name, out);
  reader.read();
  train = reader.trained();
  return reader.entries();
}

}  // namespace plait::hf
