#include "engine/session/background_saver.hpp"

#include <new>
#include <utility>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"
#include "engine/session/rank_context.hpp"

namespace plait::session {
namespace {

constexpr char kOutOfMemory[] = "[session] out of memory while a checkpoint was written";

// A code and a text, "" without an error, so that other ranks can throw it.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
    return "";
  } catch (const Error& e) {
    return std::to_string(e.code()) + " " + e.full_text();
  } catch (const std::bad_alloc&) {
    return std::to_string(PLAIT_ERR_MEMORY) + " " + kOutOfMemory;
  }
}

// The parts of such a text.
uint32_t code_of(const std::string& error) {
  return static_cast<uint32_t>(std::stoul(error.substr(0, error.find(' '))));
}
std::string text_of(const std::string& error) { return error.substr(error.find(' ') + 1); }

// A save of several ranks.
struct SharedSave {
  ControlCollectives& collectives;
  int64_t step;
  uint64_t own_bytes;  // that this rank writes
};

// " (needs 12 MiB)", of all ranks, where that may be the reason.
std::string needs_text(const SharedSave& save, uint32_t code) {
  if (!is_harmless(code)) return "";
  uint64_t bytes = 0;
  for (const std::string& of_rank : save.collectives.all_gather(std::to_string(save.own_bytes)))
    bytes += std::stoull(of_rank);
  return " (needs " + human_bytes(bytes) + ")";
}

// On all ranks: `texts` says which rank failed and how.
[[noreturn]] void fail_step(const SharedSave& save, uint32_t code, const std::string& texts) {
  fail_collective(code,
                  strf("[session] step %ld could not be saved", static_cast<long>(save.step)) +
                      needs_text(save, code) + texts);
}

// What rank 0 makes of f(), on all ranks; its error, too, is thrown on all.
template <class F>
std::string on_leader(const SharedSave& save, F&& f) {
  constexpr char kError = '!', kResult = '=';
  std::string told;
  if (save.collectives.is_leader()) {
    std::string result;
    const std::string error = error_of([&] { result = f(); });
    told = error.empty() ? kResult + result : kError + error;
  }
  told = save.collectives.broadcast(told);
  std::string rest = told.substr(1);
  if (told.front() == kError) fail_step(save, code_of(rest), "; rank 0: " + text_of(rest));
  return rest;
}

// Throws on every rank what went wrong on any. An error that is not harmless comes first.
void fail_on_any(const SharedSave& save, const std::string& own) {
  constexpr size_t kMostTexts = 4;
  std::string texts;
  uint32_t code = PLAIT_OK;
  size_t n = 0;
  const std::vector<std::string> all = save.collectives.all_gather(own);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    if (n++ < kMostTexts) texts += strf("; rank %zu: ", r) + text_of(all[r]);
    if (code == PLAIT_OK || is_harmless(code)) code = code_of(all[r]);
  }
  if (n > kMostTexts) texts += strf("; and %zu more ranks", n - kMostTexts);
  if (n > 0) fail_step(save, code, texts);
}

void write_own_shard(FileSystem& files, const ControlCollectives& collectives,
                     const std::string& folder, std::span<const checkpoint::SaveTensor> tensors) {
  try {
    checkpoint::write_shard(files, folder, collectives.rank(), collectives.size(), tensors);
  } catch (...) {
    checkpoint::discard_shard(files, folder, collectives.rank(), collectives.size());
    throw;
  }
}

// The others wait for this rank until `timeout` is over, and may then end the job.
void check_not_late(double seconds, double timeout) {
  if (seconds < timeout / 2) return;
  fail(PLAIT_ERR_PEER,
       strf("[session] rank 0 was stopped, or starved, for %g s while it committed a checkpoint; "
            "the other ranks may have ended the job, so it is not committed",
            seconds));
}

std::string write_on_all_ranks(FileSystem& files, ControlCollectives& collectives,
                               const WriterOf& writer, const checkpoint::RunState& state,
                               std::span<const checkpoint::SaveTensor> tensors) {
  // The step is sent along: parts of different steps would make a checkpoint that looks valid.
  const std::string step = std::to_string(state.step);
  const SharedSave save{collectives, state.step, checkpoint::bytes_of(tensors)};
  const std::string told = on_leader(save, [&] { return step + " " + writer().begin(state); });
  const std::string folder = told.substr(told.find(' ') + 1);
  const auto write = [&] {
    if (told.substr(0, told.find(' ')) != step)
      fail(PLAIT_ERR_STATE, "[session] this rank saves step " + step + ", rank 0 another step");
    write_own_shard(files, collectives, folder, tensors);
  };
  try {
    fail_on_any(save, error_of(write));
    on_leader(save, [&] {
      writer().write_manifest(state, folder, collectives.size());
      return std::string();
    });
    // Rank 0 may have been stopped meanwhile, and the others have given the job up.
    collectives.all_gather("");
    const Stopwatch since;
    return on_leader(save, [&] {
      return writer().publish(state, folder,
                              [&] { check_not_late(since.seconds(), collectives.timeout()); });
    });
  } catch (const Error& e) {
    if (collectives.is_leader() && e.code() != PLAIT_ERR_PEER) writer().discard(folder);
    throw;
  }
}

}  // namespace

bool is_harmless(uint32_t code) {
  return code == PLAIT_ERR_IO || code == PLAIT_ERR_NOT_FOUND || code == PLAIT_ERR_MEMORY;
}

void fail_saving(const SavedCheckpoint& saved) {
  throw CollectiveError(saved.error->code(), saved.error->text(), saved.error->cause());
}

SavedCheckpoint write_checkpoint(FileSystem& files, ControlCollectives& collectives,
                                 const WriterOf& writer, const checkpoint::RunState& state,
                                 std::span<const checkpoint::SaveTensor> tensors) {
  SavedCheckpoint saved;
  saved.step = state.step;
  try {
    saved.path = collectives.is_single()
                     ? writer().save(state, tensors)
                     : write_on_all_ranks(files, collectives, writer, state, tensors);
  } catch (const CollectiveError& e) {
    if (!is_harmless(e.code())) throw;
    saved.error = e;
  } catch (const Error& e) {
    if (!is_harmless(e.code()) || !collectives.is_single()) throw;
    saved.error = e;
  } catch (const std::bad_alloc&) {
    if (!collectives.is_single()) throw;
    saved.error = Error(PLAIT_ERR_MEMORY, kOutOfMemory);
  }
  return saved;
}

BackgroundSaver::~BackgroundSaver() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSaver::start(std::function<SavedCheckpoint()> write) {
  write_ = std::move(write);
  started_ = true;
  try {
    thread_ = start_thread([this] {
      unbind_thread();
      this->write();
    });
  } catch (const std::exception&) {
    this->write();
  }
}

void BackgroundSaver::run(const std::function<SavedCheckpoint()>& write) { saved_ = write(); }

void BackgroundSaver::write() noexcept {
  try {
    written_ = write_();
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
  saved_ = std::exchange(written_, {});
}

std::optional<SavedCheckpoint> BackgroundSaver::take() {
  return std::exchange(saved_, std::nullopt);
}

}  // namespace plait::session
