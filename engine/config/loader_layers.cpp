// Reads the layers of a model, and writes out the copies of `repeat` and of blocks: what follows
// sees a plain list. A layer of a named block has the block's name before its own, as "p3.norm".
#include <plait/layer.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "engine/base/text.hpp"
#include "engine/config/loader.hpp"
#include "engine/config/schema.hpp"

namespace plait::config {
namespace {

constexpr size_t kMostLayers = 4096;  // of a model, copies included
constexpr int kDeepest = 8;           // blocks inside each other

// By default the type and its number among layers of that type. `taken`: the names in use; the new
// ones are added.
void name_by_type(std::vector<LayerConfig>& layers, std::map<std::string, Origin>& taken) {
  std::map<std::string, int> count;
  for (LayerConfig& layer : layers) {
    if (layer.type.empty()) continue;
    const int n = ++count[layer.type];
    if (!layer.name.empty()) continue;
    layer.name = layer.type + std::to_string(n);
    std::replace(layer.name.begin(), layer.name.end(), '.',
                 '_');  // the type may be a third party's, as "acme.scale"
    while (taken.contains(layer.name)) layer.name += "_";
    taken.emplace(layer.name, layer.origin);
    layer.keys.set_text("name", layer.name, Origin::none());
  }
}

}  // namespace

// Puts the layers into block `name` with that number: the only one, or a copy.
void ExperimentLoader::put_in_block(std::vector<LayerConfig>& layers, const std::string& name,
                                    const std::string& number, int block) {
  for (LayerConfig& layer : layers) {
    layer.base = name;
    layer.block = block;
    if (!layer.name.empty()) set_name(layer, name + number + "." + layer.name);
  }
}

std::vector<LayerConfig> ExperimentLoader::read_layers(const ConfigEntry& model) {
  const ConfigEntry list{key_path(model.path, "layers"), &model.node->find("layers")};
  std::vector<LayerConfig> layers;
  read_layer_list(list, model.node->origin(), "model", 0, layers);
  name_layers(layers);
  return layers;
}

// owner: "model" or "block"; depth: of blocks around the list.
void ExperimentLoader::read_layer_list(const ConfigEntry& list, const Origin& owner_at,
                                       const char* owner, int depth, std::vector<LayerConfig>& to) {
  const Node& node = *list.node;
  const std::vector<ConfigEntry> tables = entries(node, list.path, false);
  if (tables.empty() && !(node && !node.is(NodeKind::kArray)))
    problems_.add(owner_at, list.path, std::string("the ") + owner + " has no layers",
                  "add [[" + list.path + "]] entries");
  for (const ConfigEntry& table : tables) {
    const Node& type = table.node->find("type");
    if (type.is(NodeKind::kText) && type.as_text() == kBlock) {
      add_block(table, depth, to);
      continue;
    }
    LayerConfig layer;
    constexpr std::string_view kTables[] = {"tie"};
    read_item(table, PLAIT_KIND_LAYER, layer_keys(), kTables, layer);
    layer_keys().read(layer.keys, layer);
    read_tie(table, layer);
    check_parallel(layer);
    add_copies(std::move(layer), to);
  }
}

// The engine reads the key for every layer; a layer that has no option of that name cannot do it.
void ExperimentLoader::check_parallel(const LayerConfig& layer) {
  if (!layer.keys.given("parallel") || layer.options.declares("parallel")) return;
  if (layer.type.empty() || layer.parallel == "none") return;
  problems_.add(layer.keys.origin("parallel"), key_path(layer.path, "parallel"),
                "a layer of type '" + layer.type + "' cannot be sharded",
                "leave the key out; such a layer follows what it reads");
}

// Whether n more layers fit behind those in `to`.
bool ExperimentLoader::has_room(const ConfigEntry& table, const OptionSet& keys, size_t n,
                                const std::vector<LayerConfig>& to) {
  if (n <= kMostLayers && to.size() + n <= kMostLayers) return true;
  problems_.add(keys.origin("repeat"), key_path(table.path, "repeat"),
                strf("the model would have more than %zu layers", kMostLayers), "use fewer copies");
  return false;
}

// The layer, or as many copies of it as `repeat` says: the first reads what the entry reads, each
// other one the copy before, and the last has the names of the outputs.
void ExperimentLoader::add_copies(LayerConfig layer, std::vector<LayerConfig>& to) {
  if (layer.repeat == 1) return to.push_back(std::move(layer));
  const auto n = static_cast<size_t>(std::max<int64_t>(layer.repeat, 1));
  if (!has_room({layer.path, nullptr}, layer.keys, n, to)) return;
  const std::string name = layer.name;
  layer.repeat = 1;
  layer.keys.set_int("repeat", 1, Origin::none());
  layer.base = name;
  for (size_t i = 0; i < n; ++i) {
    LayerConfig copy = layer;
    if (!name.empty()) set_name(copy, name + std::to_string(i));
    if (i > 0) copy.keys.set_texts("from", copy.from = {}, Origin::none());
    if (i + 1 < n) copy.keys.set_texts("as", copy.as = {}, Origin::none());
    to.push_back(std::move(copy));
  }
}

void ExperimentLoader::set_name(LayerConfig& layer, std::string name) {
  const Origin origin = layer.keys.origin("name");
  layer.name = std::move(name);
  layer.keys.set_text("name", layer.name, origin);
}

// The layers of a block, as often as its `repeat` says. With a name they are "NAME.layer", or
// "NAME0.layer", "NAME1.layer", ...; without one, layers of a name are numbered through all copies.
void ExperimentLoader::add_block(const ConfigEntry& table, int depth,
                                 std::vector<LayerConfig>& to) {
  BlockConfig block;
  constexpr std::string_view kTables[] = {"layers"};
  block.keys =
      OptionSet::check(*table.node, block_keys(), kTables, table.path, resolver_, problems_);
  block_keys().read(block.keys, block);
  if (depth == kDeepest)
    return problems_.add(table.node->origin(), table.path,
                         strf("more than %d blocks inside each other", kDeepest),
                         "write the inner layers without a block");
  if (!block.name.empty() && !good_name(block.name)) {
    problems_.add(block.keys.origin("name"), key_path(table.path, "name"),
                  "'" + block.name + "' is not a valid name", "use letters, digits, _ and -");
    block.name = kBlock;  // once is enough
  }
  std::vector<LayerConfig> inner;
  read_layer_list({key_path(table.path, "layers"), &table.node->find("layers")},
                  table.node->origin(), "block", depth + 1, inner);
  const auto n = static_cast<size_t>(std::max<int64_t>(block.repeat, 1));
  if (!has_room(table, block.keys, n > kMostLayers ? n : n * inner.size(), to)) return;
  check_local_names(block, inner);
  std::map<std::string, Origin> taken;
  for (const LayerConfig& layer : inner) taken.emplace(layer.name, layer.origin);
  if (!block.name.empty()) {
    name_by_type(inner, taken);
    check_block_names(inner);
  }
  std::map<std::string, int> numbers;
  for (size_t i = 0; i < n; ++i) {
    std::vector<LayerConfig> copy = inner;
    if (!block.name.empty())
      put_in_block(copy, block.name, n > 1 ? std::to_string(i) : "", ++blocks_);
    else if (n > 1)
      number_copy(copy, numbers);
    std::move(copy.begin(), copy.end(), std::back_inserter(to));
  }
}

// Numbers the layers of a copy of a block without a name, and the blocks in it, from where the copy
// before ends: entries "h", "h" with repeat = 2, and "p.a", "p.b" become h0, h1, h2, p0.a, p0.b.
void ExperimentLoader::number_copy(std::vector<LayerConfig>& copy,
                                   std::map<std::string, int>& numbers) {
  struct Renamed {
    std::string name;
    int block;
  };
  std::map<int, Renamed> renamed;  // of the blocks in this copy
  for (LayerConfig& layer : copy) {
    if (layer.name.empty()) continue;
    const size_t dot = std::min(layer.name.find('.'), layer.name.size());
    const std::string first = layer.name.substr(0, dot),
                      base = layer.base.empty() ? first : layer.base;
    layer.base = base;
    const auto next = [&] { return base + std::to_string(numbers[base]++); };
    if (layer.block == 0) {
      set_name(layer, next() + layer.name.substr(dot));
      continue;
    }
    auto at = renamed.find(layer.block);
    if (at == renamed.end()) at = renamed.emplace(layer.block, Renamed{next(), ++blocks_}).first;
    set_name(layer, at->second.name + layer.name.substr(dot));
    layer.block = at->second.block;
  }
}

// Copies of a block without a name would share the names of its layers and values.
void ExperimentLoader::check_local_names(const BlockConfig& block,
                                         const std::vector<LayerConfig>& inner) {
  if (!block.name.empty() || block.repeat == 1) return;
  const auto has = [&](const std::string& name) {
    return std::any_of(inner.begin(), inner.end(),
                       [&](const LayerConfig& layer) { return layer.name == name; });
  };
  for (const LayerConfig& layer : inner) {
    const size_t dot = layer.name.find('.');
    if (!layer.as.empty() && dot == std::string::npos)
      problems_.add(layer.keys.origin("as"), key_path(layer.path, "as"),
                    "each copy of the block would have a value of that name",
                    "give the block a name: its values are then its own");
    for (const std::string& name : layer.from)
      if (has(name) && (dot == std::string::npos || !has(layer.name.substr(0, dot + 1) + name)))
        problems_.add(layer.keys.origin("from"), key_path(layer.path, "from"),
                      "each copy of the block has a layer named '" + name + "'",
                      "give the block a name: its layers are then its own");
  }
}

// Layers of two blocks must not look like layers of one.
void ExperimentLoader::check_block_names(const std::vector<LayerConfig>& layers) {
  std::map<std::string, const LayerConfig*> first_of;
  for (const LayerConfig& layer : layers) {
    const size_t dot = layer.name.find('.');
    if (dot == std::string::npos) continue;
    const std::string block = layer.name.substr(0, dot);
    const auto [first, fresh] = first_of.emplace(block, &layer);
    if (fresh || first->second->block == layer.block) continue;
    problems_.add(layer.origin, layer.path,
                  "a second block named '" + block + "', the layers of the first begin at " +
                      first->second->origin.text(),
                  "give each block its own name");
    first->second = &layer;  // once for each block
  }
}

void ExperimentLoader::read_tie(const ConfigEntry& layer, LayerConfig& to) {
  const Node& tie = layer.node->find("tie");
  const std::string path = key_path(layer.path, "tie");
  if (tie && !tie.is(NodeKind::kTable))
    problems_.add(tie.origin(), path, std::string("expected a table, found ") + tie.kind_name(),
                  "write tie = {weight = \"model.other.weight\"}");
  for (const Node::Entry& entry : tie.entries()) {
    if (entry.value.is(NodeKind::kText))
      to.tie.push_back({entry.key, entry.value.as_text(), entry.origin});
    else
      problems_.add(
          entry.value.origin(), key_path(path, entry.key),
          std::string("expected the full name of a parameter, found ") + entry.value.kind_name());
  }
}

// Given names first, so that a default name never collides with them.
void ExperimentLoader::name_layers(std::vector<LayerConfig>& layers) {
  std::map<std::string, Origin> taken;
  for (const LayerConfig& layer : layers) {
    if (layer.name.empty()) continue;
    const Origin origin = layer.keys.origin("name");
    const std::string path = key_path(layer.path, "name");
    if (!good_path(layer.name))
      problems_.add(origin, path, "'" + layer.name + "' is not a valid name",
                    "use letters, digits, _ and -; a dot stands between a block and its layer");
    else if (const auto [first, fresh] = taken.emplace(layer.name, origin); !fresh)
      problems_.add(
          origin, path,
          "a second layer named '" + layer.name + "', the first is at " + first->second.text(),
          "give each layer its own name, and tie parameters to share them");
  }
  name_by_type(layers, taken);
  check_block_names(layers);
}

}  // namespace plait::config
