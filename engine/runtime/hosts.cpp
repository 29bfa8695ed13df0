#include "engine/runtime/hosts.hpp"

#include <algorithm>

namespace plait::runtime {

void Hosts::add(const std::string& text) {
  const auto known = std::find(names_.begin(), names_.end(), text);
  const auto host = static_cast<uint32_t>(known - names_.begin());
  if (known == names_.end()) {
    names_.push_back(text);
    members_.emplace_back();
  }
  local_index_.push_back(size_of(host));
  members_[host].push_back(size());
  host_.push_back(host);
}

bool Hosts::even() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& host) { return host.size() == members_[0].size(); });
}

bool Hosts::consecutive(uint32_t host) const {
  return members_[host].back() - members_[host].front() + 1 == size_of(host);
}

bool Hosts::all_consecutive() const {
  for (uint32_t h = 0; h < count(); ++h)
    if (!consecutive(h)) return false;
  return true;
}

}  // namespace plait::runtime
