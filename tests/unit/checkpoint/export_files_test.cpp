// Files that lie beside exported weights.
#include <doctest/doctest.h>
#include <plait/base.h>

#include <string>
#include <vector>

#include "engine/checkpoint/export_weights.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"

TEST_CASE("files beside the weights are made, or copied whole: empty ones, and large ones") {
  using namespace plait::checkpoint;
  MemoryFiles files;
  std::string large(2'500'000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i % 251);
  files.replace("empty", "");
  files.replace("small", "abc");
  files.replace("large", large);
  const auto paths = write_new_folder(
      files, "out",
      {{"a", "", "empty"}, {"b", "", "small"}, {"c", "", "large"}, {"d", "own text", ""}});
  CHECK(paths == std::vector<std::string>{"out/a", "out/b", "out/c", "out/d"});
  CHECK(files.list("out") == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(files.content("out/a").empty());
  CHECK(files.content("out/b") == "abc");
  CHECK((files.content("out/c") == large));
  CHECK(files.content("out/d") == "own text");
}
