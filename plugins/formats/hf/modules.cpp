#include "plugins/formats/hf/modules.hpp"

#include <algorithm>
#include <set>

#include "plugins/formats/hf/places.hpp"

namespace plait::hf {
namespace {

constexpr std::string_view kWeight = ".weight";

// Takes the places that write_places() gives.
struct Collector {
  Modules modules;

  void shape(const std::string& tensor, const std::vector<int64_t>& shape) {
    if (tensor.ends_with(kWeight) && shape.size() == 2)
      modules[tensor.substr(0, tensor.size() - kWeight.size())] = {shape[0], shape[1], false,
                                                                   false,    {},       ""};
  }
  void slices(const plait_tensor_slices& slices) {
    for (uint64_t i = 0; i < slices.n_tensors; ++i)
      if (const std::string_view tensor = slices.tensors[i]; tensor.ends_with(kWeight))
        if (const auto at = modules.find(tensor.substr(0, tensor.size() - kWeight.size()));
            at != modules.end())
          at->second.slice_of = slices.parameter;
  }
  void place(const plait_tensor_place& place) {
    const std::string tensor = place.tensor;
    if (!tensor.ends_with(kWeight)) return;
    const auto at = modules.find(tensor.substr(0, tensor.size() - kWeight.size()));
    if (at == modules.end()) return;
    Module& m = at->second;
    if (place.flags & PLAIT_PLACE_TRANSPOSED && !m.in_out) {
      m.in_out = true;
      std::swap(m.in, m.out);
    }
    m.parts.push_back({place.parameter, place.row, place.n_rows ? place.n_rows : m.out});
  }
};

bool ends_in(std::string_view path, std::string_view name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) &&
                          path[path.size() - name.size() - 1] == '.');
}

}  // namespace

Modules modules_of(const Model& model) {
  Collector collector;
  plait_format_output out{};
  out.struct_size = sizeof out;
  out.user = &collector;
  out.place = [](void* user, const plait_tensor_place* place) -> uint32_t {
    static_cast<Collector*>(user)->place(*place);
    return 0;
  };
  out.slices = [](void* user, const plait_tensor_slices* slices) -> uint32_t {
    static_cast<Collector*>(user)->slices(*slices);
    return 0;
  };
  write_places(model, usual_prefix(*model.family), FormatOutput(&out),
               [&](const std::string& tensor, const std::vector<int64_t>& shape) {
                 collector.shape(tensor, shape);
               });
  for (auto& [path, module] : collector.modules)
    for (const ModulePart& part : module.parts)
      module.table = part.parameter == "embed.weight" || part.parameter == "positions.weight";
  if (model.tied)
    collector.modules["lm_head"] = {
        model.vocabulary, model.width, false, false, {{"head.weight", 0, model.vocabulary}}, ""};
  return std::move(collector.modules);
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
