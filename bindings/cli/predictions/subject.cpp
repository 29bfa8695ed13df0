#include "bindings/cli/predictions/subject.hpp"

namespace plait::cli {

Json subject_of(const SubjectParts& p) {
  Json files = Json::array(), outputs = Json::array(), settings = Json::object();
  for (const Json& file : p.checkpoint.at("files")) files.push_back(file.at("xxh3_128"));
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
