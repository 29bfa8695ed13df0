// A session: a plan with its memory, devices and ranks. Steps, evaluation, parameters, checkpoints;
// the parts are in session_parts.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"
#include "engine/session/evaluation.hpp"
#include "engine/session/feeder.hpp"
#include "engine/session/profiler_settings.hpp"
#include "engine/session/settings.hpp"
#include "engine/session/views.hpp"

namespace plait::session {

struct AdapterSource;
struct SessionParts;
class TokenRunner;

// Owner thread only, except cancel(). Where several ranks train together, each has its own session,
// and all ranks make the same calls in the same order; a host then feeds the samples of its rank to
// step().
class Session {
 public:
  Session(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log, FileSystem& files);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  StepResult step();  // the next batch of [data.train]
  StepResult step(const std::vector<HostField>& fields);
  StepResult run();  // to the end; see trainer.hpp
  Evaluation evaluate(const std::string& dataset, int64_t max_batches = 0);  // 0: all of it
  void predict(const std::vector<HostField>& fields, const std::vector<Prediction>& values);
  bool any_rank(bool own);  // whether it is so on any rank; returns when all ranks have called it
  Profile profile(const ProfileSettings& settings);
  void cancel();

  // path "": into the run directory. Returns the checkpoint's path.
  std::string save(const std::string& path);
  void load(const std::string& path);
  void load_parameters(const std::string& path);  // only parameters and their step

  void merge(bool keep);  // see adapters.hpp
  void merge_adapter(const config::ModelConfig& model, const std::string& adapter, bool keep);
  void unmerge();
  std::string save_model(const std::string& folder, const std::string& experiment);
  void load_adapter(const config::ModelConfig& model, const std::string& adapter,
                    const std::function<AdapterSource()>& make);
  void reset_adapter(const config::ModelConfig& model, const std::string& adapter);
  std::string save_adapter(const std::string& folder, const config::ModelConfig& model,
                           const std::string& adapter, const std::string& experiment);

  void read(const std::string& parameter, void* data, uint64_t bytes);
  void write(const std::string& parameter, const void* data, uint64_t bytes);
  View view(const std::string& name, const ViewRequest& request);
  // Later work waits for what is on a stream of the host now. Errors: as Queue::order().
  void wait_stream(void* stream);
  // Errors: PLAIT_ERR_CONFIG when the plan does not generate.
  TokenRunner& token_runner();
  char* address(plan::BufferRef at) const;
  std::string describe() const;
  const plan::Plan& plan() const;

 private:
  std::unique_ptr<SessionParts> parts_;
};

}  // namespace plait::session
