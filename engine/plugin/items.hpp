// Items by kind: the tables that plugins have added.
#pragma once

#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/format.h>
#include <plait/layer.h>
#include <plait/op.h>
#include <plait/optimizer.h>
#include <plait/peft.h>
#include <plait/plugin.h>
#include <plait/tokenizer.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/config/option_view.hpp"

namespace plait::plugin {

class Host;

// The fields that all kinds share, read from an item's table.
struct ItemHead {
  std::string kind;  // "plait.layer/1"
  std::string name;  // of a kernel: "cpu/matmul/jit"
  const void* table = nullptr;
  const Host* host = nullptr;
  std::string help;
  config::OptionView options;
};

// Returns "layer" for "plait.layer/1".
std::string_view short_kind(std::string_view kind);

// Borrows static tables, which are valid until their plugin is closed. Changed by the owner thread
// only, read by any.
class Items {
 public:
  // Checks the table (known kind, at least the size of ABI 1, a name, the required functions,
  // well-formed options) and adds it. If another plugin has an item of that name, the table is not
  // added, and the text says which; else "". Errors: PLAIT_ERR_PLUGIN.
  std::string add(std::string_view kind, const void* table, const Host& host);
  // Removes all items of a plugin.
  void remove(const Host& host);

  const ItemHead* find(std::string_view kind, std::string_view name) const;
  const ItemHead* head_of(const void* table) const;  // NULL if the table was not added
  std::vector<std::string> names(std::string_view kind) const;
  std::vector<const ItemHead*> all() const;             // by kind, then name
  std::vector<std::string> of(const Host& host) const;  // "layer linear", ...
  // By descending priority, then by name.
  const std::vector<const plait_kernel_item*>& kernels(std::string_view op,
                                                       std::string_view device) const;

 private:
  using ByName = std::map<std::string, ItemHead, std::less<>>;
  std::map<std::string, ByName, std::less<>> kinds_;
  std::unordered_map<const void*, const ItemHead*> by_table_;
  std::map<std::string, std::vector<const plait_kernel_item*>, std::less<>>
      kernels_;  // "device/op"
  std::vector<const plait_kernel_item*> no_kernels_;
};

}  // namespace plait::plugin
