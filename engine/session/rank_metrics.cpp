#include "engine/session/rank_metrics.hpp"

#include <algorithm>
#include <array>

#include "engine/base/clock.hpp"
#include "engine/base/text.hpp"

namespace plait::session {
namespace {

std::string folder_in(const std::string& run_dir, const std::string& name, FileSystem& files) {
  std::string folder = join_path(join_path(run_dir, "metrics"), name);
  files.make_folders(folder);
  return folder;
}

}  // namespace

std::string rank_metrics_name(const plan::Plan& plan) {
  const config::RunConfig& run = plan.experiment.run;
  const auto& listed = run.metrics_ranks;
  if (run.rank_metrics == "all" ||
      std::find(listed.begin(), listed.end(), plan.rank) != listed.end())
    return strf("rank-%d", plan.rank);
  const topology::Coordinates& at = plan.at;
  const int32_t sum = at.pipeline + at.data + at.tensor;
  const auto first_of = [&](const char* axis, int32_t own) {
    return run.rank_metrics == axis && own == sum ? strf("%s-%d", axis, own) : std::string();
  };
  return first_of("pipeline", at.pipeline) + first_of("data", at.data) +
         first_of("tensor", at.tensor);
}

RankMetrics::RankMetrics(const std::string& run_dir, const std::string& name,
                         const plan::Plan& plan, FileSystem& files, Log& log)
    : at_(plan.at),
      rank_(plan.rank),
      lines_(files, folder_in(run_dir, name, files) + ".ndjson", name, log),
      events_(files, folder_in(run_dir, name, files), unix_seconds(), log) {}

void RankMetrics::resume(int64_t step) {
  lines_.resume(step, unix_seconds());
  begin();
}

void RankMetrics::add(const StepTimes& times) {
  sums_.step += times.step;
  sums_.wait += times.wait;
  sums_.data += times.data;
  sums_.busy += times.busy;
  ++steps_;
}

void RankMetrics::write(int64_t step) {
  if (steps_ == 0) return;
  const double ms = 1e3 / static_cast<double>(steps_), now = unix_seconds();
  const std::array<observe::NamedValue, 8> values = {
      {{"rank", static_cast<double>(rank_)},
       {"pipeline", static_cast<double>(at_.pipeline)},
       {"data", static_cast<double>(at_.data)},
       {"tensor", static_cast<double>(at_.tensor)},
       {"step_ms", sums_.step * ms},
       {"wait_ms", sums_.wait * ms},
       {"data_ms", sums_.data * ms},
       {"busy_ms", sums_.busy * ms}}};
  const size_t n = sums_.busy > 0 ? values.size() : values.size() - 1;
  lines_.event("rank", step, now, std::span(values).first(n));
  constexpr std::array<std::string_view, 4> kTags = {"rank/step_ms", "rank/wait_ms", "rank/data_ms",
                                                     "rank/busy_ms"};
  for (size_t i = 4; i < n; ++i) events_.scalar(kTags.at(i - 4), step, now, values.at(i).value);
  begin();
}

}  // namespace plait::session
