// Files of the tree that the program carries: examples, as templates of `plait new`, and completion
// scripts. bindings/CMakeLists.txt makes the table.
#pragma once

#include <span>
#include <string_view>

namespace plait::cli {

struct EmbeddedFile {
  const char* path;  // "examples/mnist_mlp/experiment.toml", "completion/plait.bash"
  std::string_view text;
};

// Sorted by path.
std::span<const EmbeddedFile> embedded_files();
// "" if there is no such file.
std::string_view embedded_text(std::string_view path);

}  // namespace plait::cli
