#include "engine/session/weight_fit.hpp"

#include <array>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/program/op_def.hpp"

namespace plait::session {
namespace {

using checkpoint::Checkpoint;

void check_checkpoint(FileSystem& files, const plan::Plan& plan, const WeightSource& source) {
  const Checkpoint from(files, checkpoint::choose_checkpoint(files, source.path),
                        Checkpoint::Verify::kLater);
  std::vector<std::string> names, initial;
  for (const checkpoint::TensorRecord& t : from.tensors())
    if (checkpoint::is_parameter(t)) names.push_back(t.name);
  for (const auto& [p, name] :
       tensors_of(source, plan, names, from.state().bases, nullptr, initial)) {
    // Type and shape are compared, and a block of no elements reads nothing; a tensor without
    // dimensions has one element.
    const program::Dims dims = program::dims_of(p->shape);
    const topology::Box none{std::vector<int64_t>(dims.size(), 0),
                             std::vector<int64_t>(dims.size(), 0)};
    std::array<std::byte, sizeof(double)> one;
    from.read_block(name, p->shape.dtype, dims, none, one.data());
  }
}

}  // namespace

void check_fit(const plan::Parameter& p, const checkpoint::Weights::Place& from,
               const WeightSource& source) {
  const checkpoint::TensorEntry& entry = *from.entry;
  if (checkpoint::is_convertible(entry.dtype, p.shape.dtype) &&
      from.shape == program::dims_of(p.shape))
    return;
  std::string found = entry.dtype_text + " (";
  for (size_t i = 0; i < from.shape.size(); ++i)
    found += (i ? ", " : "") + std::to_string(from.shape[i]);
  fail_data("[session] tensor '" + printable(entry.name) + "' of '" + source.path + "' is " +
            found + "), expected " + program::text(p.shape) + ", as parameter '" + p.name +
            "' has; take weights that belong to these layers, or correct the layers");
}

void check_weights(FileSystem& files, const plan::Plan& plan, const WeightSource& source) {
  checkpoint::require_weights(files, source.key, source.path);
  if (checkpoint::names_checkpoint(files, source.path))
    return check_checkpoint(files, plan, source);
  const checkpoint::Weights weights(files, source.path);
  WeightSource given = source;
  given.beside = source.adapter && weights.is_mapped();
  std::vector<std::string> initial;
  for (const auto& [p, name] : tensors_of(given, plan, weights.names(), {}, nullptr, initial))
    check_fit(*p, weights.find(name), source);
}

}  // namespace plait::session
