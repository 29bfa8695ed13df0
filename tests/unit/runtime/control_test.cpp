// The control channel without failures: rendezvous, values, peers, the end of a run; and aborting.
#include "engine/runtime/control.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

std::vector<int> ranks(int n) {
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string text_of(const std::function<void()>& f, uint32_t code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.text();
  }
  FAIL_CHECK("expected an error");
  return "";
}

}  // namespace

TEST_CASE("a program that the host starts gets no socket of the control channel") {
  const Folder folder;
  const Setup setup = in_file(folder, 3);
  Lines lines;
  const auto before = plait::test::open_descriptors().size();
  const auto passed = plait::test::passed_on();
  const auto failures = on_threads(ranks(3), [&](int rank) {
    Control control(setup.of(rank), lines.log());
    control.set("here." + std::to_string(rank), "yes");
    for (int i = 0; i < 3; ++i) control.get("here." + std::to_string(i), 60);
    CHECK(plait::test::open_descriptors().size() > before + 4);
    CHECK(plait::test::passed_on() == passed);
    control.set("seen." + std::to_string(rank), "yes");
    for (int i = 0; i < 3; ++i) control.get("seen." + std::to_string(i), 60);
  });
  CHECK(failures == std::vector<std::string>(3));
}

TEST_CASE("ranks meet in a file, exchange values, and leave without a word") {
  const Folder folder;
  const Setup setup = in_file(folder, 4);
  Lines lines;
  const auto failures = on_threads(ranks(4), [&](int rank) {
    Control control(setup.of(rank), lines.log());
    REQUIRE(control.peers().size() == 4);
    for (int i = 0; i < 4; ++i) {
      const Peer& peer = control.peers()[static_cast<size_t>(i)];
      CHECK(peer.name == setup.of(i).name);
      CHECK(peer.host == control.peers()[0].host);
      CHECK(peer.process == control.peers()[0].process);
    }
    const std::string own = std::to_string(rank);
    control.set("value." + own, "of " + own);
    control.set("large." + own, std::string(64 * 1024, static_cast<char>('a' + rank)));
    for (int i = 0; i < 4; ++i) {
      CHECK(control.get("value." + std::to_string(i), 60) == "of " + std::to_string(i));
      CHECK(control.get("large." + std::to_string(i), 60) ==
            std::string(64 * 1024, static_cast<char>('a' + i)));
    }
    CHECK(control.end_reason() == "");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(lines.all() == "");
  CHECK(access(folder.path("rendezvous").c_str(), F_OK) != 0);
}

TEST_CASE("ranks meet at a socket that listens already") {
  Setup setup;
  int port = 0;
  setup.size = 3;
  setup.listen_fd = listen_on_loopback(port);
  setup.rendezvous = "127.0.0.1:" + std::to_string(port);
  setup.secret = "sixteen bytes or more";
  Lines lines;
  const auto failures = on_threads(ranks(3), [&](int rank) {
    Control control(setup.of(rank), lines.log());
    if (rank == 2) control.set("a", "b");
    CHECK(control.get("a", 60) == "b");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(close(setup.listen_fd) == 0);  // the caller still owns it
}

TEST_CASE("ranks join at an address where rank 0 listens by itself, in any order") {
  Setup setup;
  setup.size = 3;
  const FreePort port;
  setup.rendezvous = "localhost:" + std::to_string(port.number());
  setup.secret = "sixteen bytes or more";
  Lines lines;
  const auto failures = on_threads(ranks(3), [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Control control(setup.of(rank), lines.log());
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("values: taken keys, invalid keys and values, and waits that time out") {
  const Folder folder;
  Lines lines;
  for (const int size : {1, 2}) {
    CAPTURE(size);
    Setup setup = in_file(folder, size);
    if (size == 1) setup.rendezvous = "";
    const auto failures = on_threads(ranks(size), [&](int rank) {
      Control control(setup.of(rank), lines.log());
      if (rank == 0) {
        control.set("x.Y.1", std::string("a\0b", 3));
        CHECK(has(text_of([&] { control.set("x.Y.1", "again"); }, PLAIT_ERR_STATE),
                  "already in use"));
        CHECK(has(text_of([&] { control.set("a/b", ""); }, PLAIT_ERR_INVALID), "letters"));
        CHECK(has(text_of([&] { control.set("", ""); }, PLAIT_ERR_INVALID), "expected 1 to 256"));
        CHECK(has(text_of([&] { control.get(std::string(257, 'k'), 1); }, PLAIT_ERR_INVALID),
                  "expected 1 to 256"));
        CHECK(has(
            text_of([&] { control.set("v", std::string(64 * 1024 + 1, 'v')); }, PLAIT_ERR_INVALID),
            "65537 bytes"));
        control.set(std::string(256, 'k'), "");
        CHECK(has(text_of([&] { control.get("never", 0.05); }, PLAIT_ERR_PEER),
                  "rank 0 (data 0) waited 0.05 s for 'never'"));
        CHECK(!control.get_within("never", 0.05));
        control.set("never", "but now");  // the late answer must not confuse a later request
        CHECK(control.get("never", 60) == "but now");
        // Only looks: what was published is found, though the answer takes a round trip.
        for (int i = 0; i < 100; ++i) CHECK(control.get_within("never", 0) == "but now");
        control.forget("never");
        control.set("never", "again");
        CHECK(control.get("never", 60) == "again");
        CHECK(has(text_of([&] { control.forget("a/b"); }, PLAIT_ERR_INVALID), "letters"));
        control.set("done", "");
      }
      CHECK(control.get("x.Y.1", 60) == std::string("a\0b", 3));
      CHECK(control.get(std::string(256, 'k'), 60) == "");
      control.get("done", 60);
    });
    for (const std::string& failure : failures) CHECK(failure == "");
  }
}

TEST_CASE("values are waited for on many threads at once") {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  const auto failures = on_threads(ranks(2), [&](int rank) {
    Control control(setup.of(rank), lines.log());
    const auto inner = on_threads(ranks(8), [&](int i) {
      const std::string me = std::to_string(rank), other = std::to_string(1 - rank);
      for (int round = 0; round < 20; ++round) {
        const std::string key = std::to_string(i) + "." + std::to_string(round) + ".";
        if (rank == 0) CHECK(control.get(key + other, 60) == key);
        control.set(key + me, key);
        if (rank == 1) CHECK(control.get(key + other, 60) == key);
      }
    });
    for (const std::string& failure : inner) CHECK(failure == "");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("a rank that aborts ends the job for all, with one text") {
  const Folder folder;
  const Setup setup = in_file(folder, 3);
  Lines lines;
  const std::string expected = "rank 1 (data 1) aborted: no space left";
  const auto failures = on_threads(ranks(3), [&](int rank) {
    Control control(setup.of(rank), lines.log());
    control.set("here." + std::to_string(rank), "");
    if (rank == 1) {
      for (int i = 0; i < 3; ++i) control.get("here." + std::to_string(i), 60);
      control.abort("no space left");
      control.abort("and again");
    }
    // A waiting thread is woken with the reason.
    CHECK(has(text_of([&] { control.get("never", 60); }, PLAIT_ERR_PEER), expected));
    CHECK(wait_for_end(control) == expected);  // also if the job has ended already
    CHECK(control.end_reason() == expected);
    CHECK(has(text_of([&] { control.set("late", ""); }, PLAIT_ERR_PEER), expected));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("the callback for the end is called once, and may be replaced and removed") {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  const auto failures = on_threads(ranks(2), [&](int rank) {
    std::atomic<int> first{0}, second{0}, third{0};
    Control control(setup.of(rank), lines.log());
    control.on_end([&](const std::string&) { ++first; });
    if (rank == 0)
      control.on_end([&](const std::string&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        control.on_end([&](const std::string&) { ++third; });  // from inside: runs at once
        ++second;
      });
    else
      control.on_end({});
    if (rank == 0) control.set("ready", "");
    if (rank == 1) control.get("ready", 60);
    if (rank == 1) control.abort("enough");
    CHECK(eventually([&] { return !control.end_reason().empty(); }));
    if (rank == 0) CHECK(eventually([&] { return second + third > 0; }));
    control.on_end({});  // waits for the running callback
    CHECK(first == 0);
    CHECK(second == (rank == 0 ? 1 : 0));
    CHECK(third == (rank == 0 ? 1 : 0));
    control.on_end([](const std::string&) { throw 1; });  // has no effect
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("a rank alone has values and an end, and no socket or thread") {
  Lines lines;
  Setup setup;
  setup.size = 1;
  const size_t descriptors = count_descriptors(), threads = count_threads();
  Control control(setup.of(0), lines.log());
  CHECK(count_descriptors() == descriptors);
  CHECK(count_threads() == threads);
  REQUIRE(control.peers().size() == 1);
  CHECK(control.peers()[0].name == "rank 0 (data 0)");
  CHECK(control.peers()[0].process != "");
  control.at_step(3);
  control.set("a", "b");
  CHECK(control.get("a", 0) == "b");
  std::string reason;
  control.on_end([&](const std::string& text) { reason = text; });
  control.abort("tired");
  CHECK(reason == "rank 0 (data 0) aborted: tired");
  CHECK(control.end_reason() == reason);
  text_of([&] { control.get("a", 1); }, PLAIT_ERR_PEER);
  CHECK(wait_for_end(control, 1) == reason);
}

TEST_CASE("eight ranks leave at the same time, again and again: no error, no leak") {
  const Folder folder;
  Lines lines;
  const size_t descriptors = count_descriptors(), threads = count_threads();
  std::atomic<int> ends{0};
  for (int cycle = 0; cycle < 25; ++cycle) {
    const Setup setup = in_file(folder, cycle % 5 == 0 ? 8 : 3);
    const auto failures = on_threads(ranks(setup.size), [&](int rank) {
      Control control(setup.of(rank), lines.log());
      control.on_end([&](const std::string&) { ++ends; });
      control.set(std::to_string(rank), "");
      for (int i = 0; i < setup.size; ++i) control.get(std::to_string(i), 60);
    });
    for (const std::string& failure : failures) CHECK(failure == "");
  }
  CHECK(ends == 0);
  CHECK(lines.all() == "");
  CHECK(count_descriptors() == descriptors);
  CHECK(count_threads() == threads);
}

TEST_CASE("a hundred channels open and close in one process") {
  const Folder folder;
  Lines lines;
  const Setup setup = in_file(folder, 2);
  const size_t descriptors = count_descriptors(), threads = count_threads();
  for (int cycle = 0; cycle < 100; ++cycle) {
    const auto failures =
        on_threads(ranks(2), [&](int rank) { const Control control(setup.of(rank), lines.log()); });
    for (const std::string& failure : failures) REQUIRE(failure == "");
  }
  CHECK(lines.all() == "");
  CHECK(count_descriptors() == descriptors);
  CHECK(count_threads() == threads);
}
