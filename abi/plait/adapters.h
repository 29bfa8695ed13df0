/* plait/adapters.h - the host side of adapters: merged into the model that they change, taken out
 * of it again, listed, and exchanged one by one, in a session and in checkpoints.
 *
 *   plait_session_merge(session, 0);                 // the model alone computes what both did
 *   plait_session_unmerge(session);                  // every byte is what it was
 *   plait_session_merge(session, PLAIT_MERGE_FINAL); // for good: train on, or save
 *   plait_session_save_model(session, "alone/ckpt");  // without the adapters
 *   plait_session_merge_adapter(session, NULL, "poems", 0);  // that one alone
 *
 *   plait_adapter_source source = {.struct_size = sizeof source, .path = "runs/poems"};
 *   plait_session_load_adapter(session, NULL, "poems", &source);  // the others stay as they are
 *   plait_session_save_adapter(session, NULL, "poems", "poems");  // that one alone
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
 * Errors: PLAIT_ERR_CONFIG when the experiment has no adapters, one that cannot be merged, with its
 * name and the reason, or model.adapter_field, as no weights compute what all adapters do;
 * PLAIT_ERR_STATE when a merge is kept already; PLAIT_ERR_INVALID for other flags: the session is
 * unchanged. PLAIT_ERR_MEMORY for the copy: nothing is merged; with several ranks close the
 * session. PLAIT_ERR_PEER; a code of the device: close the session. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_merge(plait_session *session,
                                                                     uint32_t flags);

/* The same of one adapter, all entries of its name: weights and biases become what it makes of
 * them, and it alone starts anew. The others then change the new weights. Where their changes and
 * its own add up, as LoRA's do, the model computes what it did before; one that reads the
 * weight, as DoRA does for its norms, reads the new one, and one that scales results scales what
 * was merged behind it, too. With model.adapter_field the others belong to weights that are no
 * more: all adapters of the model start anew, and every sample computes what samples of this
 * adapter did. model: NULL: the only one with adapters.
 * Errors: as plait_session_merge(); PLAIT_ERR_NOT_FOUND for the name, with those that are: the
 * session is unchanged. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_merge_adapter(
    plait_session *session, const char *model, const char *name, uint32_t flags);

/* Puts back every byte of weights, biases and adapters as it was before plait_session_merge() or
 * plait_session_merge_adapter(); what was written to them since is lost.
 * Errors: PLAIT_ERR_STATE when no merge is kept: the session is unchanged. PLAIT_ERR_PEER; a code
 * of the device. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_unmerge(plait_session *session);

/* Saves the parameters of the models alone: without adapters, of whose changes those are in it that
 * are merged, and without states of optimizers. The checkpoint, step-... in the folder `path`,
 * is one of the experiment without its [[model.adapters]], and without groups of its optimizer with
 * patterns that then match nothing: it can be evaluated, generate, be exported, and start another
 * run (model.load), but not be resumed.
 * Errors: PLAIT_ERR_IO, PLAIT_ERR_PEER and others, as plait_session_save(). [thread: owner; blocks:
 * yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save_model(plait_session *session,
                                                                          const char *path);

/* The adapters of a session: {"schema": 1, "adapters": [{"model", "name", "number" (that samples
 * carry in model.adapter_field), "parameters", "trained" (numbers of elements), "bytes" (of the
 * parameters on this rank), "entries": [{"key" ("model.adapters[0]"), "type", "options": {name:
 * value}, "targets": [names]}]}]}. Free *json with plait_text_free().
 * Errors: PLAIT_ERR_MEMORY. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_adapters(plait_session *session,
                                                                        plait_text **json);

/* Where the parameters of an adapter are. */
typedef struct plait_adapter_source {
  size_t struct_size;
  /* A checkpoint or a run directory, a file or a folder of weights, a weights.map.json; or with
   * `format` a folder that it reads. */
  const char *path;
  const char *from; /* the adapter's name there; NULL: its own name, or that of the only one */
  /* TOML of a format as in plait_model_import(): "type = \"peft\"\nbase = \"gpt2\""; NULL: none */
  const char *format;
} plait_adapter_source;

/* Gives one adapter of a running session the parameters that `source` has; states of its optimizer
 * start anew. Everything else stays as it is, bit for bit: other adapters, the model, counters and
 * schedules. model: NULL: the only one. Where a checkpoint records type and options of the adapter,
 * the type must be that of the session's adapter; other options are a warning.
 * Errors: PLAIT_ERR_NOT_FOUND for a name that is not there, with those that are; PLAIT_ERR_DATA for
 * a tensor that is missing, has another shape, or changes what the session's adapter leaves alone;
 * PLAIT_ERR_CONFIG for another method, or weights of a base that is not that of model.load; errors
 * of reading; PLAIT_ERR_STATE while a merge is kept: all ranks fail and the session is unchanged.
 * PLAIT_ERR_PEER; a code of the device: close the session. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_load_adapter(
    plait_session *session, const char *model, const char *name,
    const plait_adapter_source *source);

/* Gives one adapter the initial values that it has without any weights to load, which change
 * nothing; states of its optimizer start anew. Everything else stays.
 * Errors: PLAIT_ERR_NOT_FOUND for the name; PLAIT_ERR_STATE while a merge is kept: the session is
 * unchanged. PLAIT_ERR_PEER; a code of the device. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_reset_adapter(
    plait_session *session, const char *model, const char *name);

/* Saves the parameters of one adapter, without states of its optimizer. The checkpoint, step-... in
 * the folder `path`, is one of the experiment with this adapter alone, for all samples, and records
 * path and hash of model.load, if that is set: it then evaluates, generates and is exported beside
 * these weights. plait_session_load_adapter() and `load` of [[model.adapters]] read it.
 * Errors: PLAIT_ERR_NOT_FOUND for the name; PLAIT_ERR_STATE while a merge is kept, and where a
 * merge, the host or a checkpoint gave frozen weights other values than model.load;
 * PLAIT_ERR_CONFIG where parameters of the model are trained beside it; others as
 * plait_session_save(). [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save_adapter(plait_session *session,
                                                                            const char *model,
                                                                            const char *name,
                                                                            const char *path);

/* The adapters of a checkpoint, a run directory or a folder of runs: {"schema": 1, "checkpoints":
 * [{"path", "step", "bases": [{"model", "path", "hash"}] (weights that it leaves out), "adapters":
 * [{"model", "name", "parameters", "bytes", "entries": [{"type", "options": {name: text}}] (as far
 * as the checkpoint records them), "targets": [names]}]}], "left_out": [{"path", "fault"}]}.
 * "left_out" has the checkpoints that are damaged, that the system refuses to read, or that a newer
 * version wrote. Free *json with plait_text_free().
 * Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_DATA and others, as plait_checkpoint_list(). [thread:
 * owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_adapters(plait_engine *engine,
                                                                           const char *place,
                                                                           plait_text **json);

/* Writes the checkpoint again as the folder `out`, with one adapter more: `name`, with parameters,
 * entries and states of the optimizer that `other`, a checkpoint, has of it; or of its only
 * adapter, which is then called `name`. model: NULL: the only one. The experiment, run.toml in
 * `out`, has the entries [[model.adapters]], too: a run resumes from it, and it can be evaluated,
 * generate and be exported. An adapter whose states `other` lacks is given none: such a checkpoint
 * is not resumed.
 * *json: as plait_checkpoint_convert(); free it with plait_text_free().
 * Errors: PLAIT_ERR_NOT_FOUND for an adapter or a model that is not there, with those that are;
 * PLAIT_ERR_INVALID when `out` exists, or the checkpoint has an adapter of that name;
 * PLAIT_ERR_CONFIG for another base, and checkpoints without an experiment; errors of reading and
 * writing. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_add_adapter(
    plait_engine *engine, const char *checkpoint, const char *model, const char *name,
    const char *other, const char *out, plait_text **json);

/* The same without an adapter that it has. With model.adapter_field the adapters behind it get
 * other numbers, which is a warning.
 * Errors: PLAIT_ERR_NOT_FOUND for an adapter or a model that is not there, with those that are;
 * others as plait_checkpoint_add_adapter(). [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_remove_adapter(
    plait_engine *engine, const char *checkpoint, const char *model, const char *name,
    const char *out, plait_text **json);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_ADAPTERS_H */
