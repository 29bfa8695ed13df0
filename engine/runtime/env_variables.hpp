// Environment variables, read with error messages that name them. An empty variable counts as
// unset.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/job.hpp"

namespace plait::runtime {

class EnvVariables {
 public:
  explicit EnvVariables(const GetEnv& get) : get_(get) {}
  const GetEnv& get() const { return get_; }
  bool has(const char* name) const;
  std::string text(const char* name) const;  // "" when unset
  // Errors of all: PLAIT_ERR_CONFIG.
  int64_t integer(const char* name, int64_t least, int64_t most) const;
  double seconds(const char* name, double otherwise) const;  // above 0
  // Throws an error about the value of `name`.
  [[noreturn]] void refuse(const char* name, const std::string& expected) const;

 private:
  const GetEnv& get_;
};

}  // namespace plait::runtime
