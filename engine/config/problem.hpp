// Problems of a configuration and their positions. They are collected, so that one check reports
// all of them.
#pragma once

#include <plait/base.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait::config {

// The position where a value was set.
struct Origin {
  std::string file;  // "experiment.toml", "override 'run.seed=1'", or "default"
  int line = 0;      // from 1; 0: not a position in a file
  int column = 0;
  // "experiment.toml:12:3", "override 'run.seed=1'", "default".
  std::string text() const;
  static Origin of_override(std::string_view words) {
    return {std::string(kOverride) + std::string(words) + "'", 0, 0};
  }
  bool is_override() const { return file.starts_with(kOverride); }
  static Origin none() { return {"default", 0, 0}; }
  bool operator==(const Origin&) const = default;

 private:
  static constexpr std::string_view kOverride = "override '";
};

struct Problem {
  Origin origin;
  std::string path;     // "model.layers[2].out"; "" if it concerns the whole file
  std::string message;  // what, found, expected
  std::string hint;     // what to do; may be empty
  uint32_t code = PLAIT_ERR_CONFIG;
  // "experiment.toml:12:3: model.layers[2].out: message; hint"
  std::string text() const;
  bool operator==(const Problem&) const = default;
};

class Problems {
 public:
  // Adds a problem unless an equal one is present.
  void add(Origin origin, std::string path, std::string message, std::string hint = {},
           uint32_t code = PLAIT_ERR_CONFIG);
  bool empty() const { return all_.empty(); }
  size_t size() const { return all_.size(); }
  // True if a problem exists at `path` or below it: the value there cannot be relied on.
  bool touch(std::string_view path) const;
  // Sorted by file, line and column.
  std::vector<Problem> sorted() const;
  std::string text() const;  // one line each
  // [{"file", "line", "column", "path", "message", "hint"}, ...]
  std::string json() const;
  // Throws an error with the texts of all problems. Its code is theirs, or PLAIT_ERR_CONFIG if they
  // differ.
  [[noreturn]] void raise() const;
  void raise_if_any() const {
    if (!empty()) raise();
  }

 private:
  std::vector<Problem> all_;
};

}  // namespace plait::config
