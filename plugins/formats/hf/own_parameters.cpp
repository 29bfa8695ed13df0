#include "plugins/formats/hf/own_parameters.hpp"

#include <algorithm>

#include "kit/by_target.hpp"
#include "plugins/formats/hf/adapter_config.hpp"
#include "plugins/formats/hf/places.hpp"

namespace plait::hf {
namespace {

using nlohmann::json;
using support::JsonPlace;

constexpr std::string_view kBias = ".bias", kWeight = ".weight", kBaseLayer = ".base_layer";

constexpr size_t kMostSaved = 1000;  // names of modules_to_save

// "model.norm" of "model.norm.weight".
std::string_view front_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string_view::npos ? 0 : dot);
}
std::string module_of_tensor(const std::string& tensor) { return std::string(front_of(tensor)); }

// The library saves a module once more, as its wrapper has it, where biases or tables are saved.
bool is_copy(std::string_view path) {
  return path.ends_with(".original_module") || path.ends_with(".modules_to_save") ||
         path.find(".original_module.") != std::string_view::npos ||
         path.find(".modules_to_save.") != std::string_view::npos;
}

// Of a tied model the library would make two tables of one.
bool is_tied(const Model& base, const std::string& path) {
  return base.tied && (path == "lm_head" || path + ".weight" == usual_prefix(*base.family) +
                                                                    embedding_tensor(*base.family));
}

[[noreturn]] void refuse(const std::string& what) {
  fail(PLAIT_ERR_UNIMPLEMENTED, "[format.peft] " + what);
}

}  // namespace

OwnParametersReader::OwnParametersReader(const std::string& folder, const JsonPlace& config,
                                         const Model& base, const std::string& base_name,
                                         const std::string& only, const FormatOutput& out)
    : folder_(folder),
      base_name_(base_name),
      config_(config),
      base_(base),
      out_(out),
      tensors_(tensors_of(base)) {
  const JsonPlace bias = config["bias"];
  const std::string word = bias.null() ? "none" : bias.text();
  biases_ = !only.empty() && (word == "all" || word == only);
  if (!biases_ && word != "none")
    bias.bad("found '" + kit::printable(word) + "', expected " +
             (only.empty() ? "none" : "none, all or " + only));
  const JsonPlace saved = config["modules_to_save"];
  if (!saved.null() && saved.size() > kMostSaved)
    saved.bad("found " + std::to_string(saved.size()) + " names, expected at most " +
              std::to_string(kMostSaved));
  for (size_t i = 0; !saved.null() && i < saved.size(); ++i) saved_.push_back(saved[i].text());
}

// The library takes a module for saved if its path ends in a name, at a dot or not.
const std::string* OwnParametersReader::saved_by(std::string_view path) const {
  for (std::string_view part = path; !part.empty(); part = front_of(part))
    for (const std::string& name : saved_)
      if (!name.empty() && part.ends_with(name)) return &name;
  return nullptr;
}

bool OwnParametersReader::take(const kit::SafetensorsEntry& entry) {
  constexpr size_t kFront = sizeof kAdapterPrefix - 1;
  if (!entry.name.starts_with(kAdapterPrefix)) return false;
  const std::string name = entry.name.substr(kFront);
  const bool is_bias = name.ends_with(kBias);
  if (!is_bias && !name.ends_with(kWeight)) return false;
  const std::string end(is_bias ? kBias : kWeight);
  std::string path = name.substr(0, name.size() - end.size());
  if (path.ends_with(kBaseLayer)) path.resize(path.size() - kBaseLayer.size());
  if (is_copy(path) && !saved_.empty()) {
    out_.ignore(entry.name);
    return true;
  }
  const std::string* saved = saved_by(path);
  if (!saved && !(is_bias && biases_)) return false;
  auto at = tensors_.find(path + end);
  if (at == tensors_.end()) at = tensors_.find(usual_prefix(*base_.family) + path + end);
  if (is_tied(base_, path) || (at != tensors_.end() && is_tied(base_, module_of_tensor(at->first))))
    config_["modules_to_save"].bad(
        "'" + kit::printable(path) + "' was trained, and of the base '" + base_name_ +
            "' the embedding is the head as well, which one module alone would not be; merge the "
            "adapter in the library (merge_and_unload) and import the model that it saves",
        PLAIT_ERR_UNIMPLEMENTED);
  if (at == tensors_.end())
    bad_weights(folder_, "the tensor '" + kit::printable(entry.name) +
                             "' is of a module that was trained as a whole, or of a bias, which "
                             "the base '" +
                             base_name_ + "' (" + base_.family->type +
                             ") does not have; give the folder of its own base with --option "
                             "base=FOLDER");
  if (entry.shape != at->second.shape)
    bad_weights(folder_, "the tensor '" + kit::printable(entry.name) + "' has the shape " +
                             text_of(entry.shape) + ", expected " + text_of(at->second.shape) +
                             " for the base '" + base_name_ +
                             "'; give the folder of its own base with --option base=FOLDER");
  if (!at->second.slice_of.empty())
    config_["modules_to_save"].bad(
        "'" + kit::printable(path) +
            "' is one expert that was trained as a whole, which no adapter "
            "gives to '" +
            at->second.slice_of +
            "'; merge the adapter in the library "
            "(merge_and_unload) and import the model that it saves",
        PLAIT_ERR_UNIMPLEMENTED);
  if (!tensors_read_.insert(at->first).second)
    bad_weights(folder_, "it has '" + kit::printable(at->first) + "' twice, under two names");
  if (saved) found_.insert(*saved);
  for (const BasePart& part : at->second.parts) {
    out_.place({part.parameter.c_str(), entry.name.c_str(), part.row, part.n_rows, part.flags, 0});
    trained_.push_back(part.parameter);
  }
  return true;
}

std::vector<std::string> OwnParametersReader::trained() const {
  for (const std::string& name : saved_)
    if (!found_.contains(name))
      config_["modules_to_save"].bad(
          "'" + kit::printable(name) + "' has no tensor in " + kAdapterWeights +
          ", expected the tensors of each module that was trained as a whole; "
          "save the adapter again, or take the name out");
  return trained_;
}

namespace {

class OwnParametersWriter {
 public:
  OwnParametersWriter(const json& model, const Model& of_family,
                      const std::set<std::string, std::less<>>& changed, const FormatOutput& out)
      : model_(model),
        of_family_(of_family),
        changed_(changed),
        out_(out),
        tensors_(tensors_of(of_family)) {}

  OwnParameters write() {
    find_trained();
    std::set<std::string> saved;
    for (const std::string& tensor : trained_)
      if (!tensor.ends_with(kBias)) saved.insert(module_of_tensor(tensor));
    for (const auto& [tensor, base] : tensors_) {
      const std::string path = module_of_tensor(tensor);
      if (saved.contains(path))
        write_tensor(tensor, tensor);
      else if (trained_.contains(tensor))
        write_bias(tensor, path);
    }
    for (const std::string& path : saved) check_saved(path);
    own_.saved.assign(saved.begin(), saved.end());
    if (own_.biases) write_other_biases(saved);
    return std::move(own_);
  }

 private:
  // Tensors of which a part is trained.
  void find_trained() {
    const std::string front = model_.at("name").get<std::string>() + ".";
    for (const auto& [tensor, base] : tensors_) {
      if (!base.slice_of.empty() && is_trained(front + base.slice_of))
        refuse("the model trains the experts '" + base.slice_of +
               "' (train), which are not written beside an adapter; export all tensors without a "
               "format, to a safetensors file");
      for (const BasePart& part : base.parts) {
        if (is_trained(front + part.parameter)) trained_.insert(tensor);
      }
    }
  }
  bool is_trained(const std::string& name) const {
    return std::any_of(model_.at("train").begin(), model_.at("train").end(), [&](const json& one) {
      return kit::glob_match(one.get<std::string>(), name);
    });
  }

  void check_saved(const std::string& path) const {
    if (is_tied(of_family_, path))
      refuse("the model trains '" + tensors_.at(path + ".weight").parts[0].parameter +
             "' (train), which is the head as well, and the library would make two tables of it; "
             "export all tensors without a format, to a safetensors file");
    if (changed_.contains(path))
      refuse("the module " + path +
             " is trained itself (train) and has an adapter as well, and the library has one of "
             "both; let `match` of the adapter, or `train`, leave it out");
  }

  bool is_there(const std::string& tensor) const {
    const std::vector<BasePart>& parts = tensors_.at(tensor).parts;
    return std::all_of(parts.begin(), parts.end(), [&](const BasePart& part) {
      return model_.at("parameters").contains(part.parameter);
    });
  }

  void write_tensor(const std::string& tensor, const std::string& name) {
    for (const BasePart& part : tensors_.at(tensor).parts) {
      if (!model_.at("parameters").contains(part.parameter))
        refuse("the checkpoint does not hold '" + part.parameter +
               "', which is one tensor or module of the library with what was trained, " + tensor +
               "; let `train` name it as well, or save checkpoints with checkpoint.save = \"all\"");
      const std::string theirs = kAdapterPrefix + name;
      out_.place({part.parameter.c_str(), theirs.c_str(), part.row, part.n_rows, part.flags, 0});
      own_.written.insert(part.parameter);
    }
  }

  void write_bias(const std::string& tensor, const std::string& path) {
    const bool changed = changed_.contains(path);
    own_.biases = true;
    own_.others |= !changed;
    write_tensor(tensor, path + std::string(changed ? kBaseLayer : "") + std::string(kBias));
  }

  // The library's file has all biases that may have learned, those that did not as they were.
  void write_other_biases(const std::set<std::string>& saved) {
    for (const auto& [tensor, base] : tensors_) {
      const std::string path = module_of_tensor(tensor);
      if (tensor.ends_with(kBias) && !trained_.contains(tensor) && !saved.contains(path) &&
          (own_.others || changed_.contains(path)) && is_there(tensor))
        write_bias(tensor, path);
    }
  }

  const json& model_;
  const Model& of_family_;
  const std::set<std::string, std::less<>>& changed_;
  const FormatOutput& out_;
  const BaseTensors tensors_;
  std::set<std::string> trained_;
  OwnParameters own_;
};

}  // namespace

OwnParameters write_own_parameters(const json& model, const Model& of_family,
                                   const std::set<std::string, std::less<>>& changed,
                                   const FormatOutput& out) {
  return OwnParametersWriter(model, of_family, changed, out).write();
}

}  // namespace plait::hf
