// On the machine's own file system: saves and loads of real files, the calls that a commit makes,
// and processes that are killed.
#include <fcntl.h>
#include <plait/base.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <random>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/checkpoint/sharded.hpp"

namespace {

// What the functions of the C library below do besides their work.
struct Calls {
  bool recording = false;
  std::vector<std::string> all;
  int interrupted = 0;  // fsync fails so many times with EINTR first
} g_calls;

std::string path_of(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "?";
}

void record(const std::string& text) {
  if (g_calls.recording) g_calls.all.push_back(text);
}

}  // namespace

// The linker takes these instead of those of the C library.
extern "C" {

int fsync(int fd) {
  if (g_calls.interrupted > 0) {
    --g_calls.interrupted;
    errno = EINTR;
    return -1;
  }
  struct stat s {};
  if (g_calls.recording && ::fstat(fd, &s) == 0)
    record("fsync " + path_of(fd) + (S_ISREG(s.st_mode) ? " " + std::to_string(s.st_size) : ""));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int rename(const char* from, const char* to) noexcept {
  record(std::string("rename ") + from + " " + to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  record(std::string("mkdir ") + path);
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
}

namespace {

struct Folder {
  std::string path;
  Folder() {
    const char* base = getenv("TMPDIR");
    path = std::string(base && *base ? base : "/tmp") + "/plait-test-XXXXXX";
    if (!mkdtemp(path.data())) path.clear();
  }
  ~Folder() { plait::FileSystem::posix().remove_all(path); }
};

}  // namespace

TEST_CASE("save and load on real files") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const std::string ckpt = plait::join_path(folder.path, "a/ckpt");
  for (int64_t step = 1; step <= 4; ++step) {
    const Sample sample(step, 70000);
    plait::checkpoint::CheckpointWriter(files, ckpt, 2, lines.log)
        .save(sample.state(), sample.tensors());
  }
  CHECK(plait::checkpoint::list_checkpoints(files, ckpt).size() == 2);
  CHECK(Sample(4, 70000).equals(
      *plait::checkpoint::open_checkpoint(files, plait::join_path(folder.path, "a"), lines.log)));
  for (const std::string& line : lines.all) CHECK(line == "");
}

TEST_CASE("a file in place of a checkpoint and a folder in place of a manifest are damage") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const std::string ckpt = plait::join_path(folder.path, "ckpt");
  save_sharded(files, ckpt, 0, lines.log, Sample(1), 2);
  files.open(ckpt + "/step-0000000002", plait::OpenMode::kCreate)->write("a file");
  files.make_folders(ckpt + "/step-0000000003/MANIFEST.json");
  CHECK(Sample(1).equals(*plait::checkpoint::open_newest(files, ckpt, lines.log)));
  CHECK(lines.mention("step-0000000002 cannot be used ("));
  CHECK(lines.mention("Is a directory); using step-0000000001 instead"));
}

TEST_CASE("the system is asked in the order that makes a commit whole") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const std::string ckpt = plait::join_path(folder.path, "ckpt");
  save_sharded(files, ckpt, 0, lines.log, Sample(1), 2);
  g_calls = {true, {}, 0};
  save_sharded(files, ckpt, 0, lines.log, Sample(2), 2);
  g_calls.recording = false;
  const std::string made = ckpt + "/step-0000000002";
  std::string hidden;
  std::vector<std::string> calls;
  for (std::string call : g_calls.all) {
    if (call.find("/latest") != std::string::npos) break;
    if (call.starts_with("mkdir ")) hidden = call.substr(6);
    for (const auto& [path, name] : {std::pair{hidden, "TMP"}, {made, "MADE"}, {ckpt, "CKPT"}})
      for (size_t at; (at = call.find(path)) != std::string::npos;)
        call.replace(at, path.size(), name);
    calls.push_back(call);
  }
  // A file is whole when it is synced: it has its final size. Shares are read again and removed.
  const auto synced = [&](const std::string& name) {
    return "fsync TMP/" + name + " " + std::to_string(files.info(made + "/" + name).size);
  };
  std::erase_if(calls, [](const std::string& c) { return c.find("/share-") != c.npos; });
  CHECK(calls == std::vector<std::string>{"mkdir TMP", synced("model-00001-of-00002.safetensors"),
                                          synced("optimizer-00001-of-00002.safetensors"),
                                          synced("model-00002-of-00002.safetensors"),
                                          synced("optimizer-00002-of-00002.safetensors"),
                                          synced("run.toml"), synced("MANIFEST.json"), "fsync TMP",
                                          "rename TMP MADE", "fsync CKPT"});
}

TEST_CASE("a sync that a signal interrupts is made again") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  Lines lines;
  const std::string ckpt = plait::join_path(folder.path, "ckpt");
  g_calls.interrupted = 3;
  save_sharded(files, ckpt, 0, lines.log, Sample(1), 2);
  CHECK(g_calls.interrupted == 0);
  CHECK(Sample(1).equals(*plait::checkpoint::open_newest(files, ckpt, lines.log)));
  // One that is always interrupted ends with an error, and the checkpoint before it stays.
  g_calls.interrupted = 1'000'000;
  const Sample next(2);
  try {
    plait::checkpoint::CheckpointWriter(files, ckpt, 0, lines.log)
        .save(next.state(), next.tensors());
    FAIL("saved");
  } catch (const plait::Error& e) {
    CHECK(e.code() == PLAIT_ERR_IO);
    CHECK(e.full_text().find("Interrupted system call") != std::string::npos);
  }
  g_calls.interrupted = 0;
  CHECK(Sample(1).equals(*plait::checkpoint::open_newest(files, ckpt, lines.log)));
}

namespace {

// In a child process: saves one step after another, and tells each that is committed.
[[noreturn]] void save_for_ever(const std::string& ckpt, int64_t step, int32_t ranks, int tell) {
  Lines lines;
  for (;; ++step) {
    save_sharded(plait::FileSystem::posix(), ckpt, 3, lines.log, Sample(step), ranks);
    if (::write(tell, &step, sizeof step) != sizeof step) _exit(1);
  }
}

}  // namespace

TEST_CASE("killed fifty times, a run always has its newest checkpoint, and no more than it keeps") {
  const Folder folder;
  auto& files = plait::FileSystem::posix();
  const std::string ckpt = plait::join_path(folder.path, "ckpt");
  std::mt19937_64 random(8);
  int64_t committed = 0;
  for (int i = 0; i < 50; ++i) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) save_for_ever(ckpt, committed + 1, i % 3 + 1, ends[1]);
    ::close(ends[1]);
    // Killed somewhere in the save behind another.
    REQUIRE(::read(ends[0], &committed, sizeof committed) > 0);
    ::usleep(static_cast<useconds_t>(random() % 3000));
    ::kill(child, SIGKILL);
    int64_t last = 0;
    while (::read(ends[0], &last, sizeof last) > 0) committed = last;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    Lines lines;
    const auto newest = plait::checkpoint::open_newest(files, ckpt, lines.log);
    REQUIRE(newest);
    CHECK(lines.all.empty());  // none is damaged
    CHECK(newest->state().step >= committed);
    CHECK(Sample(newest->state().step).equals(*newest));
    committed = newest->state().step;
    const plait::checkpoint::CheckpointWriter next(files, ckpt, 3, lines.log);
    CHECK(plait::checkpoint::list_checkpoints(files, ckpt).size() <= 4);
    for (const std::string& name : files.list(ckpt)) CHECK(name[0] != '.');
  }
}
