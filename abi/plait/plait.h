/* plait/plait.h - the host side: everything an application needs to train. It includes engine.h
 * (engine, experiment, job, plan), session.h (training) and models.h (files of other libraries).
 * Beside it: encode.h (tokenizers, conversations), data.h (datasets looked at), generate.h,
 * checkpoint.h (checkpoints looked at), view.h (memory of the device, where it is), replay.h,
 * adapters.h.
 *
 *   plait_engine *engine;
 *   plait_experiment *experiment;
 *   plait_plan *plan;
 *   plait_session *session;
 *   plait_engine_open(NULL, &engine);
 *   plait_experiment_read(engine, "experiment.toml", PLAIT_NTS, NULL, &experiment);
 *   plait_plan_make(experiment, &plan);     (no device or device memory is used up to here)
 *   plait_session_open(plan, NULL, &session);
 *   plait_session_run(session, NULL);       (or plait_session_step() in the host's own loop)
 *
 * Objects are closed in reverse order. An object keeps the objects it was made from alive, so
 * another order is safe, too.
 *
 * The conventions of base.h apply: NULL is success, and a failed call leaves its out-parameters
 * unchanged. Each `Errors:` line names the codes that are specific to the function;
 * PLAIT_ERR_INVALID for a NULL pointer or a struct_size that is too small, PLAIT_ERR_MEMORY and
 * PLAIT_ERR_INTERNAL can come from every fallible function. A call on an engine or a session that
 * another thread is using fails with PLAIT_ERR_STATE and has no effect. "Unchanged" in an `Errors:`
 * line means that the object can be used as if the call had not been made. A `const char *` without
 * a length ends in NUL.
 *
 * After fork() the objects of the parent cannot be used in the child: calls on them fail with
 * PLAIT_ERR_STATE, and closing them does nothing. The child may open an engine of its own; a device
 * with compute threads refuses to open there if the parent has already computed. */
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <plait/base.h>
#include <plait/engine.h>
#include <plait/models.h>
#include <plait/session.h>
#include <plait/tensor.h>

#endif /* PLAIT_PLAIT_H */
