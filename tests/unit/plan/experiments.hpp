// Experiments of tests of plans, as TOML, of the parts in which they differ.
#pragma once

#include <string>

namespace plait::test {

struct ExperimentParts {
  int batch = 4;
  std::string data;    // lines of [data.train]
  std::string layers;  // of the model, without the brackets
  std::string loss;    // further lines of [loss]
  std::string optimizer = "adamw";
};

inline std::string experiment_text(const ExperimentParts& p) {
  return R"([run]
steps = 4
device = "reference"
[batch]
global = )" +
         std::to_string(p.batch) + "\n[data.train]\n" + p.data + "[model]\nlayers = [" + p.layers +
         "]\n[loss]\ntype = \"cross_entropy\"\n" + p.loss + "[optimizer]\ntype = \"" + p.optimizer +
         "\"\nlearning_rate = 0.01\n";
}

// fields: of a synthetic dataset.
inline std::string synthetic(const std::string& fields) {
  return "type = \"synthetic\"\nfields = [" + fields + "]\n";
}

// Generates: each token of 9 tells something of the next one.
// embedding: keys of the first layer beside its vocabulary and width.
inline std::string experiment_of_tokens(const std::string& fields, const std::string& embedding) {
  return experiment_text({.data = synthetic(fields),
                          .layers = "{type = \"embedding\", " + embedding +
                                    R"(, vocabulary = 9, width = 8},
          {type = "attention", name = "attn", heads = 2, causal = true},
          {type = "linear", name = "head", out = 9})",
                          .loss = ""}) +
         "[generate]\nslots = 2\nlength = 8\n";
}

}  // namespace plait::test
