// Which of many texts a text begins with.
#pragma once

#include <string_view>

#include "plugins/tokenizers/subword/pair_table.hpp"

namespace plait::subword {

class ByteTrie {
 public:
  ByteTrie() : children_(0), values_{kNone} {}

  // The last value of a text stays. value >= 0.
  void add(std::string_view text, int32_t value) {
    int32_t node = 0;
    for (const char c : text) {
      const int32_t byte = static_cast<unsigned char>(c);
      const int32_t* child = children_.find(node, byte);
      const int32_t fresh = static_cast<int32_t>(values_.size());
      if (!child) {
        children_.add(node, byte, fresh);
        values_.push_back(kNone);
      }
      node = child ? *child : fresh;
    }
    values_[static_cast<size_t>(node)] = value;
  }
  bool empty() const { return values_.size() == 1; }

  // Calls found(size in bytes, value) for each text that `text` begins with, shortest first.
  template <class F>
  void prefixes(std::string_view text, F&& found) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const int32_t* child = children_.find(node, static_cast<unsigned char>(text[i]));
      if (!child) return;
      node = *child;
      if (const int32_t value = values_[static_cast<size_t>(node)]; value != kNone)
        found(i + 1, value);
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  PairTable<int32_t> children_;  // (node, byte); node 0 is the root
  std::vector<int32_t> values_;  // by node
};

}  // namespace plait::subword
