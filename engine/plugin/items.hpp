// Items by kind: the tables that plugins added.
#pragma once

#include <plait/comm.h>
#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/op.h>
#include <plait/optimizer.h>
#include <plait/plugin.h>

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

// What all kinds have in common, read from an item's table.
struct ItemHead {
  std::string kind;  // "plait.layer/1"
  std::string name;  // of a kernel: "cpu/matmul/jit"
  const void* table = nullptr;
  const Host* host = nullptr;
  std::string help;
  config::OptionView options;
};

// "layer" of "plait.layer/1".
std::string_view short_kind(std::string_view kind);

// Borrowed static tables; valid until their plugin is closed. Owner thread only, reading from any.
class Items {
 public:
  // Checks the table (known kind, size of ABI 1 at least, a name, the functions that must be there, options well-formed, no second
  // item of that name) and keeps it. Errors: PLAIT_ERR_PLUGIN.
  void add(std::string_view kind, const void* table, const Host& host);
  // Takes out everything a plugin added.
  void remove(const Host& host);

  const ItemHead* find(std::string_view kind, std::string_view name) const;
  const ItemHead* head_of(const void* table) const;  // NULL for a stranger
  std::vector<std::string> names(std::string_view kind) const;
  std::vector<const ItemHead*> all() const;             // by kind, then name
  std::vector<std::string> of(const Host& host) const;  // "layer linear", ...
  // Highest priority first, then by name.
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
