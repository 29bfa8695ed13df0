// Where each parameter is in the tensors of a family.
#pragma once

#include <plait/plugin.hpp>

#include <functional>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// Names of the parameters begin with the names of decoder_block's entries: "h0." ... `prefix`: of
// the tensors inside the model, "model." or "transformer.", or "" in old files.
// `shapes`: if given, is called for each tensor that is written, with the shape that config.json
// gives it, before its first place.
using ShapeSink = std::function<void(const std::string& tensor, const std::vector<int64_t>& shape)>;
void write_places(const Model& model, const std::string& prefix, const FormatOutput& out,
                  const ShapeSink& shapes = {});

// What `prefix` is in the files that the library writes today.
std::string usual_prefix(const Family& family);
// The tensor of the embedding, without the prefix.
std::string embedding_tensor(const Family& family);

}  // namespace plait::hf
