// The objects behind the handles of the host's headers. Each keeps the objects alive that it was
// made from.
#pragma once

#include <plait/checkpoint.h>
#include <plait/data.h>
#include <plait/encode.h>
#include <plait/view.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/c_error.hpp"
#include "engine/base/call_watch.hpp"
#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/capi/call_guard.hpp"
#include "engine/config/document.hpp"
#include "engine/config/experiment.hpp"
#include "engine/plan/dataset.hpp"
#include "engine/plan/plan.hpp"
#include "engine/plugin/registry.hpp"
#include "engine/runtime/job.hpp"
#include "engine/session/session.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace plait::capi {

// The log is the first member because the registry writes to it until it is closed. A copy of
// shared_registry() keeps all of this alive.
struct EngineState {
  Log log;
  FileSystem& files = FileSystem::posix();
  std::unique_ptr<CallWatch> watch;
  std::unique_ptr<plugin::Registry> registry;
  std::string data_folder;
  const unsigned made_at = fork_depth();

  // Throws PLAIT_ERR_STATE in a process that was forked after the engine was opened.
  void check_own(const char* function, const char* what) const {
    if (made_at != fork_depth()) refuse_foreign(function, what);
  }
};

inline std::shared_ptr<plugin::Registry> shared_registry(
    const std::shared_ptr<EngineState>& state) {
  return {state, state->registry.get()};
}

// A text argument: pointer and length, or NUL-terminated. `what` names it in the error.
std::string text_argument(const char* data, uint64_t size, const char* what);
// The item of a document that holds its type and options alone. name: of the text, in messages.
config::ItemConfig read_item(EngineState& engine, std::string_view kind, const std::string& toml,
                             const std::string& name);
// The experiment in a file. Errors: as plait_experiment_read().
config::Experiment read_experiment(EngineState& engine, const std::string& path);
// Throws PLAIT_ERR_INVALID if a required pointer is NULL.
void require(const void* pointer, const char* what);
plait_text* new_text(std::string text);
// The ids of a conversation, as plait_chat_encode() returns them; invalid: what was not UTF-8.
std::vector<int32_t> chat_ids(const tokenizer::Tokenizer& tokenizer, const char* name,
                              const plait_chat_message* messages, uint64_t n, uint32_t flags,
                              kit::InvalidBytes& invalid);
// The special tokens that end the assistant's turn in a template; empty: it ends in ordinary text.
std::vector<int32_t> chat_turn_ends(const tokenizer::Tokenizer& tokenizer, const char* name);

// Sizes of the host's structs in ABI 1 (up to their last member at that time), the smallest that is
// ever accepted. They never change.
#define PLAIT_V1_SIZE(type, last) (offsetof(type, last) + sizeof(type::last))
inline constexpr size_t kEngineOptionsV1 = PLAIT_V1_SIZE(plait_engine_options, data_folder),
                        kExperimentOptionsV1 = PLAIT_V1_SIZE(plait_experiment_options, reserved),
                        kJobOptionsV1 = PLAIT_V1_SIZE(plait_job_options, timeout),
                        kSessionOptionsV1 = PLAIT_V1_SIZE(plait_session_options, command),
                        kExportOptionsV1 = PLAIT_V1_SIZE(plait_export_options, reserved),
                        kConvertOptionsV1 = PLAIT_V1_SIZE(plait_convert_options, user),
                        kStepResultV1 = PLAIT_V1_SIZE(plait_step_result, finished),
                        kProfileOptionsV1 = PLAIT_V1_SIZE(plait_profile_options, reserved),
                        kViewOptionsV1 = PLAIT_V1_SIZE(plait_view_options, stream),
                        kFeedV1 = offsetof(plait_feed, tensor) + sizeof(void*);
#undef PLAIT_V1_SIZE

// The caller's options struct in the size of this version: missing members are zero. NULL gives
// zeros.
template <class Options>
Options read_options(const Options* given, size_t v1_size, const char* what) {
  Options all{};
  all.struct_size = sizeof all;
  if (!given) return all;
  if (given->struct_size < v1_size)
    fail_invalid(std::string("[capi] ") + what + ".struct_size is " +
                 std::to_string(given->struct_size) + ", expected at least " +
                 std::to_string(v1_size) + "; set it to sizeof");
  const size_t n = given->struct_size < sizeof all ? given->struct_size : sizeof all;
  __builtin_memcpy(&all, given, n);
  all.struct_size = sizeof all;
  return all;
}

}  // namespace plait::capi

struct plait_text {
  std::string text;
};

struct plait_engine {
  plait::capi::CallGuard guard;
  std::shared_ptr<plait::capi::EngineState> state;
};

struct plait_experiment {
  std::shared_ptr<plait::capi::EngineState> engine;
  plait::config::Document document;
  plait::config::Experiment experiment;
  plait::config::PathResolver resolver;
  std::vector<std::string> overrides;
};

struct plait_job {
  plait::runtime::Job job;
};

struct plait_plan {
  std::shared_ptr<plait::capi::EngineState> engine;
  std::shared_ptr<const plait::plan::Plan> plan;
  std::vector<std::string> overrides;
  plait::runtime::Job job;  // the job of the rank that the plan is made for
};

struct plait_tokenizer {
  std::shared_ptr<plait::capi::EngineState> engine;
  plait::tokenizer::Tokenizer tokenizer;
};

struct plait_tokens {
  std::vector<int32_t> ids;
  plait::kit::InvalidBytes invalid;
};

struct plait_dataset {
  std::shared_ptr<plait::capi::EngineState> engine;
  plait::plan::Dataset dataset;
};

// A session, and what its generators share with it: they may be closed later.
struct SessionState {
  plait::capi::CallGuard guard;
  std::shared_ptr<plait::capi::EngineState> engine;
  std::unique_ptr<plait::session::Session> session;
  std::unique_ptr<plait::CallMark> mark;  // of the thread that is in the session
  plait_session* handle = nullptr;        // of the host; valid until it is closed
  bool generating = false;                // a generator is open
};

struct plait_session {
  const std::shared_ptr<SessionState> state = std::make_shared<SessionState>();
  plait::capi::CallGuard& guard = state->guard;
  std::shared_ptr<plait::capi::EngineState>& engine = state->engine;
  std::unique_ptr<plait::session::Session>& session = state->session;
  plait::CallMark* watched() const { return state->mark.get(); }
  // Its generators keep the state alive, but not memory, files and ranks.
  ~plait_session() { session.reset(); }
};
