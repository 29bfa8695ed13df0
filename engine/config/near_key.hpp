// The key that someone probably meant by one that does not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plait::config {

// The known key that other libraries call `key` ("r" is rank), or that it abbreviates by its
// initials ("lr" is learning_rate), or that is near by its letters ("cuont" is count), or that has
// the most of its words ("max_grad_norm" is clip_grad_norm, "warmup" is warmup_steps); "" if there
// is none.
std::string near_key(const std::string& key, std::span<const std::string> known);

// The path of what other libraries call `key` where it stands alone: "lr" is
// optimizer.learning_rate; "" if there is none.
std::string usual_path(std::string_view key);

}  // namespace plait::config
