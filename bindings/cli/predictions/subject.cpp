#include "bindings/cli/predictions/subject.hpp"

#include <set>

namespace plait::cli {
namespace {

// What a model predicts depends on no other: a run may take the optimizer's states from its
// checkpoint (checkpoint.keep_optimizer) before a prediction continues.
std::set<std::string> files_of_parameters(const Json& checkpoint) {
  std::set<std::string> names;
  for (const Json& tensor : checkpoint.at("tensors"))
    if (tensor.at("kind") == "parameter")
      for (const Json& slice : tensor.at("slices"))
        names.insert(slice.at("file").get<std::string>());
  return names;
}

}  // namespace

Json subject_of(const SubjectParts& p) {
  Json files = Json::array(), outputs = Json::array(), settings = Json::object();
  const std::set<std::string> weights = files_of_parameters(p.checkpoint);
  for (const Json& file : p.checkpoint.at("files"))
    if (weights.contains(file.at("name").get<std::string>())) files.push_back(file.at("xxh3_128"));
  for (const PredictedValue& v : p.values)
    outputs.push_back(
        {{"name", v.name}, {"dtype", v.dtype}, {"shape", v.shape}, {"classes", v.classes}});
  const Json all = Json::parse(p.experiment.describe());
  for (const auto& [key, entry] : all.items())
    for (const std::string& part :
         {std::string("model"), "data." + p.dataset_name + ".", std::string("precision."),
          std::string("topology."), std::string("run.device"), std::string("evaluate.adapter")})
      if (key.starts_with(part)) settings[key] = entry.at("value");
  return {{"format", p.format},
          {"checkpoint", {{"step", p.checkpoint.at("step")}, {"files", files}}},
          {"dataset",
           {{"name", p.dataset_name},
            {"samples", p.dataset.at("samples")},
            {"fingerprint", p.dataset.at("fingerprint")}}},
          {"outputs", outputs},
          {"replicas", p.replicas},  // before what follows from it
          {"batch", p.batch},
          {"settings", settings}};
}

}  // namespace plait::cli
