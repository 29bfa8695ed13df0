// Ranks that write one checkpoint: rank 0 commits it only while the others are there.
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/runtime/control.hpp"
#include "engine/session/background_saver.hpp"
#include "engine/session/control_collectives.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two ranks that write checkpoints of one number each.
class TwoWriters {
 public:
  TwoWriters(const Folder& folder, FileSystem& files) : files_(files), folder_(folder / "ckpt") {
    each([&](int rank) {
      runtime::ControlConfig config;
      config.job.rank = config.job.local_rank = rank;
      config.job.size = config.job.local_size = 2;
      config.job.rendezvous = "file:" + folder / "rendezvous";
      config.job.connect_timeout = config.job.timeout = 60;
      config.name = "rank " + std::to_string(rank);
      Rank& own = ranks_[rank];
      own.control = std::make_unique<runtime::Control>(config, log_);
      own.collectives.emplace(own.control.get(), "saving", rank, 2);
      if (rank == 0) writer_.emplace(files_, folder_, 0, log_);
    });
  }
  ~TwoWriters() {
    each([&](int rank) { ranks_[rank].control.reset(); });
  }
  runtime::Control& control(int rank) { return *ranks_[rank].control; }
  // The code of each rank's error. stops: rank 1 does so behind its part.
  std::array<uint32_t, 2> save(int64_t step, bool stops = false) {
    std::array<uint32_t, 2> codes{};
    each([&](int rank) {
      const float value = 1;
      const std::vector<checkpoint::SaveTensor> tensors = {
          {"w", PLAIT_F32, {2}, &value, false, {rank}, {1}}};
      checkpoint::RunState state;
      state.step = step;
      session::ControlCollectives& collectives = *ranks_[rank].collectives;
      try {
        if (rank == 1 && stops) return write_part(collectives, tensors);
        session::write_checkpoint(
            files_, collectives, [&]() -> auto& { return *writer_; }, state, tensors);
      } catch (const Error& e) {
        codes[static_cast<size_t>(rank)] = e.code();
      }
    });
    return codes;
  }

 private:
  void write_part(session::ControlCollectives& collectives,
                  const std::vector<checkpoint::SaveTensor>& tensors) {
    const std::string told = collectives.broadcast("");  // "=STEP FOLDER"
    checkpoint::write_shard(files_, told.substr(told.find(' ') + 1), 1, 2, tensors);
    collectives.all_gather("");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    control(1).abort("[test] rank 0 was silent");
  }
  struct Rank {
    std::unique_ptr<runtime::Control> control;
    std::optional<session::ControlCollectives> collectives;
  };
  template <class F>
  static void each(F&& f) {
    std::thread other([&] { f(1); });
    f(0);
    other.join();
  }

  FileSystem& files_;
  std::string folder_;
  Log log_;
  Rank ranks_[2];
  std::optional<checkpoint::CheckpointWriter> writer_;
};

}  // namespace

TEST_CASE("rank 0 is late: the others have ended the job, and it commits nothing") {
  const Folder folder;
  TwoWriters* job = nullptr;
  // All parts are written when rank 0 is stopped, as by SIGSTOP, until rank 1 has given up.
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what != "write" || !has(path, "/.tmp-2-") || !has(path, "MANIFEST")) return;
    job->control(1).abort("[test] rank 0 is silent");
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (job->control(0).end_reason().empty() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  TwoWriters writers(folder, files);
  job = &writers;
  CHECK(writers.save(1) == std::array<uint32_t, 2>{PLAIT_OK, PLAIT_OK});
  CHECK(writers.save(2) == std::array<uint32_t, 2>{PLAIT_ERR_PEER, PLAIT_ERR_PEER});
  const auto names = checkpoint::list_checkpoints(files, folder / "ckpt");
  REQUIRE(names.size() == 1);
  CHECK(names[0].step == 1);
}

TEST_CASE("rank 0 asks again whether the others are there before it commits") {
  const Folder folder;
  HookedFiles files;
  TwoWriters writers(folder, files);
  // Rank 1 writes its part, and does nothing more until the job is over.
  CHECK(writers.save(1, true) == std::array<uint32_t, 2>{PLAIT_ERR_PEER, PLAIT_OK});
  CHECK(checkpoint::list_checkpoints(files, folder / "ckpt").empty());
}
