// An array that a plugin fills.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"

namespace plait {

// n elements with room behind them: a plugin that sets more than it should then writes to no other
// memory, and is found out.
template <class T>
class PluginOutputs {
  static_assert(std::has_unique_object_representations_v<T>);  // compared as bytes

 public:
  PluginOutputs(size_t n, const T& initial) : n_(n), all_(n + kSpare, initial) {
    std::memset(static_cast<void*>(all_.data() + n), kUntouched, kSpare * sizeof(T));
  }
  T* data() { return all_.data(); }

  // The n elements. Errors: PLAIT_ERR_PLUGIN if more were set; what: "outputs, the item declares".
  std::vector<T> take(const PluginCall& at, const char* what) {
    T untouched;
    std::memset(static_cast<void*>(&untouched), kUntouched, sizeof untouched);
    size_t set = all_.size();
    while (set > n_ && std::memcmp(&all_[set - 1], &untouched, sizeof untouched) == 0) --set;
    if (set > n_)
      fail(PLAIT_ERR_PLUGIN, "[plugin " + std::string(at.plugin) + "] " + text_of(at) +
                                 strf(" set %zu %s %zu; tell its author", set, what, n_));
    all_.resize(n_);
    return std::move(all_);
  }

 private:
  static constexpr int kUntouched = 0xa5;
  static constexpr size_t kSpare = 4096 / sizeof(T);  // plugin/items.hpp counts on 1024 ids
  const size_t n_;
  std::vector<T> all_;
};

}  // namespace plait
