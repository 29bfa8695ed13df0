/* plait/adapters.h - the host side of adapters: merged into the model that they change, and taken
 * out of it again.
 *
 *   plait_session_merge(session, 0);                 // the model alone computes what both did
 *   plait_session_unmerge(session);                  // every byte is what it was
 *   plait_session_merge(session, PLAIT_MERGE_FINAL); // for good: train on, or save
 *   plait_session_save_model(session, "alone/ckpt");  // without the adapters
 *
 * Adapters are the [[model.adapters]] of the experiment (peft.h). The conventions of base.h and
 * plait.h apply. Like a save, these calls are made by all ranks of a job in the same order. */
#ifndef PLAIT_ADAPTERS_H
#define PLAIT_ADAPTERS_H

#include <plait/plait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nothing is kept for plait_session_unmerge(). */
#define PLAIT_MERGE_FINAL 1u

/* Writes the changes of all adapters into weights and biases of the model, which then computes
 * alone what it computed with them, up to rounding in the type of the parameters. The adapters
 * start anew, with initial values that change nothing. States of optimizers, counters and schedules
 * stay. Without PLAIT_MERGE_FINAL a copy of what the call changes is kept in host memory until
 * plait_session_unmerge(), plait_session_load() or plait_session_load_parameters(), and steps, runs
 * and profiles fail with PLAIT_ERR_STATE while it is; evaluations, predictions, generation and
 * saves work, and a save holds the merged weights. Where checkpoints of the run leave out the model
 * (checkpoint.save = "trained", precision.frozen = "int8" or "nf4"), only
 * plait_session_save_model() does: plait_session_save() then fails with PLAIT_ERR_STATE, as runs
 * and loads do behind PLAIT_MERGE_FINAL. flags: 0 or PLAIT_MERGE_FINAL.
 * Errors: PLAIT_ERR_CONFIG when the experiment has no adapters, or one that cannot be merged, with
 * its name and the reason; PLAIT_ERR_STATE when a merge is kept already; PLAIT_ERR_INVALID for
 * other flags: the session is unchanged. PLAIT_ERR_MEMORY for the copy: nothing is merged; with
 * several ranks close the session. PLAIT_ERR_PEER; a code of the device: close the session.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_merge(plait_session *session,
                                                                     uint32_t flags);

/* Puts back every byte of weights, biases and adapters as it was before plait_session_merge(); what
 * was written to them since is lost.
 * Errors: PLAIT_ERR_STATE when no merge is kept: the session is unchanged. PLAIT_ERR_PEER; a code
 * of the device. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_unmerge(plait_session *session);

/* Saves the parameters of the models alone: without adapters, whose changes are in it as far as
 * they are merged, and without states of optimizers. The checkpoint, step-... in the folder `path`,
 * is one of the experiment without its [[model.adapters]], and without groups of its optimizer with
 * patterns that then match nothing: it can be evaluated, generate, be exported, and start another
 * run (model.load), but not be resumed.
 * Errors: PLAIT_ERR_IO, PLAIT_ERR_PEER and others, as plait_session_save(). [thread: owner; blocks:
 * yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save_model(plait_session *session,
                                                                          const char *path);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_ADAPTERS_H */
