// What an experiment says without effect, or against its purpose: warnings, each with its key.
#pragma once

#include "engine/plan/plan.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Warns about keys that have no effect in this topology, or without [data.eval]. trains: there is a
// [data.train], though an experiment that only generates has left it out.
void warn_ignored(const config::Experiment& experiment, bool trains, Log* log);
// About a batch that has more samples than there are; `samples`: of [data.train].
void warn_large_batch(const config::Experiment& experiment, int64_t samples, Log* log);
// About a device that "auto" took while plugins could not be loaded: a better one may be theirs.
void warn_of_other_devices(const Plan& plan, Log* log);
// About more threads than this machine has cores; used: by the device.
void warn_many_threads(const config::Experiment& experiment, int64_t used, Log* log);
// About samples of training, or generated sequences, longer than model.context_length.
void warn_long_samples(const Plan& plan, Log* log);
// About precision.states where no state is kept in that type.
void warn_states(const Plan& plan, Log* log);

// About adapters that put vectors in place of the first tokens of a sample, which an option
// `n_tokens` of their method tells, where the data has text there. A dataset tells by its option
// `placeholders` how many of its first tokens are none.
void warn_overwritten(const config::Experiment& experiment, Log* log);

// About fields of [data.train] that no program reads: `train`, `evaluation` are the traces. A
// dataset adds such fields on request, for layers that name them.
void warn_unread_fields(const Plan& plan, const Tracer& train, const Tracer& evaluation, Log* log);

}  // namespace plait::plan
