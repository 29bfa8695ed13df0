// The item of a plugin that someone probably meant by a name that no item has.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/config/catalog.hpp"

namespace plait::config {

// Of `names`, items of `kind` ("plait.device/1") in most cases: the one of the same letters ("ReLU"
// is relu, "MSELoss" mse), else the only one whose help has `name` as a word ("gpu" is cuda, "an
// NVIDIA GPU"), else the one that is near ("linaer" is linear); "" if there is none.
std::string near_item(const std::string& name, std::string_view kind,
                      std::span<const std::string> names, const Catalog& catalog);

}  // namespace plait::config
