#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "kit/by_target.hpp"
#include "plugins/formats/hf/modules.hpp"
#include "plugins/formats/hf/own_parameters.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/formats/hf/prompt_adapter.hpp"
#include "plugins/formats/hf/read_layers.hpp"
#include "plugins/formats/hf/toml_text.hpp"

namespace plait::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) {
  fail(PLAIT_ERR_UNIMPLEMENTED, "[format.peft] " + what);
}

constexpr char kTrain[] = "; biases of the model that `train` names are written beside these";
constexpr char kChoose[] = "; choose one with --option adapter=NAME";

// What an adapter adds to one parameter.
struct Change {
  const json* adapter = nullptr;
  std::string target;                         // "h0.attn.q.weight"
  std::map<std::string, const json*> shapes;  // of its own parameters, by their names: "a", "b"
  std::string name() const { return adapter->at("name"); }
  std::string own(const char* parameter) const { return target + "." + name() + "." + parameter; }
  int64_t extent(const char* parameter, size_t dim) const {
    return shapes.at(parameter)->at(dim).get<int64_t>();
  }
  const json& option(const char* key) const { return adapter->at("options").at(key); }
  int64_t rank(bool table) const { return extent("a", table ? 1 : 0); }
};

// The numbers of one module, and how many have them.
template <class T>
T most_common(const std::map<std::string, T>& values) {
  std::map<T, int> counts;
  for (const auto& [path, value] : values) ++counts[value];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

ordered_json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

class AdapterWriter {
 public:
  AdapterWriter(const json& model, const std::string& family, const std::string& adapter,
                const FormatOutput& out)
      : model_(model),
        out_(out),
        of_family_(read_layers(model, family)),
        modules_(modules_of(of_family_)) {
    choose(adapter);
    find_changes();
  }

  ordered_json write(const std::string& base) {
    out_.weights(kAdapterWeights);
    ordered_json config = ordered_json::object();
    config["peft_type"] = peft_type();
    config["task_type"] = "CAUSAL_LM";
    config["base_model_name_or_path"] = base.empty() ? ordered_json() : ordered_json(base);
    config["inference_mode"] = true;
    if (type_ == "soft_prompt" || type_ == "prefix") {
      refuse_trained();
      for (const std::string& name : own_names_) out_.ignore(name);
      type_ == "prefix" ? prefix(config) : soft_prompt(config);
      return config;
    }
    config["fan_in_fan_out"] = std::any_of(modules_.begin(), modules_.end(),
                                           [](const auto& m) { return m.second.in_out; });
    if (type_ == "ia3")
      ia3(config);
    else if (type_ == "vera")
      vera(config);
    else if (type_ == "adalora")
      adalora(config);
    else
      lora(config);
    own_parameters(config);
    return config;
  }

 private:
  // The type of the library that holds the method's adapters; nullptr: none does.
  static const char* peft_type_of(const std::string& method) {
    constexpr struct {
      const char *method, *peft_type;
    } kTypes[] = {{"lora", "LORA"},
                  {"dora", "LORA"},
                  {"pissa", "LORA"},
                  {"adalora", "ADALORA"},
                  {"ia3", "IA3"},
                  {"vera", "VERA"},
                  {"soft_prompt", "PROMPT_TUNING"},
                  {"prefix", "PREFIX_TUNING"}};
    for (const auto& one : kTypes)
      if (method == one.method) return one.peft_type;
    return nullptr;
  }
  const char* peft_type() const { return peft_type_of(type_); }

  void choose(const std::string& wanted) {
    const json& all = model_.at("adapters");
    if (all.empty())
      fail(PLAIT_ERR_CONFIG,
           "[format.peft] the model has no adapters; plait export hf writes its weights");
    std::string names;
    for (const json& adapter : all) {
      const std::string name = adapter.at("name");
      names += (names.empty() ? "" : ", ") + name;
      if (wanted.empty() || wanted == name) chosen_.push_back(&adapter);
    }
    if (chosen_.empty())
      fail(PLAIT_ERR_CONFIG,
           "[format.peft] the model has no adapter '" + wanted + "'; there are: " + names);
    type_ = chosen_[0]->at("type");
    for (const json* adapter : chosen_) {
      const std::string type = adapter->at("type"), name = adapter->at("name");
      if (!peft_type_of(type))
        refuse("adapter '" + name + "' is " + type +
               ", which is not written as a file of the library; lora, dora, pissa, adalora, ia3, "
               "vera, soft_prompt and prefix are" +
               (type == "bitfit" ? kTrain : "") + (all.size() > 1 ? kChoose : ""));
      if (type != type_ && name == chosen_[0]->at("name"))
        refuse("adapter '" + name + "' has entries of the types " + type_ + " and " + type +
               ", which do not fit into one file");
      if (type != type_)
        refuse("adapters '" + chosen_[0]->at("name").get<std::string>() + "' (" + type_ +
               ") and '" + name + "' (" + type + ") do not fit into one file" + kChoose);
    }
    check_equal_entries();
  }

  void refuse_trained() const {
    if (!model_.at("train").empty())
      refuse("the model trains parameters of its own beside " + type_ +
             " (train = " + model_.at("train").dump() +
             "), which a file of the library does not hold; export all tensors without a format, "
             "to a safetensors file");
  }
  // Biases and whole modules of the model itself that were trained; what was not is left out.
  void own_parameters(ordered_json& config) {
    std::set<std::string, std::less<>> changed;
    for (const auto& [path, changes] : changes_) changed.insert(path);
    const OwnParameters own = write_own_parameters(model_, of_family_, changed, out_);
    for (const std::string& name : own_names_)
      if (!own.written.contains(name)) out_.ignore(name);
    config["modules_to_save"] = own.saved.empty() ? ordered_json() : ordered_json(own.saved);
    const std::string only = type_ == "vera" ? "vera_only" : "lora_only";
    if (own.biases && type_ == "ia3")
      refuse("the model trains biases beside ia3 (train = " + model_.at("train").dump() +
             "), and the library's IA3 has none; let `train` name the weights of these modules as "
             "well, or export all tensors without a format, to a safetensors file");
    if (type_ != "ia3") config["bias"] = !own.biases ? "none" : own.others ? "all" : only;
  }

  // Several entries of one name are one adapter: which of them a target belongs to is not told.
  void check_equal_entries() const {
    const auto options_of = [](const json& adapter) {
      json options = adapter.at("options");
      for (const char* of_shapes : {"rank", "rank_pattern"}) options.erase(of_shapes);
      if (adapter.at("type") == "adalora")
        for (const char* of_rank : {"init_rank", "target_rank", "alpha"}) options.erase(of_rank);
      return options;
    };
    for (const json* adapter : chosen_)
      if (const json* first = chosen(adapter->at("name"));
          first != adapter && options_of(*first) != options_of(*adapter))
        refuse("adapter '" + adapter->at("name").get<std::string>() +
               "' has entries with other options, " + options_of(*first).dump() + " and " +
               options_of(*adapter).dump() + ", and which target has which is not known");
  }

  // Sorts the parameters of the chosen adapters to the modules; the others are left out.
  void find_changes() {
    std::map<std::string, std::pair<std::string, const ModulePart*>> parts;
    std::set<std::string> of_experts;
    for (const auto& [path, module] : modules_) {
      for (const ModulePart& part : module.parts) parts[part.parameter] = {path, &part};
      if (!module.slice_of.empty()) of_experts.insert(module.slice_of);
    }
    for (const auto& [name, shape] : model_.at("parameters").items()) {
      const size_t own = name.rfind('.'),
                   of = own == std::string::npos ? own : name.rfind('.', own - 1);
      const bool split = of != std::string::npos && !parts.contains(name);
      const std::string target = split ? name.substr(0, of) : "";
      const auto at = parts.find(target);
      const json* adapter = split ? chosen(name.substr(of + 1, own - of - 1)) : nullptr;
      if (adapter && of_experts.contains(target))
        refuse("adapter '" + adapter->at("name").get<std::string>() + "' changes '" + target +
               "', the weights of experts, which is not written as a file of the library; merge "
               "it (plait merge RUN --to DIR) and export the model, or let `match` name others");
      if (at == parts.end()) adapter = nullptr;
      if (!adapter) {
        own_names_.push_back(name);
        continue;
      }
      Change& change = changes_[at->second.first][at->second.second->row];
      if (change.adapter && change.adapter != adapter)
        refuse("adapters '" + change.name() + "' and '" + adapter->at("name").get<std::string>() +
               "' both change '" + target + "'" + kChoose);
      change.adapter = adapter;
      change.target = target;
      change.shapes[name.substr(own + 1)] = &shape;
    }
    if (changes_.empty()) refuse_others();
  }
  // A method that changes layers may be applied to what is no module of the library.
  [[noreturn]] void refuse_others() const {
    for (const auto& [name, shape] : model_.at("parameters").items())
      for (const json* adapter : chosen_) {
        const std::string own = "." + adapter->at("name").get<std::string>() + ".";
        const size_t at = name.rfind(own);
        if (at == std::string::npos) continue;
        const std::string target = name.substr(0, at);
        if (type_ == "soft_prompt")
          refuse("the library has one soft prompt, of the table of token ids, and here adapter '" +
                 adapter->at("name").get<std::string>() + "' changes '" + target +
                 "'; let `match` name the table's weight, model." + kPromptTable);
        refuse("adapter '" + adapter->at("name").get<std::string>() + "' changes '" + target +
               "', which is no module of the library's model");
      }
    refuse("the checkpoint has no parameters of these adapters");
  }
  const json* chosen(const std::string& name) const {
    for (const json* adapter : chosen_)
      if (adapter->at("name") == name) return adapter;
    return nullptr;
  }

  template <class T>
  T same_option(const char* key) const {
    for (const json* adapter : chosen_)
      if (adapter->at("options").at(key) != chosen_[0]->at("options").at(key))
        refuse("adapters '" + chosen_[0]->at("name").get<std::string>() + "' and '" +
               adapter->at("name").get<std::string>() + "' differ in " + key +
               ", which a file has once" + kChoose);
    return chosen_[0]->at("options").at(key).get<T>();
  }

  void lora(ordered_json& config) {
    rslora_ = same_option<bool>("rslora");
    std::vector<std::string> paths;
    for (const auto& [path, changes] : changes_) {
      paths.push_back(path);
      lora_module(path, modules_.at(path), changes);
    }
    const int64_t r = most_common(ranks_);
    const double alpha = most_common(alphas_);
    config["target_modules"] = short_names(modules_, paths);
    config["r"] = r;
    config["lora_alpha"] = number(alpha);
    config["lora_dropout"] = same_option<double>("dropout");
    config["use_rslora"] = rslora_;
    config["use_dora"] = type_ == "dora";
    // What PiSSA began with is a part of the change here, which the library need not take out.
    config["init_lora_weights"] = true;
    config["rank_pattern"] = config["alpha_pattern"] = ordered_json::object();
    for (const auto& [path, rank] : ranks_)
      if (rank != r) config["rank_pattern"][path] = rank;
    for (const auto& [path, value] : alphas_)
      if (value != alpha) config["alpha_pattern"][path] = number(value);
  }

  double alpha_of(const Change& c) const {
    const std::string name = model_.at("name").get<std::string>() + "." + c.target;
    for (const std::string text : c.option("alpha_pattern"))
      if (const auto one = kit::by_target(text); one && kit::glob_match(one->pattern, name))
        if (const auto alpha = kit::number_of<double>(one->value)) return *alpha;
    return c.option("alpha");
  }
  double scale_of(const Change& c, bool table) const {
    const auto rank = static_cast<double>(c.rank(table));
    return alpha_of(c) / (c.option("rslora") ? std::sqrt(rank) : rank);
  }

  // Of a module of several parameters: one change of a rank that is the sum of theirs. Their first
  // factors are one below the other, their second ones the blocks of a diagonal.
  void lora_module(const std::string& path, const Module& module,
                   const std::map<int64_t, Change>& changes) {
    const std::string base = kAdapterPrefix + path;
    const Change& first = changes.begin()->second;
    const double scale = scale_of(first, module.table);
    int64_t rank = 0;
    for (const auto& [row, change] : changes) {
      rank += change.rank(module.table);
      if (scale_of(change, module.table) != scale)
        refuse("'" + first.target + "' and '" + change.target +
               "' are one module of the library, " + path +
               ", and their changes have different factors (alpha, rank, rslora)");
    }
    // Each output has a magnitude of its own.
    if (type_ == "dora" && changes.size() < module.parts.size()) refuse_part(path, module, changes);
    const bool pissa = type_ == "pissa";
    if (pissa) rank *= 2;
    ranks_[path] = rank;
    const double size = rslora_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
    alphas_[path] = changes.size() == 1 && !pissa ? alpha_of(first) : scale * size;
    if (module.table) {
      out_.place(first.own("a"), base + ".lora_embedding_A", true);
      out_.place(first.own("b"), base + ".lora_embedding_B");
      return;
    }
    // The trained factors, and of PiSSA those that it began with, whose second one is negative.
    std::vector<std::pair<const char*, const char*>> pairs = {{"a", "b"}};
    if (pissa) pairs.emplace_back("initial_a", "minus_initial_b");
    int64_t at = 0;
    for (const auto& [row, change] : changes) {
      const int64_t own_rank = change.extent("a", 0);
      for (const auto& [a, b] : pairs) {
        out_.place(change.own(a), base + ".lora_A.weight", false, at, own_rank);
        if (own_rank == rank && module.parts.size() == 1)
          out_.place(change.own(b), base + ".lora_B.weight");
        else
          block(change.own(b), base + ".lora_B.weight", row, at, module.out, rank);
        at += own_rank;
      }
      if (type_ == "dora")
        out_.place(change.own("magnitude"), base + ".lora_magnitude_vector", false, row,
                   module.parts.size() == 1 ? 0 : change.extent("magnitude", 0));
    }
  }

  void block(const std::string& parameter, const std::string& tensor, int64_t row, int64_t column,
             int64_t rows, int64_t columns) const {
    out_.block({parameter.c_str(), tensor.c_str(), row, column, rows, columns});
  }

  // The library has two matrices for all modules, and here each target has its own: they lie in
  // matrices of a rank that is the sum of all, of which a module uses those values, d, that are
  // not 0.
  void vera(ordered_json& config) {
    std::vector<std::string> paths;
    int64_t rank = 0, in = 0, out = 0;
    for (const auto& [path, changes] : changes_) {
      paths.push_back(path);
      in = std::max(in, modules_.at(path).in);
      out = std::max(out, modules_.at(path).out);
      for (const auto& [row, change] : changes) rank += change.extent("d", 0);
    }
    int64_t at = 0;
    for (const auto& [path, changes] : changes_)
      for (const auto& [row, change] : changes) {
        const std::string base = kAdapterPrefix + path;
        block(change.own("a"), "base_model.vera_A", at, 0, rank, in);
        block(change.own("project"), "base_model.vera_B", row, at, out, rank);
        block(change.own("d"), base + ".vera_lambda_d", at, 0, rank, 0);
        block(change.own("b"), base + ".vera_lambda_b", row, 0, modules_.at(path).out, 0);
        at += change.extent("d", 0);
      }
    config["target_modules"] = short_names(modules_, paths);
    config["r"] = rank;
    config["vera_dropout"] = same_option<double>("dropout");
    config["d_initial"] = same_option<double>("d_initial");
    config["projection_prng_key"] = 0;
    config["save_projection"] = true;
  }

  // The entry of a target: entries of one name differ in their ranks.
  const json& adalora_entry(const Change& c) const {
    const json* found = nullptr;
    for (const json* adapter : chosen_) {
      if (adapter->at("name") != c.adapter->at("name") ||
          adapter->at("options").at("init_rank") != c.extent("e", 0))
        continue;
      if (found && found->at("options").at("alpha") != adapter->at("options").at("alpha"))
        refuse("adapter '" + c.name() +
               "' has entries of one init_rank and different alpha, and "
               "which of them changes '" +
               c.target + "' is not known");
      found = adapter;
    }
    return found ? *found : *c.adapter;
  }

  // b·diag(e)·a of a module whose parameters are one below the other, as of lora_module(). The
  // library has one init_r, by which all are divided, and names the ranks of it that are left.
  void adalora(ordered_json& config) {
    std::vector<std::string> paths;
    double scale = 0;
    int64_t most = 0;
    for (const auto& [path, changes] : changes_) {
      paths.push_back(path);
      int64_t rank = 0, at = 0;
      for (const auto& [row, change] : changes) {
        const auto own = change.extent("e", 0);
        const double alpha = adalora_entry(change).at("options").at("alpha").get<double>(),
                     factor = alpha / (static_cast<double>(own) + 1e-5);
        if (scale != 0 && std::abs(factor - scale) > 1e-12 * std::abs(scale))
          refuse("the changes of adapter '" + change.name() +
                 "' have different factors, alpha / init_rank, and the library has one for all");
        scale = factor;
        rank += own;
      }
      ranks_[path] = rank;
      most = std::max(most, rank);
      for (const auto& [row, change] : changes) {
        adalora_part(kAdapterPrefix + path, modules_.at(path), change, {row, at, rank});
        at += change.extent("e", 0);
      }
    }
    adalora_options(config, most, scale);
    config["target_modules"] = short_names(modules_, paths);
  }
  struct PartPlace {
    int64_t row, column, rank;
  };
  void adalora_part(const std::string& base, const Module& module, const Change& change,
                    const PartPlace& in) const {
    const int64_t own = change.extent("e", 0);
    const std::string e = change.own("e"), of_e = base + ".lora_E";
    out_.place(change.own("a"), base + ".lora_A", false, in.column, own);
    out_.place({e.c_str(), of_e.c_str(), in.column, own, PLAIT_PLACE_COLUMN, 0});
    if (module.parts.size() == 1)
      out_.place(change.own("b"), base + ".lora_B");
    else
      block(change.own("b"), base + ".lora_B", in.row, in.column, module.out, in.rank);
  }
  void adalora_options(ordered_json& config, int64_t most, double scale) const {
    const json& options = chosen_[0]->at("options");
    const auto rank = chosen_[0]->at("options").at("init_rank").get<int64_t>();
    // As it was given, where nothing but the modules of one parameter has a rank.
    if (options.at("alpha").get<double>() <= 0)
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[format.peft] adalora has alpha " + digits(options.at("alpha").get<double>()) +
               ", and the library takes the rank in place of an alpha that is not above 0; merge "
               "the adapter (plait merge) and export the model");
    const double alpha = rank == most ? options.at("alpha").get<double>()
                                      : scale * (static_cast<double>(most) + 1e-5);
    config["init_r"] = most;
    config["target_r"] = std::min(most, options.at("target_rank").get<int64_t>());
    config["lora_alpha"] = number(alpha);
    config["lora_dropout"] = same_option<double>("dropout");
    config["deltaT"] = same_option<int64_t>("delta_t");
    for (const char* key : {"tinit", "tfinal"}) config[key] = same_option<int64_t>(key);
    for (const char* key : {"beta1", "beta2", "orth_reg_weight"})
      config[key] = number(same_option<double>(key));
    // The library wants one in which ranks could go, and uses it in training alone.
    config["total_step"] = config["tinit"].get<int64_t>() + config["tfinal"].get<int64_t>() + 1;
    config["init_lora_weights"] = true;
    config["rank_pattern"] = nullptr;
    for (const auto& [path, own] : ranks_) {
      if (own == most) continue;
      std::vector<bool> left(static_cast<size_t>(most), false);
      std::fill_n(left.begin(), own, true);
      config["rank_pattern"][path + ".lora_E"] = left;
    }
  }

  void prefix(ordered_json& config) {
    if (const std::string why = prefix_mismatch(of_family_); !why.empty()) refuse(why);
    std::map<std::string, const Change*> of_target;
    for (const auto& [path, changes] : changes_)
      for (const auto& [row, change] : changes) of_target[change.target] = &change;
    const std::vector<std::string> targets = prefix_targets(of_family_);
    const Change& any = *of_target.begin()->second;
    const int64_t n = any.extent(kPromptVectors, 0), width = any.extent(kPromptVectors, 1);
    for (const std::string& target : targets)
      if (!of_target.contains(target))
        refuse("the library's prefix has keys and values of every layer, and adapter '" +
               any.name() + "' does not change '" + target +
               "'; let `match` name h*.attn.k.weight and h*.attn.v.weight");
    if (of_target.size() != targets.size() || chosen_.size() != 1)
      refuse("the library has one prefix, of keys and values, and here adapter '" + any.name() +
             "' changes others as well, or has several entries" +
             (chosen_.size() > 1 ? kChoose : ""));
    for (size_t i = 0; i < targets.size(); ++i)
      block(of_target.at(targets[i])->own(kPromptVectors), kPromptTensor, 0,
            static_cast<int64_t>(i) * width, n, static_cast<int64_t>(targets.size()) * width);
    describe_prefix(config, of_family_, n);
  }

  void soft_prompt(ordered_json& config) {
    const Change& change = changes_.begin()->second.begin()->second;
    if (chosen_.size() != 1 || changes_.size() != 1 || change.target != kPromptTable)
      refuse("the library has one soft prompt, of the table of token ids, and here adapter '" +
             change.name() + "' changes '" + change.target + "'" +
             (chosen_.size() > 1 ? kChoose : ""));
    if (const std::string why = prompt_mismatch(of_family_); !why.empty()) refuse(why);
    out_.place(change.own(kPromptVectors), kPromptTensor);
    describe_prompt(config, of_family_, change.extent(kPromptVectors, 0));
  }

  void ia3(ordered_json& config) {
    std::vector<std::string> inputs, outputs;
    for (const auto& [path, changes] : changes_) {
      const Module& module = modules_.at(path);
      const Change& first = changes.begin()->second;
      const bool input = first.option("on") == "input";
      for (const auto& [row, change] : changes)
        if (change.option("on") != first.option("on") || (input && module.parts.size() > 1))
          refuse("'" + change.target + "' is a part of " + path +
                 " in the library, which multiplies all inputs or all outputs of it by one set of "
                 "factors; use on = \"output\" for each part");
      if (changes.size() < module.parts.size()) refuse_part(path, module, changes);
      for (const auto& [row, change] : changes) {
        const std::string own = change.own("factor"), tensor = kAdapterPrefix + path + ".ia3_l";
        out_.place({own.c_str(), tensor.c_str(), row, change.extent("factor", 0),
                    PLAIT_PLACE_COLUMN | (input ? PLAIT_PLACE_TRANSPOSED : 0u), 0});
      }
      (input ? inputs : outputs).push_back(path);
    }
    const std::vector<std::string> feedforward = short_names(modules_, inputs);
    std::vector<std::string> all = short_names(modules_, outputs);
    all.insert(all.end(), feedforward.begin(), feedforward.end());
    config["target_modules"] = all;
    config["feedforward_modules"] = feedforward;
    config["init_ia3_weights"] = true;
  }

  [[noreturn]] static void refuse_part(const std::string& path, const Module& module,
                                       const std::map<int64_t, Change>& changes) {
    for (const ModulePart& part : module.parts)
      if (!changes.contains(part.row))
        refuse("the adapter changes '" + changes.begin()->second.target + "' and not '" +
               part.parameter + "', which are one module of the library, " + path +
               "; let `match` name all of its parts");
    refuse(path + " lacks a part");
  }

  const json& model_;
  const FormatOutput& out_;
  const Model of_family_;
  const Modules modules_;
  std::vector<const json*> chosen_;
  std::string type_;
  std::map<std::string, std::map<int64_t, Change>> changes_;  // module -> first row -> change
  std::map<std::string, int64_t> ranks_;
  std::map<std::string, double> alphas_;
  std::vector<std::string> own_names_;  // of parameters that no chosen adapter has
  bool rslora_ = false;
};

}  // namespace

void write_adapter(const json& model, const std::string& family, const std::string& adapter,
                   const std::string& base, const FormatOutput& out) {
  const ordered_json config = AdapterWriter(model, family, adapter, out).write(base);
  out.file(kAdapterConfig, config.dump(2) + "\n");
}

}  // namespace plait::hf
