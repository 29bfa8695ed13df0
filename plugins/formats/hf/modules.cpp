#include "plugins/formats/hf/modules.hpp"

#include <algorithm>
#include <set>

#include "plugins/formats/hf/places.hpp"

namespace plait::hf {
namespace {

constexpr std::string_view kWeight = ".weight";

bool ends_in(std::string_view path, std::string_view name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) &&
                          path[path.size() - name.size() - 1] == '.');
}

}  // namespace

BaseTensors tensors_of(const Model& model) {
  BaseTensors tensors;
  plait_format_output out{};
  out.struct_size = sizeof out;
  out.user = &tensors;
  out.place = [](void* user, const plait_tensor_place* place) -> uint32_t {
    (*static_cast<BaseTensors*>(user))[place->tensor].parts.push_back(
        {place->parameter, place->row, place->n_rows, place->flags});
    return 0;
  };
  out.slices = [](void* user, const plait_tensor_slices* slices) -> uint32_t {
    for (uint64_t i = 0; i < slices->n_tensors; ++i)
      (*static_cast<BaseTensors*>(user))[slices->tensors[i]].slice_of = slices->parameter;
    return 0;
  };
  write_places(model, usual_prefix(*model.family), FormatOutput(&out),
               [&](const std::string& tensor, const std::vector<int64_t>& shape) {
                 tensors[tensor].shape = shape;
               });
  return tensors;
}

Modules modules_of(const Model& model) {
  Modules modules;
  for (const auto& [tensor, base] : tensors_of(model)) {
    if (!tensor.ends_with(kWeight) || base.shape.size() != 2) continue;
    Module& m = modules[tensor.substr(0, tensor.size() - kWeight.size())];
    m = {base.shape[0], base.shape[1], false, false, {}, base.slice_of};
    m.in_out = !base.parts.empty() && (base.parts[0].flags & PLAIT_PLACE_TRANSPOSED) != 0;
    if (m.in_out) std::swap(m.in, m.out);
    for (const BasePart& part : base.parts)
      m.parts.push_back({part.parameter, part.row, part.n_rows ? part.n_rows : m.out});
  }
  for (auto& [path, module] : modules)
    for (const ModulePart& part : module.parts)
      module.table = part.parameter == "embed.weight" || part.parameter == "positions.weight";
  if (model.tied)
    modules["lm_head"] = {
        model.vocabulary, model.width, false, false, {{"head.weight", 0, model.vocabulary}}, ""};
  return modules;
}

std::vector<std::string> short_names(const Modules& all, const std::vector<std::string>& chosen) {
  const std::set<std::string_view> in(chosen.begin(), chosen.end());
  const auto names_others = [&](std::string_view name) {
    return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
      return ends_in(entry.first, name) && !in.contains(entry.first);
    });
  };
  std::set<std::string> names;
  for (const std::string& path : chosen) {
    size_t dot = path.rfind('.');
    std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
    while (names_others(name) && dot != std::string::npos && dot > 0) {
      dot = path.rfind('.', dot - 1);
      name = path.substr(dot == std::string::npos ? 0 : dot + 1);
    }
    names.insert(name);
  }
  return {names.begin(), names.end()};
}

}  // namespace plait::hf
