// Plugins that another process swaps while they are loaded: what runs is what was checked.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "kit/fd.hpp"
#include "tests/abi/fault_plugins.hpp"

using namespace plait;
using namespace plait::test;

namespace {

constexpr uid_t kOtherUser = 4322;
constexpr gid_t kOtherGroup = 4321;

// A process that exchanges two entries of a folder all the time. As another user, it may fail to.
class Swapper {
 public:
  Swapper(const std::string& folder, const char* one, const char* two, bool other_user) {
    const kit::Fd at(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at);
    const pid_t parent = getpid();
    child_ = fork();
    REQUIRE(child_ >= 0);
    if (child_ > 0) return;
    if (other_user && (setgroups(0, nullptr) || setgid(kOtherGroup) || setuid(kOtherUser)))
      _exit(1);
    while (getppid() == parent)
      if (renameat2(at.get(), one, at.get(), two, RENAME_EXCHANGE) != 0 && !other_user) _exit(1);
    _exit(0);
  }
  ~Swapper() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;
  bool runs() const { return waitpid(child_, nullptr, WNOHANG) == 0; }

 private:
  pid_t child_ = -1;
};

const std::string kSwapped = kFolder + "/swapped/plait-fault-swapped.so";

// Code of the swapped plugin leaves a mark as soon as it runs.
struct Mark {
  std::string path;
  explicit Mark(std::string mark) : path(std::move(mark)) { setenv("FAULT_MARK", path.c_str(), 1); }
  ~Mark() { unsetenv("FAULT_MARK"); }
  bool there() const { return FileSystem::posix().exists(path); }
};

// Of `races` loads while another user tries to swap entries of `folder`: how many succeeded.
int loaded_beside_other_user(const std::string& folder, const char* one, const char* two,
                             const std::string& path, int races) {
  const Swapper swapper(folder, one, two, true);
  int loaded = 0;
  for (int i = 0; i < races; ++i) loaded += Bench().refusal(path).empty();
  CHECK(swapper.runs());
  return loaded;
}

}  // namespace

TEST_CASE("a plugin that is replaced while it is loaded is refused") {
  const Scratch at;
  const std::string path = at.copy(fault("none"), "x.so");
  at.copy(kSwapped, "y.so");
  const Swapper swapper(at.folder, "x.so", "y.so", false);
  int loaded = 0;
  for (int i = 0; i < 1000; ++i) {
    Bench bench;
    const std::string text = bench.refusal(path);
    const plugin::LoadEntry& entry = bench.registry.report().entries.at(0);
    if (!text.empty()) {
      CHECK(contains(text, "the file was replaced while it was loaded"));
      continue;
    }
    ++loaded;
    const bool first = entry.version == "1.0.0";  // as it was checked
    CHECK(entry.items ==
          std::vector<std::string>{first ? "layer fault_layer" : "layer swapped_layer"});
  }
  CHECK(swapper.runs());
  CHECK(loaded > 0);
}

TEST_CASE("another user who can swap a plugin, or a folder above it, runs no code by that") {
  if (geteuid() != 0) return;  // only root can act for another user
  const Scratch at;
  const Mark mark(at.folder + "/mark");
  const std::string good = at.copy(fault("none"), "a/good/x.so"),
                    bad = at.copy(kSwapped, "a/bad/x.so"), folder = folder_of(folder_of(good));
  at.copy(kSwapped, "a/good/y.so");
  for (const std::string& path : {bad, folder_of(bad), folder_of(good) + "/y.so"})
    REQUIRE(chown(path.c_str(), kOtherUser, kOtherGroup) == 0);
  const std::string own = folder_of(good);
  const struct {
    const char* what;
    std::string folder;  // in which entries are swapped
    const char *one, *two;
    uid_t owner;
    mode_t mode;
    bool loads;
  } cases[] = {
      {"the file, in a folder of the group", own, "x.so", "y.so", 0, 0775, false},
      {"the file, in a sticky folder", own, "x.so", "y.so", 0, 01777, true},
      {"the folder, below one of the group", folder, "good", "bad", 0, 0775, false},
      {"the folder, below one of the other user", folder, "good", "bad", kOtherUser, 0755, false},
      {"the folder, below one that everybody may write", folder, "good", "bad", 0, 0777, false},
      {"the folder, below a sticky one", folder, "good", "bad", 0, 01777, true},
      {"the folder, below a sticky one of the other user", folder, "good", "bad", kOtherUser, 01755,
       false},
      {"the folder, below one of root", folder, "good", "bad", 0, 0755, true},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    REQUIRE(chown(c.folder.c_str(), c.owner, kOtherGroup) == 0);
    REQUIRE(chmod(c.folder.c_str(), c.mode) == 0);
    CHECK(loaded_beside_other_user(c.folder, c.one, c.two, good, 200) == (c.loads ? 200 : 0));
    CHECK_FALSE(mark.there());
    REQUIRE(chown(c.folder.c_str(), 0, 0) == 0);
    REQUIRE(chmod(c.folder.c_str(), 0755) == 0);
    // What was swapped last is put back.
    const bool swapped = FileSystem::posix().info(good).owner != 0;
    if (swapped)
      REQUIRE(renameat2(AT_FDCWD, (c.folder + "/" + c.one).c_str(), AT_FDCWD,
                        (c.folder + "/" + c.two).c_str(), RENAME_EXCHANGE) == 0);
  }
}
