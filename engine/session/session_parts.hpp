// The parts of a session. Each has a narrow interface; Session and Trainer put them together.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "engine/session/adapters.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/checkpoint_io.hpp"
#include "engine/session/evaluator.hpp"
#include "engine/session/parameters.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"
#include "engine/session/token_runner.hpp"

namespace plait::session {

struct SessionParts {
  SessionParts(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log,
               FileSystem& files)
      : context(std::move(plan), std::move(settings), log, files),
        steps(context),
        evaluator(context, steps),
        bases(context.plan, context.files, context.log),
        parameters(context, steps, bases),
        adapters(context, steps, parameters, bases),
        checkpoints(context, steps, bases) {
    if (context.plan.generation.slots > 0) tokens.emplace(context, steps);
  }

  SessionContext context;
  StepRunner steps;
  Evaluator evaluator;
  BaseWeights bases;
  Parameters parameters;
  Adapters adapters;
  std::optional<TokenRunner> tokens;  // only of a plan that generates
  CheckpointIo checkpoints;           // last: its thread must end before the others
};

}  // namespace plait::session
