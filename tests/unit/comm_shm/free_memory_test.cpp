#include "plugins/comm/shm/free_memory.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/folder.hpp"

using plait::comm_shm::free_memory;

namespace {

constexpr uint64_t kMiB = 1 << 20;

// A machine of files.
class Machine {
 public:
  Machine() { write("proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable:    102400 kB\n"); }
  Machine& write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return *this;
  }
  void expect(uint64_t mib, bool of_control_group, uint32_t ranks = 1) const {
    const auto found = free_memory(ranks, root_.path());
    CHECK(found.bytes == mib * kMiB);
    CHECK(found.of_control_group == of_control_group);
  }
  std::string path() const { return root_.path(); }

 private:
  plait::test::Folder root_;
};

std::string mib(uint64_t n) { return std::to_string(n * kMiB) + "\n"; }

}  // namespace

TEST_CASE("without control groups the machine's memory counts") {
  Machine().expect(100, false);
  Machine().write("proc/self/cgroup", "0::/\n").expect(100, false);
  Machine m;
  m.write("proc/meminfo", "MemTotal: 4096000 kB\n");
  CHECK(free_memory(1, m.path()).bytes == UINT64_MAX);
}

TEST_CASE("a limit counts what is used, without pages that can be dropped") {
  Machine m;
  m.write("proc/self/cgroup", "0::/job\n");
  m.write("sys/fs/cgroup/job/memory.max", mib(64))
      .write("sys/fs/cgroup/job/memory.current", mib(30));
  m.expect(34, true);
  m.write("sys/fs/cgroup/job/memory.stat", "anon 5\nworkingset_inactive_file 9\ninactive_file " +
                                               mib(10) + "active_file " + mib(5) +
                                               "slab_reclaimable " + mib(2) + "slab " + mib(3));
  m.expect(51, true);
  m.write("sys/fs/cgroup/job/memory.current", mib(90)).expect(0, true);
  m.write("sys/fs/cgroup/job/memory.max", "max\n").expect(100, false);
  m.write("sys/fs/cgroup/job/memory.max", mib(900)).expect(100, false);
}

TEST_CASE("the least of a group and those above it counts") {
  Machine m;
  m.write("proc/self/cgroup", "0::/pod/job\n");
  m.write("sys/fs/cgroup/pod/job/memory.max", mib(64))
      .write("sys/fs/cgroup/pod/job/memory.current", mib(1));
  m.write("sys/fs/cgroup/pod/memory.max", mib(32))
      .write("sys/fs/cgroup/pod/memory.current", mib(2));
  m.expect(30, true);
}

TEST_CASE("a container sees its own group at the top, and the path of the host") {
  Machine m;
  m.write("proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
  m.write("sys/fs/cgroup/memory.max", mib(48)).write("sys/fs/cgroup/memory.current", mib(8));
  m.expect(40, true);
}

TEST_CASE("control groups of version 1") {
  Machine m;
  m.write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/job\n0::/\n");
  m.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", mib(20));
  m.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", mib(15));
  m.write("sys/fs/cgroup/memory/job/memory.stat",
          "inactive_file 0\nactive_file 0\ntotal_inactive_file " + mib(3) + "total_active_file " +
              mib(4));
  m.expect(12, true);
  m.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n")
      .expect(100, false);
}

TEST_CASE("ranks in control groups of their own each use the limit of theirs") {
  Machine m;
  m.write("proc/self/cgroup", "0::/pod/job\n");
  const std::string pod = "sys/fs/cgroup/pod/", job = pod + "job/";
  m.write(job + "memory.max", mib(30)).write(job + "memory.current", mib(20));
  m.expect(10, true, 4);  // not known: all may be in it
  m.write(job + "cgroup.procs", "17\n").expect(40, true, 4);
  m.write(job + "cgroup.procs", "17\n0\n").expect(20, true, 4);
  m.write(job + "cgroup.procs", "17\n18\n19\n20\n21\n").expect(10, true, 4);
  m.expect(10, true, 1);
  // The group above has all of them, through groups below it.
  m.write(job + "cgroup.procs", "17\n").write(pod + "cgroup.procs", "");
  m.write(pod + "memory.max", mib(35)).write(pod + "memory.current", mib(0)).expect(35, true, 4);
  // What the machine has is for all ranks.
  m.write(pod + "memory.max", "max\n").expect(100, false, 12);
}
