// Where each parameter is in the tensors of a family.
#pragma once

#include <plait/plugin.hpp>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// Names of the parameters begin with the names of decoder_block's entries: "h0." ... `prefix`: of
// the tensors inside the model, "model." or "transformer.", or "" in old files.
void write_places(const Model& model, const std::string& prefix, const FormatOutput& out);

// What `prefix` is in the files that the library writes today.
std::string usual_prefix(const Family& family);
// The tensor of the embedding, without the prefix.
std::string embedding_tensor(const Family& family);

}  // namespace plait::hf
