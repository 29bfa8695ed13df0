// Groups that cannot connect: each rank has a reason, and none waits for another.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/comm/ranks.hpp"
#include "tests/support/descriptors.hpp"

namespace {

using namespace comm_test;
using Floats = std::vector<float>;

// While it exists, this process can open so many more descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next < 0 || close(next) != 0 || getrlimit(RLIMIT_NOFILE, &before_) != 0)
      throw std::runtime_error("no descriptor can be opened");
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next + more);
    if (setrlimit(RLIMIT_NOFILE, &now) != 0)
      throw std::runtime_error("the limit of descriptors cannot be changed");
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

// A store that gives a rank a wrong invitation to the shared memory, or is one of an older host.
class OtherStore {
 public:
  enum class Kind { kWrongInvitation, kWithoutGetWithin };
  OtherStore(const MemoryStore& store, Kind kind)
      : whole_(*store.raw()),
        kind_(kind),
        raw_{sizeof(plait_store), this, set, get,
             kind == Kind::kWithoutGetWithin ? nullptr : get_within} {}
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size) {
    const plait_store& whole = static_cast<OtherStore*>(self)->whole_;
    return whole.set(whole.self, key, data, size);
  }
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size) {
    const auto& [whole, kind, raw] = *static_cast<OtherStore*>(self);
    plait_error* const e = whole.get(whole.self, key, data, capacity, size);
    if (!e && kind == Kind::kWrongInvitation && std::string(key) == "shm") *size = 1;
    return e;
  }
  static plait_error* get_within(void* self, const char* key, double seconds, void* data,
                                 uint64_t capacity, uint64_t* size, uint32_t* found) {
    const plait_store& whole = static_cast<OtherStore*>(self)->whole_;
    return whole.get_within(whole.self, key, seconds, data, capacity, size, found);
  }
  const plait_store& whole_;
  const Kind kind_;
  const plait_store raw_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("failure") {
  TEST_CASE("ranks that can open no further descriptor say so, and none waits for another") {
    constexpr int kMost = 100;
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "gloo") continue;  // the descriptors of shm: tests/unit/comm_shm
      const size_t before = plait::test::open_descriptors().size();
      bool connected = false;
      for (int more = 0; more < kMost && !connected; ++more) {
        CAPTURE(more);
        MemoryStore store;
        std::optional<FewDescriptors> few(more);
        const auto outcomes = each_rank(2, [&](uint32_t rank) {
          Comm comm(*plugin, store.raw(), rank, 2, {"data[0]", 60, 60});
          Floats data(10, 1);
          Call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, data.size(), data.data(), data.data(),
                          PLAIT_COMM_SUM))
              .run();
        });
        few.reset();
        connected = outcomes[0].ok() && outcomes[1].ok();
        CHECK((more > 0 || !connected));
        bool said = connected;
        for (const Outcome& o : outcomes) {
          CAPTURE(o.text);
          CHECK(o.seconds < 10);
          // Gloo, as of 2022, tries an address with a descriptor, and does not say why it cannot
          // have it.
          const bool says = contains(o.text, "Too many open files") ||
                            contains(o.text, "Unable to find address for: 127.");
          CHECK((o.ok() || says || o.code == PLAIT_ERR_PEER));
          said = said || says;
        }
        CHECK(said);
        CHECK(plait::test::open_descriptors().size() == before);
      }
      CHECK(connected);
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("nobody waits for a rank that cannot listen, whichever it is") {
    for (const auto& plugin : plugins())
      for (uint32_t deaf = 0; deaf < 3 && plugin->name() == "gloo"; ++deaf) {
        CAPTURE(deaf);
        MemoryStore store;
        const auto outcomes = each_rank(3, [&](uint32_t rank) {
          GroupSettings settings{"data[0]", 60, 60};
          if (rank == deaf) settings.options = {{"interface", "\"no0\""}};
          const Comm comm(*plugin, store.raw(), rank, 3, settings);
        });
        const std::string name = "rank " + std::to_string(deaf),
                          why = name + " (data " + std::to_string(deaf) + ") does not listen";
        for (uint32_t rank = 0; rank < 3; ++rank) {
          CAPTURE(outcomes[rank].text);
          CHECK(outcomes[rank].code == (rank == deaf ? PLAIT_ERR_CONFIG : PLAIT_ERR_PEER));
          CHECK(contains(outcomes[rank].text, rank == deaf ? "interface 'no0'" : why));
          CHECK(outcomes[rank].seconds < 9);  // who waits for a store, waits 10 s
        }
        CHECK(live_errors() == 0);
      }
  }

  TEST_CASE("nobody waits for a rank that does not get the shared memory") {
    for (const auto& plugin : plugins())
      for (uint32_t lost = 1; lost < 3 && plugin->name() == "shm"; ++lost) {
        CAPTURE(lost);
        MemoryStore store;
        const OtherStore wrong(store, OtherStore::Kind::kWrongInvitation);
        const auto outcomes = each_rank(3, [&](uint32_t rank) {
          const Comm comm(*plugin, rank == lost ? wrong.raw() : store.raw(), rank, 3,
                          {"data[0]", 60, 60});
        });
        const std::string name = "rank " + std::to_string(lost);
        for (const Outcome& o : outcomes) {
          CAPTURE(o.text);
          CHECK(o.code == PLAIT_ERR_PEER);
          CHECK(contains(o.text, name + " (data " + std::to_string(lost) +
                                     ") does not get the shared memory of rank 0 (data 0): "));
          CHECK(o.seconds < 9);  // who waits for the rank, waits 60 s
        }
        CHECK(live_errors() == 0);
      }
  }

  TEST_CASE("a rank that counts another number of members has the file, and joins nobody") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      MemoryStore store;
      const auto outcomes = each_rank(2, [&](uint32_t rank) {
        const Comm comm(*plugin, store.raw(), rank, 2 + rank, {"data[0]", 60, 60});
      });
      for (const Outcome& o : outcomes) {
        CAPTURE(o.text);
        CHECK(o.code == PLAIT_ERR_PEER);
        CHECK(contains(o.text, "the shared memory of rank 0 (data 0) is not that of a group of 3"));
        CHECK(o.seconds < 9);
      }
      CHECK(live_errors() == 0);
    }
  }

  TEST_CASE("with a store that only waits, rank 0 names the rank that does not join") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "shm") continue;
      MemoryStore store;
      const OtherStore waiting(store, OtherStore::Kind::kWithoutGetWithin),
          wrong(store, OtherStore::Kind::kWrongInvitation);
      const auto outcomes = each_rank(2, [&](uint32_t rank) {
        const Comm comm(*plugin, (rank == 0 ? waiting : wrong).raw(), rank, 2,
                        {"data[0]", 0.5, 60});
      });
      CHECK(contains(outcomes[0].text, "did not connect within 0.5 s; missing: rank 1 (data 1)"));
      CHECK(outcomes[0].seconds < 9);
      CHECK(live_errors() == 0);
    }
  }
}
