// A catalog of fake items, and small helpers of the tests in this folder.
#pragma once

#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/peft.h>

#include <map>
#include <string>

#include "engine/base/error.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/experiment.hpp"

namespace plait::config {

inline plait_option make_option(uint32_t type, const char* name, const char* default_value) {
  return {sizeof(plait_option), name, type, 0, default_value, 0, 0, nullptr, nullptr,
          "a help text"};
}
inline plait_option at_least(plait_option o, double min, bool exclusive = false) {
  o.min = min;
  o.flags |= PLAIT_OPT_HAS_MIN | (exclusive ? PLAIT_OPT_MIN_EXCLUSIVE : 0u);
  return o;
}
inline plait_option at_most(plait_option o, double max, bool exclusive = false) {
  o.max = max;
  o.flags |= PLAIT_OPT_HAS_MAX | (exclusive ? PLAIT_OPT_MAX_EXCLUSIVE : 0u);
  return o;
}
inline plait_option with_choices(plait_option o, const char* choices) {
  o.choices = choices;
  return o;
}

class FakeCatalog : public Catalog {
 public:
  FakeCatalog() {
    add(PLAIT_KIND_LAYER, "dense",
        {at_least(make_option(PLAIT_OPT_INT, "out", nullptr), 1),
         make_option(PLAIT_OPT_BOOL, "bias", "true"),
         with_choices(make_option(PLAIT_OPT_TEXT, "parallel", "\"none\""), "none|column|row")});
    add(PLAIT_KIND_LAYER, "ramp", {});
    add(PLAIT_KIND_LAYER, "acme.mix", {make_option(PLAIT_OPT_REALS, "weights", "[0.5, 0.5]")});
    add(PLAIT_KIND_LOSS, "squared", {});
    add(PLAIT_KIND_METRIC, "hits", {at_least(make_option(PLAIT_OPT_INT, "k", "1"), 1)});
    add(PLAIT_KIND_OPTIMIZER, "descent",
        {at_most(at_least(make_option(PLAIT_OPT_REAL, "momentum", "0.0"), 0), 1, true)});
    items_[PLAIT_KIND_OPTIMIZER]["descent"].item.learning_rate = 0.01;
    items_[PLAIT_KIND_OPTIMIZER]["descent"].item.weight_decay = 0.5;
    add(PLAIT_KIND_OPTIMIZER, "leap", {make_option(PLAIT_OPT_INT, "length", "2")});
    items_[PLAIT_KIND_OPTIMIZER]["leap"].item.learning_rate = 0.3;
    add(PLAIT_KIND_PEFT, "patch", {make_option(PLAIT_OPT_INT, "rank", "8")});
    add(PLAIT_KIND_SCHEDULE, "slope", {make_option(PLAIT_OPT_INT, "warmup", "0")});
    add(PLAIT_KIND_DATASET, "table",
        {make_option(PLAIT_OPT_PATH, "file", nullptr),
         make_option(PLAIT_OPT_TEXTS, "columns", "[]")});
    add(PLAIT_KIND_DATASET, "mix",
        {with_choices(make_option(PLAIT_OPT_ITEMS, "parts", nullptr), PLAIT_KIND_DATASET),
         with_choices(make_option(PLAIT_OPT_ITEM, "ramp", "{}"), PLAIT_KIND_SCHEDULE),
         make_option(PLAIT_OPT_PATHS, "files", "[]")});
    add(PLAIT_KIND_DEVICE, "abacus",
        {at_least(make_option(PLAIT_OPT_INT, "threads", "0"), 0),
         make_option(PLAIT_OPT_BOOL, "pin", "true")});
  }
  bool find_item(std::string_view kind, std::string_view name, CatalogItem& out) const override {
    const auto items = items_.find(std::string(kind));
    if (items == items_.end()) return false;
    const auto item = items->second.find(std::string(name));
    if (item == items->second.end()) return false;
    out = item->second.item;
    out.options = OptionView(item->second.options);
    return true;
  }
  std::vector<std::string> item_names(std::string_view kind) const override {
    std::vector<std::string> names;
    if (const auto items = items_.find(std::string(kind)); items != items_.end())
      for (const auto& [name, item] : items->second) names.push_back(name);
    return names;
  }
  std::string load_summary() const override {
    return "; plugins that could not be loaded: other (old)";
  }

 private:
  struct Item {
    CatalogItem item;
    std::vector<plait_option> options;
  };
  void add(const char* kind, const char* name, std::vector<plait_option> options) {
    items_[kind][name] = {{name, "what it does", "fake", {}, 0, 0}, std::move(options)};
  }
  std::map<std::string, std::map<std::string, Item>> items_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace plait::config
