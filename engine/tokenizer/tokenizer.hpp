// A tokenizer of a plugin, opened; what it returns is checked.
#pragma once

#include <plait/tokenizer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/plugin/registry.hpp"
#include "kit/valid_utf8.hpp"

namespace plait::tokenizer {

// Any thread, several at a time.
class Tokenizer {
 public:
  // Errors: those of the item's open(); PLAIT_ERR_PLUGIN for a malformed description.
  Tokenizer(const config::ItemConfig& config, std::shared_ptr<const plugin::Registry> registry);
  Tokenizer(const std::string& type, const plait_options* options,
            std::shared_ptr<const plugin::Registry> registry);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  const plait_tokenizer_info& info() const { return info_; }
  std::span<const plait_special_token> specials() const {
    return {info_.specials, info_.n_specials};
  }

  // flags: PLAIT_ENCODE_*. With `strict`, bytes that are not UTF-8 are an error, PLAIT_ERR_DATA.
  std::vector<int32_t> encode(std::string_view text, uint32_t flags, bool strict,
                              kit::InvalidBytes& invalid) const;
  // flags: PLAIT_DECODE_*. Errors: PLAIT_ERR_INVALID for an id out of range.
  std::string decode(std::span<const int32_t> ids, uint32_t flags) const;

  // {"schema": 1, "type", "plugin", "vocabulary", "fingerprint", "specials": [{"text", "id",
  // "role"}]}
  std::string json() const;

 private:
  void check_info() const;
  [[noreturn]] void fail_plugin(const std::string& what) const;

  std::shared_ptr<const plugin::Registry> registry_;  // keeps the plugin loaded
  const plait_tokenizer_item& item_;
  const plait_host* host_;
  std::string plugin_;
  void* handle_ = nullptr;
  plait_tokenizer_info info_{};
};

}  // namespace plait::tokenizer
