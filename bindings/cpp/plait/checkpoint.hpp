// plait/checkpoint.hpp - checkpoints as things from C++20, over checkpoint.h.
//
//   const std::string json = plait::list_checkpoints(engine, "runs");
#pragma once

#include <plait/checkpoint.h>
#include <plait/plait.hpp>

namespace plait {
inline namespace embedding {

// Told how many bytes are read; returns true to stop the call, which then throws HostError with
// PLAIT_ERR_CANCELLED. An exception that it throws stops the call, and leaves it.
using ProgressCallback = std::function<bool(uint64_t done, uint64_t total)>;

// See plait_convert_options.
struct ConvertSettings {
  uint32_t shards = 0;           // 0: as max_shard_bytes asks
  uint64_t max_shard_bytes = 0;  // 0: no limit
  bool optimizer = true;         // also the states of optimizers
  ProgressCallback progress;
};

namespace host_detail {
// A callback of the library that calls a ProgressCallback.
class ProgressHook {
 public:
  explicit ProgressHook(const ProgressCallback& call) : call_(call) {}
  plait_progress function() const { return call_ ? &on_progress : nullptr; }
  // text_of(f), or the exception that the callback threw meanwhile.
  template <class F>
  std::string text_of(F&& f) {
    try {
      return host_detail::text_of(std::forward<F>(f));
    } catch (const HostError&) {
      if (thrown_) std::rethrow_exception(thrown_);
      throw;
    }
  }

 private:
  static uint32_t on_progress(void* user, uint64_t done, uint64_t total) {
    auto* hook = static_cast<ProgressHook*>(user);
    try {
      return hook->call_(done, total) ? 1 : 0;
    } catch (...) {
      hook->thrown_ = std::current_exception();
      return 1;
    }
  }
  const ProgressCallback& call_;
  std::exception_ptr thrown_;
};
}  // namespace host_detail

// JSON: the checkpoints at a place.
inline std::string list_checkpoints(const Engine& engine, const std::string& place) {
  return host_detail::text_of(
      [&](plait_text** t) { return plait_checkpoint_list(engine.get(), place.c_str(), t); });
}
// JSON: state, settings, files and tensors of one checkpoint.
inline std::string describe_checkpoint(const Engine& engine, const std::string& checkpoint) {
  return host_detail::text_of([&](plait_text** t) {
    return plait_checkpoint_describe(engine.get(), checkpoint.c_str(), t);
  });
}
// JSON: all faults of one checkpoint.
inline std::string verify_checkpoint(const Engine& engine, const std::string& checkpoint,
                                     const ProgressCallback& progress = {}) {
  host_detail::ProgressHook hook(progress);
  return hook.text_of([&](plait_text** t) {
    return plait_checkpoint_verify(engine.get(), checkpoint.c_str(), hook.function(), &hook, t);
  });
}
// JSON: in what two checkpoints differ. what: PLAIT_COMPARE_*.
inline std::string compare_checkpoints(const Engine& engine, const std::string& a,
                                       const std::string& b,
                                       uint32_t what = PLAIT_COMPARE_EVERYTHING,
                                       const ProgressCallback& progress = {}) {
  host_detail::ProgressHook hook(progress);
  return hook.text_of([&](plait_text** t) {
    return plait_checkpoint_compare(engine.get(), a.c_str(), b.c_str(), what, hook.function(),
                                    &hook, t);
  });
}
// Writes a checkpoint again as the folder `out`. JSON: the files.
inline std::string convert_checkpoint(const Engine& engine, const std::string& checkpoint,
                                      const std::string& out,
                                      const ConvertSettings& settings = {}) {
  host_detail::ProgressHook hook(settings.progress);
  plait_convert_options o{};
  o.struct_size = sizeof o;
  o.max_shard_bytes = settings.max_shard_bytes;
  o.shards = settings.shards;
  o.no_optimizer = settings.optimizer ? 0 : 1;
  o.progress = hook.function();
  o.user = &hook;
  return hook.text_of([&](plait_text** t) {
    return plait_checkpoint_convert(engine.get(), checkpoint.c_str(), out.c_str(), &o, t);
  });
}

}  // namespace embedding
}  // namespace plait
