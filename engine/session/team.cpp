#include "engine/session/team.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/session/identity.hpp"

namespace plait::session {

Team::Team(std::shared_ptr<const plan::Plan> plan, const runtime::Job& job, Log& log)
    : plan_(std::move(plan)),
      rank_(plan_->rank),
      size_(plan_->grid.ranks()),
      patience_(plan_->experiment.topology.timeout) {
  if (size_ == 1) return;
  if (job.size != size_ || job.rank != rank_)
    fail(
        PLAIT_ERR_STATE,
        strf(
            "[session] the plan is that of rank %d of %d, the session was opened as rank %d of %d; "
            "start as many ranks as [topology] asks for (plait run does), and make the plan "
            "with plait_plan_make_for() and the rank's job",
            rank_, size_, job.rank, job.size));
  const topology::Coordinates c = plan_->at;
  runtime::ControlConfig config;
  config.job = job;
  config.job.timeout = plan_->experiment.topology.timeout;
  config.job.connect_timeout = plan_->experiment.topology.connect_timeout;
  config.name =
      strf("rank %d (pipeline %d, data %d, tensor %d)", rank_, c.pipeline, c.data, c.tensor);
  config.identity = identity_of(*plan_);
  control_ = std::make_unique<runtime::Control>(config, log);
}

Team::~Team() = default;

runtime::Communicators* Team::connect(bool host_memory) {
  if (alone()) return nullptr;
  communicators_ = std::make_unique<runtime::Communicators>(plan_, *control_, host_memory);
  return communicators_.get();
}

std::string Team::key(const char* what, int32_t rank) const {
  return strf("session.%s.%ld.%d", what, static_cast<long>(round_), rank);
}

std::string Team::from_leader(const std::string& text) {
  if (alone()) return text;
  ++round_;
  if (leads()) {
    control_->set(key("leader", 0), text);
    return text;
  }
  return control_->get(key("leader", 0), patience_);
}

std::vector<std::string> Team::from_all(const std::string& text) {
  if (alone()) return {text};
  ++round_;
  control_->set(key("all", rank_), text);
  std::vector<std::string> texts;
  for (int32_t r = 0; r < size_; ++r)
    texts.push_back(r == rank_ ? text : control_->get(key("all", r), patience_));
  return texts;
}

void Team::at_step(int64_t step) noexcept {
  if (control_) control_->at_step(step);
}

void Team::give_up(const std::string& text) noexcept {
  if (control_) control_->give_up(text);
}

std::string Team::end_reason() const { return control_ ? control_->end_reason() : ""; }

}  // namespace plait::session
