#include <doctest/doctest.h>
#include <stdlib.h>

#include "tests/unit/plugin/fixtures.hpp"

using namespace plait;
using namespace plait::plugin;

TEST_CASE("the places are searched in the one documented order") {
  setenv("PLAIT_PLUGIN_PATH", "/env/a::relative", 1);
  setenv("HOME", "/home/somebody", 1);
  const std::vector<SearchPath> places = default_search_paths();
  unsetenv("PLAIT_PLUGIN_PATH");
  REQUIRE(places.size() == 4);
  CHECK(places[0].path == "/env/a");
  CHECK(places[0].source == "PLAIT_PLUGIN_PATH");
  CHECK(places[1].path == "relative");
  CHECK(places[2].path == "/home/somebody/.local/lib/plait/plugins-1");
  CHECK(places[3].path == engine_folder() + "/plait/plugins-1");
  for (const SearchPath& place : places) CHECK_FALSE(place.must);
}

TEST_CASE("named places are absolute") {
  const auto places = named_search_paths({"x", "/y"}, "experiment", "folder");
  CHECK(places[0].path == FileSystem::posix().real_path(".") + "/folder/x");
  CHECK(places[1].path == "/y");
  CHECK(places[0].source == "experiment");
  CHECK(places[0].must);
}

TEST_CASE("relative and absent places are reported; a named one is an error") {
  Bench bench;
  bench.registry.load_all(
      {{"relative", "PLAIT_PLUGIN_PATH", false}, {"/no/such/folder", "user", false}});
  REQUIRE(bench.registry.report().entries.size() == 2);
  CHECK(bench.registry.report().entries[1].outcome == Outcome::kAbsent);
  // As a folder that this user may not look into, which a test that runs as root cannot have.
  bench.registry.load_all({{"/" + std::string(300, 'x'), "user", false}});
  REQUIRE(bench.registry.report().entries.size() == 3);
  CHECK(bench.registry.report().entries[2].outcome == Outcome::kAbsent);
  CHECK(contains(bench.registry.report().entries[2].reason, "cannot examine"));
  const Error e = error_of([&] {
    bench.registry.load_all({{"/no/such/plugin.so", "given", true}});
  });
  CHECK(e.code() == PLAIT_ERR_NOT_FOUND);
  CHECK(e.text() ==
        "[plugin] '/no/such/plugin.so': there is no such file; check the path; plugins are files "
        "named plait-NAME.so");
  CHECK(contains(error_of([&] { bench.registry.load("here.so"); }).text(),
                 "found a relative path, expected an absolute one"));
}
