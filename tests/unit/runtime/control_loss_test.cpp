// The control channel when a rank dies, hangs, or leaves before the others.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/runtime/control.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

constexpr double kSilence = 2;  // seconds after which a rank is lost
// Twenty heartbeats in that time.
constexpr ControlTimes kShort{
    .heartbeat = 0.1, .leave = 0.4, .linger = 0.8, .late = 0.3, .report = 0.3};

Setup in_short_times(const Folder& folder, int size, const Timeouts& timeouts = {}) {
  Setup setup = in_file(folder, size, timeouts);
  setup.times = kShort;
  return setup;
}

// A rank in its own process that works until it is stopped.
void work_for_ever(const Setup& setup, int rank, int64_t step) {
  Log log;
  Control control(setup.of(rank), log);
  control.at_step(step);
  control.set("ready." + std::to_string(rank), std::to_string(getpid()));
  for (;;) pause();
}

// A rank in its own process that is stopped, continues, and must then be told that it was silent.
void learn_own_loss(const Setup& setup, int rank) {
  Log log;
  Control control(setup.of(rank), log);
  try {
    control.set("ready." + std::to_string(rank), "");
  } catch (const Error&) {
    // Stopped before the answer arrived.
  }
  const std::string told = wait_for_end(control);
  if (!has(told, setup.of(rank).name + " is lost: it has been silent for 2 s"))
    throw std::runtime_error(told);
}

// The view of the other ranks: waits until `victim` has joined and its step is known, runs `harm`,
// returns the reason that each rank is given.
std::vector<std::string> witness(const Setup& setup, const std::vector<int>& ranks, int victim,
                                 const std::function<void()>& harm) {
  std::vector<std::string> reasons(static_cast<size_t>(setup.size));
  Lines lines;
  std::atomic<int> ready{0};
  const auto failures = on_threads(ranks, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    control.get("ready." + std::to_string(victim), 60);
    // One heartbeat tells rank 0 the step, another tells the other ranks the step of rank 0.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    if (++ready == static_cast<int>(ranks.size())) harm();
    reasons[static_cast<size_t>(rank)] = wait_for_end(control);
    CHECK(control.end_reason() == reasons[static_cast<size_t>(rank)]);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  std::vector<std::string> told;
  for (const int rank : ranks) told.push_back(reasons[static_cast<size_t>(rank)]);
  return told;
}

}  // namespace

TEST_SUITE_BEGIN("control_loss");

TEST_CASE("a rank that is killed is named to all others, with its process and step") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 4);
  Child child([&] { work_for_ever(setup, 2, 12); });
  const std::string process = std::to_string(child.id());
  const auto told = witness(setup, {0, 1, 3}, 2, [&] { child.signal(SIGKILL); });
  CHECK(has(told[0], "rank 2 (data 2) is lost: its connection was closed"));
  CHECK(has(told[0], "it ran as process " + process + " on "));
  CHECK(has(told[0], "was last heard of in step 12"));
  CHECK(told[1] == told[0]);
  CHECK(told[2] == told[0]);
  CHECK(child.wait() == -SIGKILL);
}

TEST_CASE("when rank 0 is killed each of the others says so") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 3);
  Child child([&] { work_for_ever(setup, 0, 5); });
  const auto told = witness(setup, {1, 2}, 0, [&] { child.signal(SIGKILL); });
  for (const std::string& text : told) {
    CHECK(has(text, "rank 0 (data 0) is lost: its connection was closed"));
    CHECK(has(text, "process " + std::to_string(child.id())));
    CHECK(has(text, "was last heard of in step 5"));
  }
}

TEST_CASE("a rank that is stopped is found by its silence") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 3, {.timeout = kSilence});
  Child child([&] { work_for_ever(setup, 1, 7); });
  const auto told = witness(setup, {0, 2}, 1, [&] { child.signal(SIGSTOP); });
  CHECK(has(told[0], "rank 1 (data 1) is lost: it has been silent for 2 s"));
  CHECK(has(told[0], "stopped or its machine unreachable"));
  CHECK(has(told[0], "was last heard of in step 7"));
  CHECK(told[1] == told[0]);
}

TEST_CASE("when rank 0 is stopped the others notice by its silence") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 3, {.timeout = kSilence});
  Child child([&] { work_for_ever(setup, 0, 0); });
  const auto told = witness(setup, {1, 2}, 0, [&] { child.signal(SIGSTOP); });
  for (const std::string& text : told)
    CHECK(has(text, "rank 0 (data 0) is lost: it has been silent for 2 s"));
}

TEST_CASE("a stopped rank that wakes up learns that it is out") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 2, {.timeout = kSilence});
  Child child([&] { learn_own_loss(setup, 1); });
  Lines lines;
  Control control(setup.of(0), lines.log());
  control.get("ready.1", 60);
  child.signal(SIGSTOP);
  CHECK(has(wait_for_end(control), "rank 1 (data 1) is lost"));
  child.signal(SIGCONT);
  CHECK(child.wait() == 0);
}

TEST_CASE("a stopped rank 0 that wakes up learns that the others gave it up for lost") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 2, {.timeout = kSilence});
  Child child([&] { learn_own_loss(setup, 0); });
  Lines lines;
  {
    Control control(setup.of(1), lines.log());
    control.get("ready.0", 60);
    child.signal(SIGSTOP);
    CHECK(has(wait_for_end(control), "rank 0 (data 0) is lost"));
  }
  child.signal(SIGCONT);
  CHECK(child.wait() == 0);
}

TEST_CASE("a job that is stopped and continued as a whole is not disturbed") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 2, {.timeout = kSilence});
  const auto rank = [&](int r) {
    Log log;
    Control control(setup.of(r), log);
    control.set("ready." + std::to_string(r), "");
    control.get("ready." + std::to_string(1 - r), 60);
    const bool fine = wait_for_end(control, 5).empty();
    control.set("end." + std::to_string(r), "");
    control.get("end." + std::to_string(1 - r), 60);
    if (!fine) throw std::runtime_error("it was disturbed");
  };
  Child first([&] { rank(0); }), second([&] { rank(1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  first.signal(SIGSTOP);
  second.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  first.signal(SIGCONT);
  second.signal(SIGCONT);
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
}

TEST_CASE("a rank with shorter time-outs than rank 0 does not take its pauses for silence") {
  const Folder folder;
  Lines lines;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Control control(in_file(folder, 2, {.timeout = rank == 0 ? 60 : 0.2}).of(rank), lines.log());
    CHECK(wait_for_end(control, 1.5) == "");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("a rank that leaves alone ends the job of the others, after a while") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 3);
  Lines lines;
  const auto failures = on_threads({0, 1, 2}, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    if (rank == 1) return;
    CHECK(wait_for_end(control) == "rank 1 (data 1) left the job while others were still working");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(lines.all() == "");  // it may be the end of a normal run
}

TEST_CASE("rank 0 does not wait forever for ranks that stay") {
  const Folder folder;
  const Setup setup = in_short_times(folder, 2);
  Lines lines;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    if (rank == 0) return;
    CHECK(wait_for_end(control) == "rank 0 (data 0) left the job while others were still working");
    // The server is gone long before this rank goes.
    std::this_thread::sleep_for(std::chrono::seconds(1));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("ranks that leave within a second of each other end nothing") {
  const Folder folder;
  const Setup setup = in_file(folder, 3);
  Lines lines;
  const auto failures = on_threads({0, 1, 2}, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 400));
    CHECK(control.end_reason() == "");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("a rank that dies while others are still joining ends the rendezvous") {
  const Folder folder;
  Setup setup = in_short_times(folder, 3);
  Child child([&] {
    // Dies once it has arrived: a second after it has reached rank 0. Rank 2 never arrives, so the
    // constructor does not return.
    const auto die = [](uint32_t, std::string_view line) {
      if (line.find(" has reached rank 0 ") == line.npos) return;
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        kill(getpid(), SIGKILL);
      }).detach();
    };
    Log log(die, PLAIT_LOG_DEBUG);
    const Control control(setup.of(1), log);
  });
  Lines lines;
  std::vector<uint32_t> codes;
  const auto failures = on_threads(
      {0}, [&](int rank) { const Control control(setup.of(rank), lines.log()); }, &codes);
  CHECK(codes[0] == PLAIT_ERR_PEER);
  CHECK(has(failures[0], "rank 1 (data 1) is lost: its connection was closed"));
  CHECK(!has(failures[0], " step"));
}

TEST_CASE(
    "a rank that is killed at any moment of the rendezvous is an error of the others, not a hang") {
  const Folder folders[4];  // in which the previous round may have left its file
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    // Four jobs, of each another rank is killed, wait for their ends at the same time.
    std::vector<std::unique_ptr<Child>> children[4];
    long delays[4] = {};
    for (int job = 0; job < 4; ++job) {
      const int victim = (job + round) % 4;
      Setup setup = in_short_times(folders[job], 4);
      setup.timeouts.connect_timeout = 0.5;
      for (int rank = 0; rank < 4; ++rank)
        children[job].push_back(std::make_unique<Child>([&setup, rank] {
          int status = 22;
          try {
            Log log;
            Control control(setup.of(rank), log);
            if (has(wait_for_end(control), " is lost: ")) status = 20;
          } catch (const Error& e) {
            if (e.code() == PLAIT_ERR_PEER) status = 21;
          }
          _exit(status);
        }));
      delays[job] = static_cast<long>(random() % 24000);
      std::this_thread::sleep_for(std::chrono::microseconds(delays[job]));
      children[job][static_cast<size_t>(victim)]->signal(SIGKILL);
    }
    for (int job = 0; job < 4; ++job)
      for (int rank = 0; rank < 4; ++rank) {
        CAPTURE(delays[job]);
        CAPTURE(rank);
        const int status = children[job][static_cast<size_t>(rank)]->wait();
        CAPTURE(status);
        // On a busy machine the victim's time may be over already.
        const bool killed = rank == (job + round) % 4 && status == -SIGKILL;
        CHECK((killed || status == 20 || status == 21));
      }
  }
}

TEST_CASE("the first reason stays, although more ranks die") {
  const Folder folder;
  const Setup setup = in_file(folder, 4);
  Child first([&] { work_for_ever(setup, 2, 1); });
  Child second([&] { work_for_ever(setup, 3, 1); });
  Lines lines;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    control.get("ready.2", 60);
    control.get("ready.3", 60);
    if (rank == 1) control.set("sure", "");
    if (rank == 0) control.get("sure", 60);
    if (rank == 0) first.signal(SIGKILL);
    const std::string reason = wait_for_end(control);
    CHECK(has(reason, "rank 2 (data 2) is lost"));
    if (rank == 0) second.signal(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(control.end_reason() == reason);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_SUITE_END();
