// The members of a group that share a machine. R members on H hosts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plait::runtime {

class Hosts {
 public:
  // (R) the machine of each member; equal texts share a machine.
  template <class Texts>
  explicit Hosts(const Texts& texts) {
    for (const auto& text : texts) add(std::string(text));
  }

  // (H) members of each host, both in the order of the group.
  const std::vector<std::vector<uint32_t>>& members() const { return members_; }
  const std::string& name(uint32_t host) const { return names_[host]; }
  uint32_t count() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t size() const { return static_cast<uint32_t>(host_.size()); }  // R
  // The host of a member, and its index among the members of that host.
  uint32_t host_of(uint32_t member) const { return host_[member]; }
  uint32_t local_index_of(uint32_t member) const { return local_index_[member]; }
  // Members of a host.
  uint32_t size_of(uint32_t host) const { return static_cast<uint32_t>(members_[host].size()); }

  bool even() const;                      // all hosts have equally many
  bool consecutive(uint32_t host) const;  // its members are consecutive in the group
  bool all_consecutive() const;

 private:
  void add(const std::string& text);
  std::vector<std::string> names_;
  std::vector<std::vector<uint32_t>> members_;
  std::vector<uint32_t> host_, local_index_;
};

}  // namespace plait::runtime
