// The key that someone probably meant by one that does not exist.
#pragma once

#include <span>
#include <string>

namespace plait::config {

// The known key that `key` abbreviates by its initials ("lr" is learning_rate), or that is near by
// its letters ("cuont" is count), or that has the most of its words ("max_grad_norm" is
// clip_grad_norm, "warmup" is warmup_steps); "" if there is none.
std::string near_key(const std::string& key, std::span<const std::string> known);

}  // namespace plait::config
