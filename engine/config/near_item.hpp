// The item of a plugin that someone probably meant by a name that no item has.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/config/catalog.hpp"

namespace plait::config {

// Of `names`, items of `kind` ("plait.device/1") in most cases: the one that is near by its letters
// ("linaer" is linear, "ReLU" is relu, "MSELoss" mse), or the only one whose help has `name` as a
// word ("gpu" is cuda, "an NVIDIA GPU"); "" if there is none.
std::string near_item(const std::string& name, std::string_view kind,
                      std::span<const std::string> names, const Catalog& catalog);

}  // namespace plait::config
