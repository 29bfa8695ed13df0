// The parts of a session. Each has a narrow interface; Session and Trainer put them together.
#pragma once

#include <memory>
#include <utility>

#include "engine/session/checkpoint_io.hpp"
#include "engine/session/evaluator.hpp"
#include "engine/session/parameters.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

struct SessionParts {
  SessionParts(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log,
               FileSystem& files)
      : context(std::move(plan), std::move(settings), log, files),
        steps(context),
        evaluator(context, steps),
        parameters(context, steps),
        checkpoints(context, steps) {}

  SessionContext context;
  StepRunner steps;
  Evaluator evaluator;
  Parameters parameters;
  CheckpointIo checkpoints;  // last: its thread must end before the others
};

}  // namespace plait::session
