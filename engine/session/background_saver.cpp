#include "engine/session/background_saver.hpp"

#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"

namespace plait::session {
namespace {

std::string write_on_all_ranks(FileSystem& files, ControlCollectives& collectives,
                               checkpoint::CheckpointWriter* writer,
                               const checkpoint::RunState& state,
                               std::span<const checkpoint::SaveTensor> tensors) {
  // The step is sent along: parts of different steps would make a checkpoint that looks valid.
  const std::string step = std::to_string(state.step);
  const std::string told =
      collectives.broadcast(collectives.is_leader() ? step + " " + writer->begin(state) : "");
  const std::string folder = told.substr(told.find(' ') + 1);
  std::string fault;
  try {
    if (told.substr(0, told.find(' ')) != step)
      fail(PLAIT_ERR_STATE, "[session] this rank saves step " + step + ", rank 0 another step");
    checkpoint::write_shard(files, folder, collectives.rank(), collectives.size(), tensors);
  } catch (const Error& e) {
    fault = e.text();
  }
  std::string faults;
  const std::vector<std::string> all = collectives.all_gather(fault);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) faults += strf("; rank %zu: ", r) + all[r];
  if (!faults.empty()) {
    if (collectives.is_leader()) writer->discard(folder);
    fail(PLAIT_ERR_IO, "[session] step " + step + " could not be saved" + faults);
  }
  return collectives.broadcast(
      collectives.is_leader() ? writer->commit(state, folder, collectives.size()) : "");
}

}  // namespace

std::string write_checkpoint(FileSystem& files, ControlCollectives& collectives,
                             checkpoint::CheckpointWriter* writer,
                             const checkpoint::RunState& state,
                             std::span<const checkpoint::SaveTensor> tensors) {
  return collectives.is_single() ? writer->save(state, tensors)
                                 : write_on_all_ranks(files, collectives, writer, state, tensors);
}

BackgroundSaver::~BackgroundSaver() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSaver::start(int64_t step, std::function<std::string()> write) {
  write_ = std::move(write);
  at_ = {step, ""};
  started_ = true;
  try {
    thread_ = start_thread([this] {
      unbind_thread();
      run();
    });
  } catch (const std::exception&) {
    run();
  }
}

void BackgroundSaver::run() noexcept {
  try {
    at_.path = write_();
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_.store(true, std::memory_order_release);
}

void BackgroundSaver::wait() {
  if (!started_) return;
  if (thread_.joinable()) thread_.join();
  started_ = false;
  ended_.store(false, std::memory_order_relaxed);
  write_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  saved_ = std::move(at_);
}

std::optional<SavedCheckpoint> BackgroundSaver::take() {
  return std::exchange(saved_, std::nullopt);
}

}  // namespace plait::session
