#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "engine/base/files.hpp"
#include "engine/config/extends.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

namespace {
namespace fs = std::filesystem;

// Files in a folder of their own.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "plait-extends-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  struct Result {
    Document document;
    std::string problems;
  };
  Result read(const std::string& name) const {
    Problems problems;
    Document document = Document::read(FileSystem::posix(), (path / name).string(), problems);
    return {std::move(document), problems.text()};
  }
  fs::path path;
};

}  // namespace

TEST_CASE("a file goes above those that it extends: tables are merged, lists replaced") {
  const Folder f;
  f.write("base.toml",
          "[run]\nseed = 1\nsteps = 5\n[model]\nlayers = [{type = \"a\"}, {type = \"b\"}]\n"
          "[optimizer]\ntype = \"x\"\nbeta = 3\n");
  f.write("sub/more.toml", "extends = \"../base.toml\"\n[run]\nseed = 2\nname = \"m\"\n");
  f.write("own.toml",
          "extends = [\"sub/more.toml\"]\n[run]\nsteps = 7\n[model]\nlayers = [{type = \"c\"}]\n");
  const auto own = f.read("own.toml");
  CHECK(own.problems == "");
  CHECK(own.document.root.toml() ==
        "{run = {seed = 2, steps = 7, name = \"m\"}, model = {layers = [{type = \"c\"}]}, "
        "optimizer = {type = \"x\", beta = 3}}");
  CHECK(own.document.folder == f.path.string());
  // Each value tells the file that it is from.
  CHECK(own.document.root["optimizer"]["beta"].origin().text() ==
        (f.path / "base.toml").string() + ":8:8");
  CHECK(own.document.root["run"]["steps"].origin().text() ==
        (f.path / "own.toml").string() + ":3:9");
}

TEST_CASE("paths of plugins are relative to the file that gives them") {
  const Folder f;
  f.write("sub/base.toml", "[plugins]\npaths = [\"p.so\", \"/abs.so\"]\n");
  f.write("own.toml", "extends = \"sub/base.toml\"\n");
  const auto own = f.read("own.toml");
  const std::string sub = (f.path / "sub").string();
  CHECK(own.document.root.toml() == "{plugins = {paths = [\"" + sub + "/p.so\", \"/abs.so\"]}}");
}

TEST_CASE("the options of an item go with it") {
  const Folder f;
  f.write("base.toml", "[optimizer]\ntype = \"x\"\nbeta = 3\n");
  f.write("same.toml", "extends = \"base.toml\"\n[optimizer]\ntype = \"x\"\nrate = 1\n");
  CHECK(f.read("same.toml").document.root.toml() ==
        "{optimizer = {type = \"x\", beta = 3, rate = 1}}");
  f.write("other.toml", "extends = \"base.toml\"\n[optimizer]\ntype = \"y\"\n");
  CHECK(f.read("other.toml").document.root.toml() == "{optimizer = {type = \"y\"}}");
}

TEST_CASE("what cannot be extended is a problem with its place") {
  const Folder f;
  f.write("absent.toml", "extends = [\"no.toml\"]\n");
  CHECK(contains(f.read("absent.toml").problems,
                 "absent.toml:1:12: extends: file 'no.toml' not found in "));
  f.write("number.toml", "extends = [3]\n");
  CHECK(contains(
      f.read("number.toml").problems,
      "number.toml:1:12: extends: expected the path of an experiment file, found an integer"));
  f.write("a.toml", "extends = \"b.toml\"\n");
  f.write("b.toml", "extends = \"a.toml\"\n");
  CHECK(contains(f.read("a.toml").problems, "b.toml:1:11: extends: 'a.toml' extends this file"));
  f.write("bad.toml", "x = \n");
  f.write("over.toml", "extends = \"bad.toml\"\n");
  CHECK(contains(f.read("over.toml").problems, "bad.toml:1:"));
  // Two to the power of 40 readings.
  for (int i = 0; i < 40; ++i) {
    const std::string next = "\"f" + std::to_string(i + 1) + ".toml\"";
    f.write("f" + std::to_string(i) + ".toml", "extends = [" + next + ", " + next + "]\n");
  }
  f.write("f40.toml", "");
  CHECK(contains(f.read("f0.toml").problems, "more than 32 files are extended"));
}
