// The options that an item declares, as its static table stores them.
#pragma once

#include <plait/option.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::config {

// Borrowed from the plugin. Elements may be larger than this version's plait_option: the stride is
// the struct_size of the first element.
class OptionView {
 public:
  OptionView() = default;
  OptionView(const plait_option* first, uint32_t n) : first_(first), n_(first ? n : 0) {}
  OptionView(std::span<const plait_option> all)
      : OptionView(all.data(), static_cast<uint32_t>(all.size())) {}

  uint32_t size() const { return n_; }
  const plait_option& operator[](uint32_t i) const {
    return *reinterpret_cast<const plait_option*>(reinterpret_cast<const char*>(first_) +
                                                  i * first_->struct_size);
  }
  const plait_option* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  const plait_option* first_ = nullptr;
  uint32_t n_ = 0;
};

// "" if the declarations are well-formed, else the fault (a bug of the plugin): size, name, type,
// or a default that violates its own declaration.
std::string defect_of(const OptionView& options);

// "layer" of "plait.layer/1".
std::string kind_word(std::string_view kind);
// "integer >= 1, in samples": type, range, choices and unit for comments and messages.
std::string describe_option(const plait_option& option);
// "integer", "list of reals"; "unknown type" for other values
const char* type_name(uint32_t type);

}  // namespace plait::config
