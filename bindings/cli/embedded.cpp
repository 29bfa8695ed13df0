#include "bindings/cli/embedded.hpp"

namespace plait::cli {

std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  return "";
}

}  // namespace plait::cli
