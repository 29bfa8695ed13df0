// What config needs to know about loaded plugins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/option_view.hpp"

namespace plait::config {

struct CatalogItem {
  std::string name;
  std::string help;
  std::string plugin;
  OptionView options;
  double learning_rate = 0, weight_decay = 0;  // an optimizer's own defaults
};

class Catalog {
 public:
  virtual ~Catalog() = default;
  // kind: "plait.layer/1" and so on. False if no such item exists.
  virtual bool find_item(std::string_view kind, std::string_view name, CatalogItem& out) const = 0;
  // Sorted.
  virtual std::vector<std::string> item_names(std::string_view kind) const = 0;
  // Text appended to messages about a missing item: "; plugins that could not be loaded: c
  // (reason)", or "".
  virtual std::string load_summary() const = 0;
};

}  // namespace plait::config
