// The options that an item declares, as they lie in its static table.
#pragma once

#include <plait/option.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::config {

// Borrowed from the plugin. Elements may be larger than plait_option is here: the stride is the first one's struct_size.
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

// "" when the declarations are well-formed, else what is wrong with them (the plugin's bug): size, name, type, a default that
// does not satisfy its own declaration.
std::string defect_of(const OptionView& options);

// "integer >= 1, in samples": type, range, choices and unit for comments and messages.
std::string describe_option(const plait_option& option);
const char* type_name(uint32_t type);  // "integer", "list of reals"; "unknown type" for others

}  // namespace plait::config
