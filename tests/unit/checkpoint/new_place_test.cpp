#include "engine/checkpoint/new_place.hpp"

#include <doctest/doctest.h>
#include <plait/base.h>

#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;
using Names = std::vector<std::string>;

void write_file(MemoryFiles& files, const std::string& path, const char* text) {
  files.open(path, plait::OpenMode::kCreate)->write(text);
}

void write_out(MemoryFiles& files) {
  write_new(files, "at/out", "made", "'at/out' was not made", [&](const std::string& hidden) {
    files.make_folder(hidden);
    write_file(files, hidden + "/part", "text");
  });
}

}  // namespace

TEST_CASE("what is made at a new place is there complete, or nothing is left of it") {
  MemoryFiles whole;
  whole.make_folder("at");
  const int64_t before = whole.calls;
  write_out(whole);
  CHECK(whole.list("at") == Names{"out"});
  CHECK(whole.content("at/out/part") == "text");
  for (int64_t failing = before; failing < whole.calls; ++failing) {
    CAPTURE(failing);
    MemoryFiles files;
    files.make_folder("at");
    files.fail_at = failing;
    const std::string text = error_of([&] { write_out(files); }, PLAIT_ERR_IO);
    CHECK(text.find("[made] 'at/out' was not made") != std::string::npos);
    CHECK(files.list("at").empty());
  }
}

TEST_CASE("what is there already is left alone") {
  MemoryFiles files;
  files.make_folder("at");
  write_file(files, "at/out", "mine");
  CHECK(error_of([&] { write_out(files); }, PLAIT_ERR_INVALID) ==
        "[made] 'at/out' exists; remove it, or choose another name");
  CHECK(files.list("at") == Names{"out"});
  CHECK(files.content("at/out") == "mine");
}
