// When a rank of a job fails: who is told, and what the rank leaves.
#include "engine/session/calls_record.hpp"

#include <doctest/doctest.h>

#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/session/session_context.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

const std::string kRecord = "rank-1.calls.json";

// Two ranks; body(rank, context) begins once both are connected, so that an abort of one does not
// end the other's opening.
void on_two_ranks(const std::string& folder, FileSystem& files,
                  const std::function<void(int, session::SessionContext&)>& body) {
  const Folder rendezvous;
  std::barrier connected(2);
  std::filesystem::create_directory(folder + "/log");
  on_threads(2, [&](int rank) {
    Log log([](uint32_t, std::string_view) {});
    session::Settings settings;
    settings.no_files = true;
    settings.job.rank = settings.job.local_rank = rank;
    settings.job.size = settings.job.local_size = 2;
    settings.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    session::SessionContext c(make_plan({"topology.data=2"}, files, rank, 2, log),
                              std::move(settings), log, files);
    c.folder = folder;
    connected.arrive_and_wait();
    body(rank, c);
    c.executor.settle();
    c.ranks.disconnect();
  });
}

nlohmann::json record_in(const std::string& folder) {
  return nlohmann::json::parse(FileSystem::posix().read_all(folder + "/log/" + kRecord, 1 << 16));
}

}  // namespace

TEST_CASE("a rank without memory, or with an exception of a library, leaves a record") {
  for (const bool memory : {true, false}) {
    CAPTURE(memory);
    const Folder folder;
    HookedFiles files;
    on_two_ranks(folder.path(), files, [&](int rank, session::SessionContext& c) {
      if (rank == 0) return;
      if (memory)
        CHECK_THROWS_AS(c.on_all_ranks("x", [] { throw std::bad_alloc(); }), std::bad_alloc);
      else
        CHECK_THROWS_AS(c.on_all_ranks("x", [] { throw std::runtime_error("a library's"); }),
                        std::runtime_error);
    });
    const nlohmann::json record = record_in(folder.path());
    CHECK(record.at("rank") == 1);
    CHECK(record.at("error") == (memory ? "out of memory" : "x: a library's"));
    CHECK(record.at("groups").at(0).at("group") == "data.0");
  }
}

TEST_CASE("the others are told before a record is written: the disk may hang") {
  const Folder folder;
  std::promise<void> told;
  std::future_status others = std::future_status::deferred;
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "open" && path.find(kRecord) != path.npos)
      others = told.get_future().wait_for(std::chrono::seconds(20));
  });
  on_two_ranks(folder.path(), files, [&](int rank, session::SessionContext& c) {
    if (rank == 1) {
      CHECK(error_of([&] { c.on_all_ranks("x", [] { fail_data("[test] mine"); }); },
                     PLAIT_ERR_DATA) == "[test] mine");
      return;
    }
    const std::string text =
        error_of([&] { c.on_all_ranks("x", [&] { c.ranks.all_gather("here"); }); }, PLAIT_ERR_PEER);
    CHECK(text.find("[test] mine") != text.npos);
    told.set_value();
  });
  CHECK(others == std::future_status::ready);
  CHECK(record_in(folder.path()).at("error") == "[test] mine");
}

TEST_CASE("logs of all ranks have the reason, that of rank 0 in run() from the run") {
  for (const bool running : {false, true}) {
    CAPTURE(running);
    const Folder folder;
    HookedFiles files;
    on_two_ranks(folder.path(), files, [&](int rank, session::SessionContext& c) {
      c.rank_log.open(files, folder.path());
      c.running = running;
      error_of(
          [&] {
            c.on_all_ranks("x", [&] {
              if (rank == 1) fail_data("[test] mine");
              c.ranks.all_gather("here");
            });
          },
          rank == 1 ? PLAIT_ERR_DATA : PLAIT_ERR_PEER);
    });
    const auto log_of = [&](int rank) {
      return FileSystem::posix().read_all(folder / ("log/rank-" + std::to_string(rank) + ".log"),
                                          1 << 16);
    };
    CHECK((log_of(0).find("[test] mine") == std::string::npos) == running);
    CHECK(log_of(1).find("[session] x failed in step 1\n  [test] mine") != std::string::npos);
  }
}

TEST_CASE("records of an earlier process go, also those that it had not finished") {
  const Folder folder;
  std::filesystem::create_directory(folder / "log");
  for (const char* name : {"rank-0.calls.json", "rank-3.calls.json.tmp-4711", "rank-0.log"})
    std::ofstream(folder / (std::string("log/") + name)) << "x";
  Log log([](uint32_t, std::string_view) {});
  session::forget_calls(FileSystem::posix(), folder.path(), log);
  CHECK(FileSystem::posix().list(folder / "log") == std::vector<std::string>{"rank-0.log"});
}
