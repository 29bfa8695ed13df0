// Keys that had another name before ABI 1 was released. They are refused, and the error names the
// new one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plait::config {

// The present name of `key`, if it is one of `known`; else "". A key that an item declares under
// its old name is known there and never comes here.
std::string renamed_key(std::string_view key, std::span<const std::string> known);

// What to write in place of an old key whose values changed, too; "" if renaming it is enough.
std::string renamed_value(std::string_view key);

}  // namespace plait::config
