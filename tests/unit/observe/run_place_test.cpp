// Where a run directory may be made, what is durable of it, and who holds it.
#include <doctest/doctest.h>
#include <plait/base.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/observe/run_dir.hpp"
#include "engine/observe/run_lock.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/observe/temp_folder.hpp"

namespace {

using plait::observe::lock_run_around;
using plait::observe::RunDir;
using plait::test::error_of;
using Names = std::vector<std::string>;

constexpr char kAdvice[] = " for the run's files, with --run-dir or run.out";

// Files by their names, each with its content; one that ends in '/' is a folder.
using Content = std::vector<std::pair<std::string, std::string>>;

void make(plait::FileSystem& files, const std::string& folder, const Content& content) {
  for (const auto& [name, text] : content) {
    const std::string path = plait::join_path(folder, name);
    if (name.ends_with('/')) {
      files.make_folders(path);
      continue;
    }
    files.make_folders(plait::folder_of(path));
    files.replace(path, text);
  }
}

}  // namespace

TEST_CASE("a run is made beside what an interrupted start left, and beside checkpoints alone") {
  const std::string lock = "host a, process 1\n", kilo = lock + std::string(1024 - 18, ' ');
  const struct {
    Content content;
    std::string refused;  // the name that is in the way; "" if none is
  } cases[] = {{{}, ""},
               {{{"log/", ""}, {"ckpt/", ""}}, ""},
               {{{"log/rank-0.log", ""}}, "log"},
               {{{"log/step-1/MANIFEST.json", ""}}, "log"},
               {{{"ckpt/step-1/MANIFEST.json", ""}, {"ckpt/latest", ""}, {"ckpt/best", ""}}, ""},
               {{{"ckpt/step-1/", ""}}, "ckpt"},
               {{{"ckpt/latest/", ""}}, "ckpt"},
               {{{"lock", ""}}, ""},
               {{{"lock", lock}}, ""},
               {{{"lock", kilo}}, ""},
               {{{"lock", kilo + " "}}, "lock"},
               {{{"lock", "of something else"}}, "lock"},
               {{{"overrides.txt", ""}}, "overrides.txt"},
               {{{"env.json.tmp-12", ""}}, "env.json.tmp-12"},
               {{{"lock", lock}, {"env.json", ""}, {"overrides.txt", ""}, {"log/", ""}}, ""},
               {{{"lock", lock}, {"run.toml.tmp-12", ""}}, ""},
               {{{"lock", lock}, {"run.toml.old", ""}}, "run.toml.old"},
               {{{"lock", lock}, {"notes.txt", ""}}, "notes.txt"},
               {{{"lock", ""}, {"run.toml", ""}}, "run.toml"},
               {{{"data/", ""}}, "data"}};
  for (const auto& one : cases) {
    const TempFolder folder;
    make(folder.files(), folder.path(), one.content);
    const plait::Error e = error_of([&] { RunDir::prepare(folder.files(), folder.path()); });
    CHECK(e.text() == (one.refused.empty()
                           ? "no error"
                           : "[run] " + folder.path() +
                                 " is neither empty nor a run directory (it has no run.toml, but "
                                 "'" +
                                 one.refused + "'); name another folder"));
    CHECK(e.code() == (one.refused.empty() ? PLAIT_OK : PLAIT_ERR_STATE));
  }
}

TEST_CASE("a place where no folder can be made says how to name another one") {
  const TempFolder folder;
  folder.files().replace(folder / "file", "");
  const std::string text = error_of(
      [&] { RunDir::create(folder.files(), folder / "file", "a", "", {}, {}); }, PLAIT_ERR_IO);
  CAPTURE(text);
  CHECK(text.ends_with(std::string("; name another place") + kAdvice));
  MemoryFiles files;
  files.fail_at = 0;
  CHECK(error_of([&] { RunDir::create(files, "out", "a", "", {}, {}); }, PLAIT_ERR_IO) ==
        std::string("[files] mkdir out: Input/output error; name another place") + kAdvice);
}

TEST_CASE("of a new run directory the names of all folders above are durable") {
  MemoryFiles files;
  const RunDir run = RunDir::create(files, "out", "a/b", "x = 1\n", {}, {});
  REQUIRE(files.trace.size() > 4);
  CHECK(Names(files.trace.end() - 4, files.trace.end()) ==
        Names{"syncdir " + run.path(), "syncdir out/a/b", "syncdir out/a", "syncdir out"});
  RunDir::create_at(files, "new/above/here", "y = 2\n", {}, {});
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto after = files.after_power_cut(seed);
    CHECK(after->content(run.path() + "/run.toml") == "x = 1\n");
    CHECK(after->content("new/above/here/run.toml") == "y = 2\n");
  }

  // A folder that cannot be made durable is an error, the one above all new ones, too.
  for (const char* synced : {"syncdir new/above", "syncdir new", "syncdir ."}) {
    MemoryFiles bad;
    RunDir::create_at(bad, "new/above/here", "", {}, {});
    const auto at = std::find(bad.trace.begin(), bad.trace.end(), synced);
    REQUIRE(at != bad.trace.end());
    MemoryFiles again;
    again.fail_at = at - bad.trace.begin();
    CAPTURE(synced);
    CHECK(error_of([&] { RunDir::create_at(again, "new/above/here", "", {}, {}); }, PLAIT_ERR_IO)
              .starts_with(std::string("[files] ") + synced));
  }

  // Another name is tried for one that is taken, and not for an error.
  int64_t call = 0;
  while (files.trace[static_cast<size_t>(call)] != "mkdir " + run.path()) ++call;
  MemoryFiles failing;
  failing.fail_at = call;
  CHECK(error_of([&] { RunDir::create(failing, "out", "a/b", "", {}, {}); }, PLAIT_ERR_IO)
            .starts_with("[files] mkdir out/a/b/"));
  CHECK(failing.list("out/a/b").empty());
}

TEST_CASE("who is refused waits for the name of a holder that has just begun") {
  // Another process has the lock; each time the file is read, it holds the next text.
  struct Held : MemoryFiles {
    explicit Held(std::vector<std::string> all) : texts(std::move(all)) {}
    std::vector<std::string> texts;
    size_t reads = 0, tries = 0;
    std::unique_ptr<plait::FileLock> lock(const std::string&) override {
      ++tries;
      throw plait::Error(PLAIT_ERR_STATE, "locked");
    }
    std::string read_all(const std::string&, uint64_t) override {
      return texts[std::min(reads++, texts.size() - 1)];
    }
  };
  const auto refused = [](Held& files) {
    return error_of([&] { const plait::observe::RunLock lock(files, "r"); }, PLAIT_ERR_STATE);
  };

  // Of Linux all ids are smaller than the greatest one here: no process has it.
  const std::string own = "host " + plait::host_name() + ", process ",
                    holder = own + std::to_string(getpid()) + "\n";
  for (const char* id :
       {"", "0", "-1", "x", "1x", "2147483647", "4294967297", "99999999999999999999"}) {
    CAPTURE(id);
    Held files({own + id + "\nsince 1.0\n", "", holder});
    CHECK(refused(files) == "[run] the run directory r is in use by " + own +
                                std::to_string(getpid()) +
                                "; stop that run, or start this one in a directory of its own");
    CHECK(files.reads == 3);
    CHECK(files.tries == 12);  // before the tenth nothing is read
  }
  Held other({"host other, process 2147483647\n"});
  CHECK(refused(other).find(" in use by host other, process 2147483647; ") != std::string::npos);
  CHECK(other.tries == 10);
  // One that never writes its name: about a second.
  Held none({""});
  CHECK(refused(none).starts_with("[run] the run directory r is in use by another process; "));
  CHECK(none.tries == 200);
}

TEST_CASE("a lock that is held for a moment only does not refuse a run") {
  struct Looked : MemoryFiles {
    int refusals = 9;  // as `plait ls` locks the file to see whether a run holds it
    std::unique_ptr<plait::FileLock> lock(const std::string&) override {
      if (refusals-- > 0) throw plait::Error(PLAIT_ERR_STATE, "locked");
      return std::make_unique<plait::FileLock>();
    }
  };
  const std::string own = "host " + plait::host_name() + ", process " + std::to_string(getpid());
  for (const std::string& before : {std::string("host other, process 1"), own}) {
    Looked files;
    files.make_folder("r");
    files.open("r/lock", plait::OpenMode::kReplace)->close();
    files.set_content("r/lock", before + "\n");
    const plait::observe::RunLock lock(files, "r");
    CHECK(files.refusals == -1);
    CHECK(files.content("r/lock").starts_with(own + "\nsince "));
  }
}

TEST_CASE("what is made among the checkpoints of a run holds its lock") {
  const TempFolder folder;
  auto& files = folder.files();
  make(files, folder.path(),
       {{"run/run.toml", ""}, {"run/ckpt/", ""}, {"run/other/", ""}, {"plain/ckpt/", ""}});
  for (const char* path : {"run/other/x", "run/x", "plain/ckpt/x", "none/ckpt/x"})
    CHECK_FALSE(lock_run_around(files, folder / path));
  const auto held = lock_run_around(files, folder / "run/ckpt/x");
  CHECK(held);
  const std::string text =
      error_of([&] { lock_run_around(files, folder / "run/ckpt/y"); }, PLAIT_ERR_STATE);
  CAPTURE(text);
  CHECK(text.starts_with("[run] the run directory " + files.real_path(folder / "run") +
                         " is in use by host "));
  CHECK(text.ends_with("; wait until that run ends, or write to another folder"));
}
