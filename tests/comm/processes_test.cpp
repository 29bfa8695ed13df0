// Ranks as processes: they compute the same results and survive each other's failures.
#include <doctest/doctest.h>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/comm/processes.hpp"
#include "tests/comm/ranks.hpp"
#include "tests/support/folder.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;

bool between_processes(const Plugin& plugin) { return !plugin.name().starts_with("threads"); }

// The host's thread keeps its SIGPIPE disposition, and no SIGPIPE is pending.
void require_signals_untouched() {
  struct sigaction action;
  sigset_t mask, pending;
  sigaction(SIGPIPE, nullptr, &action);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  require(action.sa_handler == SIG_DFL, "SIGPIPE has another handler");
  require(!sigismember(&mask, SIGPIPE), "SIGPIPE is blocked");
  require(!sigismember(&pending, SIGPIPE), "a SIGPIPE is pending");
}

// Reduces until the end; sets a mark the first time. in_place: in symmetric memory, if there is
// any.
void reduce_for_ever(const Plugin& plugin, const plait_store* store, uint32_t rank, uint32_t size,
                     size_t n, double timeout, bool in_place = false) {
  Comm comm(plugin, store, rank, size, {"data[0]", 10, timeout});
  float* const there = in_place ? comm.memory<float>(n) : nullptr;
  Floats in(there ? 0 : n, 1), out(there ? 0 : n);
  Call call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, n, there ? there : in.data(),
                       there ? there : out.data(), PLAIT_COMM_SUM));
  try {
    for (int step = 0;; ++step) {
      call.run();
      if (step == 0) mark(store, "runs." + std::to_string(rank));
    }
  } catch (const Failure&) {
    require_signals_untouched();
    throw;
  }
}

// The error of survivors when `victim` is lost: a rank that learns of it through another names that
// other rank.
void check_survivors(Processes& processes, uint32_t size, uint32_t victim, double seconds) {
  int named = 0;
  for (uint32_t r = 0; r < size; ++r) {
    if (r == victim) continue;
    const ProcessResult result = processes.wait(r, seconds);
    CAPTURE(result.text);
    CHECK(result.signal == 0);
    CHECK(result.code == PLAIT_ERR_PEER);
    CHECK(result.text.find("group 'data[0]': all_reduce of") != std::string::npos);
    named += result.text.find("rank " + std::to_string(victim) + " (data") != std::string::npos;
  }
  CHECK(named > 0);
}

void unshare_or_throw(int spaces) {
  if (unshare(spaces) != 0) throw Failure(PLAIT_ERR_IO, "unshare");
  if (spaces & CLONE_NEWNS) mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
}

// Tried in a process of its own.
bool can_unshare(int spaces) {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(spaces) == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  if (status != 0) MESSAGE("not tried: namespaces need privileges");
  return status == 0;
}

// New process ids are those of the children: the caller waits for its child, which continues.
void enter_new(int spaces) {
  unshare_or_throw(spaces);
  if (!(spaces & CLONE_NEWPID)) return;
  const pid_t child = fork();
  if (child == 0) return;
  int status = 1;
  waitpid(child, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

}  // namespace

TEST_SUITE("processes") {
  TEST_CASE("sums across processes") {
    for (const auto& plugin : plugins()) {
      if (!between_processes(*plugin)) continue;
      Processes processes(4, [&](uint32_t rank, const plait_store* store) {
        Comm comm(*plugin, store, rank, 4);
        for (const size_t n : {1, 1000, 200000}) {
          Floats in(n, static_cast<float>(rank + 1)), out(n);
          Call call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, n, in.data(), out.data(),
                               PLAIT_COMM_SUM));
          for (int step = 0; step < 5; ++step) call.run();
          require(out == Floats(n, 10), "wrong sum");
        }
        constexpr size_t kLarge = 2000003;  // not a whole number of pages
        if (float* const data = comm.memory<float>(kLarge)) {
          require(std::all_of(data, data + kLarge, [](float v) { return v == 0; }), "not zero");
          Call call(comm,
                    desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, kLarge, data, data, PLAIT_COMM_SUM));
          for (int step = 0; step < 5; ++step) {
            std::fill_n(data, kLarge, static_cast<float>(rank + 1 + step));
            call.run();
            const float sum = static_cast<float>(10 + 4 * step);
            require(std::all_of(data, data + kLarge, [&](float v) { return v == sum; }),
                    "wrong sum");
          }
        }
        require_signals_untouched();
      });
      for (uint32_t r = 0; r < 4; ++r) {
        const ProcessResult result = processes.wait(r, 30);
        CAPTURE(result.text);
        CHECK(result.ok());
      }
    }
  }

  TEST_CASE("threads of different processes are refused") {
    for (const auto& plugin : plugins()) {
      if (between_processes(*plugin)) continue;
      Processes processes(
          2,
          [&](uint32_t rank, const plait_store* store) {
            Comm comm(*plugin, store, rank, 2, {"data[0]", 0.5, 1});
          },
          0.5);
      const ProcessResult first = processes.wait(0, 10), second = processes.wait(1, 10);
      CHECK(first.code == PLAIT_ERR_PEER);
      CHECK(second.code == PLAIT_ERR_PEER);
      CHECK(second.text.find("run in different processes") != std::string::npos);
    }
  }

  TEST_CASE("a rank is killed at any moment") {
    std::mt19937 random(20240607);
    for (const auto& plugin : plugins()) {
      if (!between_processes(*plugin)) continue;
      for (int round = 0; round < 8; ++round) {
        CAPTURE(round);
        const size_t n = round % 2 ? 1000000 : 64;
        Processes processes(4, [&](uint32_t rank, const plait_store* store) {
          reduce_for_ever(*plugin, store, rank, 4, n, 20, round % 4 == 1);
        });
        for (uint32_t r = 0; r < 4; ++r) processes.wait_for_mark("runs." + std::to_string(r));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
        const uint32_t victim = random() % 4;
        processes.signal(victim, SIGKILL);
        check_survivors(processes, 4, victim, 3);
        CHECK(processes.wait(victim, 1).signal == SIGKILL);
      }
    }
  }

  TEST_CASE("a rank that ends without a word is named at once by all that wait for it") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      Processes processes(3, [&](uint32_t rank, const plait_store* store) {
        Comm comm(*plugin, store, rank, 3, {"data[0]", 10, 20});
        mark(store, "here." + std::to_string(rank));
        if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(20));
        Call(comm, desc(PLAIT_COMM_BARRIER, 0, 0, nullptr, nullptr)).run();
      });
      for (uint32_t r = 0; r < 3; ++r) processes.wait_for_mark("here." + std::to_string(r));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      processes.signal(1, SIGKILL);
      for (const uint32_t r : {0u, 2u}) {
        const ProcessResult result = processes.wait(r, 2);
        CAPTURE(result.text);
        CHECK(result.code == PLAIT_ERR_PEER);
        CHECK(result.text.find("lost rank 1 (data 1): its process has ended") != std::string::npos);
      }
    }
  }

  TEST_CASE("shared memory needs no file system, and one that is too small is refused") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm" || !can_unshare(CLONE_NEWNS)) continue;
      // A process of its own, because it changes its mounts; requires root.
      Processes process(1, [&](uint32_t, const plait_store*) {
        const plait::test::Folder folder;
        std::ofstream(folder.path() + "/meminfo") << "MemTotal: 9000 kB\nMemAvailable: 4096 kB\n";
        unshare_or_throw(CLONE_NEWNS);
        require(mount("none", "/dev/shm", "tmpfs", MS_RDONLY, "") == 0, "no /dev/shm");
        expect_all_ok(run_group(
            *plugin, 2, [](Comm& comm) { require(comm.memory<float>(1 << 18), "there is none"); }));
        require(mount((folder.path() + "/meminfo").c_str(), "/proc/meminfo", "", MS_BIND, "") == 0,
                "no /proc/meminfo");
        const auto outcomes = run_group(*plugin, 2, [](Comm& comm) {
          require(!comm.memory<float>(1 << 18), "memory that is only faster takes too much of it");
          require(comm.memory<float>(1 << 14), "there is none at all");
          Floats data(10 << 20);
          Call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, data.size(), data.data(), data.data(),
                          PLAIT_COMM_SUM));
        });
        umount2("/proc/meminfo", MNT_DETACH);
        throw Failure(outcomes[0].code, outcomes[0].text);
      });
      const ProcessResult result = process.wait(0, 30);
      CAPTURE(result.text);
      CHECK(result.signal == 0);
      CHECK(result.code == PLAIT_ERR_MEMORY);
      CHECK(result.text.find("[shm] group 'test[0]' needs 44.0 MiB more of shared memory, found "
                             "4.0 MiB available on this machine; free some, lower") == 0);
    }
  }

  TEST_CASE("ranks that are killed while they connect leave nothing") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm" || !can_unshare(CLONE_NEWNS)) continue;
      // A process and a /dev/shm of its own, which other jobs of the machine do not use.
      Processes process(1, [&](uint32_t, const plait_store*) {
        unshare_or_throw(CLONE_NEWNS);
        require(mount("none", "/dev/shm", "tmpfs", 0, "") == 0, "no /dev/shm");
        std::mt19937 random(20261125);
        for (int round = 0; round < 20; ++round) {
          Processes ranks(3, [&](uint32_t rank, const plait_store* store) {
            Comm comm(*plugin, store, rank, 3, {"data[0]", 10, 10});
            std::this_thread::sleep_for(std::chrono::seconds(10));
          });
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
          const uint32_t first = random() % 3;
          for (uint32_t r = 0; r < 3; ++r) ranks.signal((first + r) % 3, SIGKILL);
          for (uint32_t r = 0; r < 3; ++r)
            require(ranks.wait(r, 5).signal == SIGKILL, "a rank has ended otherwise");
          require(std::filesystem::is_empty("/dev/shm"), "a name is left");
        }
      });
      const ProcessResult result = process.wait(0, 60);
      CAPTURE(result.text);
      CHECK(result.ok());
    }
  }

  // How a container's processes see each other: in other PID and network namespaces.
  TEST_CASE("ranks in other namespaces share memory, or say why not") {
    struct {
      int spaces;
      const char* error;
    } const cases[] = {{CLONE_NEWPID, ""},
                       {CLONE_NEWNET, ""},
                       {CLONE_NEWPID | CLONE_NEWNET,
                        "does not get the shared memory of rank 0 (data 0): its socket: Connection "
                        "refused; its descriptor: it is in another PID namespace; that rank has "
                        "failed, or is in another network namespace and another PID namespace"}};
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      for (const auto& [spaces, error] : cases) {
        if (!can_unshare(spaces)) continue;
        CAPTURE(spaces);
        Processes processes(2, [&](uint32_t rank, const plait_store* store) {
          if (rank == 1) enter_new(spaces);
          Comm comm(*plugin, store, rank, 2, {"data[0]", 20, 20});
          Floats data(100000, static_cast<float>(rank + 1));
          Call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, data.size(), data.data(), data.data(),
                          PLAIT_COMM_SUM))
              .run();
          require(data.front() == 3 && data.back() == 3, "wrong sum");
        });
        const ProcessResult first = processes.wait(0, 30), second = processes.wait(1, 30);
        CAPTURE(first.text);
        CAPTURE(second.text);
        CHECK(second.text.find(error) != std::string::npos);
        if (!*error) CHECK(second.text == "");
        CHECK(first.ok() == !*error);
        if (*error) CHECK(second.code == PLAIT_ERR_PEER);
        if (*error) CHECK(first.text == second.text);
      }
    }
  }

  TEST_CASE("where one member gets no memory of the group, none has it, and all go on") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      Processes processes(2, [&](uint32_t rank, const plait_store* store) {
        Comm comm(*plugin, store, rank, 2);
        constexpr size_t kMany = 1 << 20;
        // The file may grow by the memory of one group, not of both.
        const rlimit tight{12 << 20, RLIM_INFINITY}, none{RLIM_INFINITY, RLIM_INFINITY};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &tight);
        require(!comm.memory<float>(kMany), "there is memory");
        Floats data(100, 1);
        Call(comm,
             desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 100, data.data(), data.data(), PLAIT_COMM_SUM))
            .run();
        require(data == Floats(100, 2), "wrong sum");
        setrlimit(RLIMIT_FSIZE, &none);
        require(comm.memory<float>(kMany), "there is still none");
      });
      for (uint32_t r = 0; r < 2; ++r) {
        const ProcessResult result = processes.wait(r, 20);
        CAPTURE(result.text);
        CHECK(result.ok());
      }
    }
  }

  TEST_CASE("a rank is stopped") {
    for (const auto& plugin : plugins()) {
      if (!between_processes(*plugin)) continue;
      Processes processes(3, [&](uint32_t rank, const plait_store* store) {
        reduce_for_ever(*plugin, store, rank, 3, 100000, 1);
      });
      for (uint32_t r = 0; r < 3; ++r) processes.wait_for_mark("runs." + std::to_string(r));
      processes.signal(1, SIGSTOP);
      check_survivors(processes, 3, 1, 3);
      processes.signal(1, SIGCONT);
      CHECK(processes.wait(1, 5).code == PLAIT_ERR_PEER);
    }
  }

  TEST_CASE("a rank is killed while the group connects") {
    for (const auto& plugin : plugins()) {
      if (!between_processes(*plugin)) continue;
      Processes processes(
          3,
          [&](uint32_t rank, const plait_store* store) {
            if (rank == 2) std::this_thread::sleep_for(std::chrono::seconds(20));
            Comm comm(*plugin, store, rank, 3, {"data[0]", 1, 20});
          },
          1);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      processes.signal(2, SIGKILL);
      for (uint32_t r : {0, 1}) {
        const ProcessResult result = processes.wait(r, 3);
        CAPTURE(result.text);
        CHECK(result.code == PLAIT_ERR_PEER);
        CHECK(result.text.find("missing: rank 2 (data 2)") != std::string::npos);
      }
    }
  }
}
