#include "engine/config/renamed_keys.hpp"

#include <algorithm>

namespace plait::config {
namespace {

struct RenamedKey {
  std::string_view before, now;
};

constexpr RenamedKey kRenamed[] = {
    // [optimizer] and its groups
    {"rate", "learning_rate"},
    {"decay", "weight_decay"},
    {"clip", "clip_grad_norm"},
    {"rate_decay", "learning_rate_decay"},
    {"initial_sum", "initial_accumulator_value"},
    {"independent_decay", "independent_weight_decay"},
    // [topology]
    {"chunks", "virtual_stages"},
    {"bucket", "bucket_mib"},
    {"comm", "backend"},
    // losses
    {"smoothing", "label_smoothing"},
    // [optimizer.schedule]
    {"warmup", "warmup_steps"},
    {"delay", "delay_steps"},
    {"steps", "total_steps"},
    {"minimum", "min_ratio"},
    {"cooldown", "decay_steps"},
    {"shape", "decay_style"},
    // [device]
    {"bind_caller", "bind"},
};

}  // namespace

std::string renamed_key(std::string_view key, std::span<const std::string> known) {
  for (const RenamedKey& k : kRenamed)
    if (k.before == key && std::find(known.begin(), known.end(), k.now) != known.end())
      return std::string(k.now);
  return "";
}

std::string renamed_value(std::string_view key) {
  if (key == "bind_caller")
    return "write bind = \"all\" to bind the calling thread, too, \"workers\" for the others "
           "alone, \"none\" for neither";
  return "";
}

}  // namespace plait::config
