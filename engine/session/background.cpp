#include "engine/session/background.hpp"

#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"

namespace plait::session {
namespace {

std::string write_together(FileSystem& files, Rounds& rounds, checkpoint::Writer* writer,
                           const checkpoint::State& state,
                           std::span<const checkpoint::SaveTensor> tensors) {
  // The step goes with it: parts of different steps would make a checkpoint that looks sound.
  const std::string step = std::to_string(state.step);
  const std::string told =
      rounds.from_leader(rounds.leads() ? step + " " + writer->begin(state) : "");
  const std::string folder = told.substr(told.find(' ') + 1);
  std::string fault;
  try {
    if (told.substr(0, told.find(' ')) != step)
      fail(PLAIT_ERR_STATE, "[session] it saves step " + step + ", not the same as rank 0");
    checkpoint::write_share(files, folder, rounds.rank(), rounds.size(), tensors);
  } catch (const Error& e) {
    fault = e.text();
  }
  std::string faults;
  const std::vector<std::string> all = rounds.from_all(fault);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) faults += strf("; rank %zu: ", r) + all[r];
  if (!faults.empty()) {
    if (rounds.leads()) writer->abandon(folder);
    fail(PLAIT_ERR_IO, "[session] step " + step + " could not be saved" + faults);
  }
  return rounds.from_leader(rounds.leads() ? writer->commit(state, folder, rounds.size()) : "");
}

}  // namespace

std::string write_checkpoint(FileSystem& files, Rounds& rounds, checkpoint::Writer* writer,
                             const checkpoint::State& state,
                             std::span<const checkpoint::SaveTensor> tensors) {
  return rounds.alone() ? writer->save(state, tensors)
                        : write_together(files, rounds, writer, state, tensors);
}

Background::~Background() {
  if (thread_.joinable()) thread_.join();
}

void Background::start(int64_t step, std::function<std::string()> write) {
  write_ = std::move(write);
  at_ = {step, ""};
  started_ = true;
  try {
    thread_ = start_thread([this] {
      unbind_thread();
      run();
    });
  } catch (const Error&) {
    run();
  }
}

void Background::run() noexcept {
  try {
    at_.path = write_();
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_.store(true, std::memory_order_release);
}

void Background::wait() {
  if (!started_) return;
  if (thread_.joinable()) thread_.join();
  started_ = false;
  ended_.store(false, std::memory_order_relaxed);
  write_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  saved_ = std::move(at_);
}

std::optional<Saved> Background::take() { return std::exchange(saved_, std::nullopt); }

}  // namespace plait::session
