// How a session uses the folder that was named for its run.
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "engine/base/error.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

Outcome start(const std::string& dir, FileSystem& files) {
  return run_all({"run.steps=1", "run.resume=auto"}, 1, dir,
                 [&](int) -> FileSystem& { return files; })[0];
}

// After `n` changes no further change is possible, as for a process that has been killed.
class EndingFiles : public HookedFiles {
 public:
  explicit EndingFiles(int n)
      : HookedFiles([this, n](const std::string&, const std::string&) {
          if (changes_++ >= n) fail_io("[test] gone", EIO);
        }) {}
  void remove(const std::string& path) override {
    before("remove", path);
    HookedFiles::remove(path);
  }

 private:
  int changes_ = 0;
};

TEST_CASE("a start that ends while it makes the folder leaves one in which the next one starts") {
  int unfinished = 0;
  for (bool made = false; !made; ++unfinished) {
    REQUIRE(unfinished < 200);
    CAPTURE(unfinished);
    const Folder folder;
    const std::string dir = folder / "run";
    EndingFiles files(unfinished);
    CHECK(start(dir, files).code == PLAIT_ERR_IO);
    made = std::filesystem::exists(dir + "/run.toml");
    const Outcome again = start(dir, FileSystem::posix());
    CHECK(again.error == "");
    CHECK(again.last.step == 1);
    CHECK(steps_of(dir) == std::vector<int64_t>{1});
    for (const std::string& name : FileSystem::posix().list(dir))
      CHECK(name.find(".tmp-") == std::string::npos);
  }
  CHECK(unfinished > 10);
}

TEST_CASE("a folder that holds something else is refused, and stays as it is") {
  for (const char* name : {"notes.txt", "ckpt/mine", "ckpt/mine/model.safetensors",
                           "log/rank-0.log", "env.json", "overrides.txt", "lock"}) {
    CAPTURE(name);
    const Folder folder;
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "mine\n";
    const Outcome o = start(folder.path(), FileSystem::posix());
    CHECK(o.code == PLAIT_ERR_STATE);
    CHECK(o.error.find("is neither empty nor a run directory") != std::string::npos);
    CHECK(o.error.find(path.lexically_relative(folder.path()).begin()->string()) !=
          std::string::npos);
    CHECK(FileSystem::posix().list(folder.path()).size() == 1);
  }
}

TEST_CASE("a lock file without the content of a run says nothing about the files beside it") {
  const Folder folder;
  std::ofstream(folder / "lock").flush();
  std::ofstream(folder / "env.json") << "mine\n";
  CHECK(start(folder.path(), FileSystem::posix()).code == PLAIT_ERR_STATE);
  std::ifstream file(folder / "env.json");
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == "mine\n");
}

TEST_CASE("a folder in which nothing can be lost is taken") {
  for (const std::string name : {"ckpt/", "log/", "lock"}) {
    CAPTURE(name);
    const Folder folder;
    if (name.back() == '/')
      std::filesystem::create_directory(folder / name);
    else
      std::ofstream(folder / name).flush();
    CHECK(start(folder.path(), FileSystem::posix()).error == "");
  }
}

}  // namespace
