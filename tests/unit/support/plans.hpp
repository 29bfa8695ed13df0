// Plans of experiments that a test writes as TOML.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/config/document.hpp"
#include "engine/plan/plan_builder.hpp"

namespace plait::test {

// A rank of as many as the experiment asks for. log: NULL for none.
inline plan::PlanContext context_of(std::shared_ptr<plugin::Registry> plugins, int32_t rank = 0,
                                    Log* log = nullptr) {
  plan::PlanContext context{std::move(plugins), log, {&FileSystem::posix(), "", "."}};
  context.rank = rank;
  context.world = 0;
  return context;
}

// keys: overrides, as "run.steps=2". Throws the problems, if there are any.
inline config::Experiment experiment_of(const std::string& toml,
                                        const std::vector<std::string>& keys,
                                        const plan::PlanContext& context) {
  config::Problems problems;
  config::Document document = config::Document::parse(toml, "test.toml", problems);
  for (const std::string& key : keys) config::apply_override(document, key, problems);
  config::Experiment experiment =
      config::load_experiment(document, *context.registry, context.resolver, problems);
  problems.raise_if_any();
  return experiment;
}

// With a further entry point, if `write` is one. Throws as above.
inline std::unique_ptr<const plan::Plan> plan_of(const std::string& toml,
                                                 const std::vector<std::string>& keys,
                                                 const plan::PlanContext& context,
                                                 const plan::WriteEntryPoint& write = {}) {
  const config::Experiment experiment = experiment_of(toml, keys, context);
  config::Problems problems;
  plan::PlanBuilder builder(experiment, context);
  if (write) builder.add(write);
  auto plan = builder.build(problems);
  problems.raise_if_any();
  return plan;
}

}  // namespace plait::test
