/* plait/checkpoint.h - the host side of checkpoints as things: listed, verified, compared, rewritten.
 *
 *   plait_text *json;
 *   plait_checkpoint_list(engine, "runs", &json);
 *   plait_checkpoint_verify(engine, "runs/mnist/20260131-235959-00ab12/ckpt/best", NULL, NULL, &json);
 *
 * No experiment, plan or device is needed. Checkpoints are written and read by sessions
 * (plait_session_save(), plait_session_load()), and their weights given to other programs by
 * plait_checkpoint_export(). What the functions return is JSON, "schema": 1; plait_text_free() frees
 * it. `checkpoint` is as in plait_session_load(): a checkpoint, one of the files best and latest
 * in ckpt/, or a folder of checkpoints or a run directory, of which the newest
 * complete one is taken.
 *
 * The conventions of base.h and plait.h apply. */
#ifndef PLAIT_CHECKPOINT_H
#define PLAIT_CHECKPOINT_H

#include <plait/plait.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called every few megabytes: `done` of `total` bytes are read. It stops the call, which fails
 * with PLAIT_ERR_CANCELLED, by returning anything but 0. It must not call the engine. [thread:
 * owner, inside the call; blocks: allowed] */
typedef uint32_t(PLAIT_CALL *plait_progress)(void *user, uint64_t done, uint64_t total);

/* Lists the checkpoints at a place: a checkpoint, a file best or latest, a folder of checkpoints,
 * a run directory, or a folder with such folders below it, at most eight levels deep (links are
 * not followed). Reads manifests and sizes, no tensors.
 * JSON: {"kind": "checkpoint", "checkpoints", "run" or "runs", "checkpoints": [{"path", "folder",
 * "name", "state", "fault", "marks", "bytes", "files", "step", "samples", "saved_at", "ranks":
 * {"data", "tensor", "pipeline"}, "engine_version", "parameters", "states", "states_left_out",
 * "tensor_bytes", "best"}]}. Those of a folder are together, first the one that a run resumes from.
 * state: "complete" (fault is null), "damaged" or "newer_format" (fault says why), or
 * "not_committed": a save that is in progress or was interrupted (fault says what it lacks),
 * without what follows "files" (a damaged one whose manifest cannot be read: without what follows
 * "step"). marks: some of "latest", "best" and "stale" (a run continued from before its step
 * later). bytes and files are those of the folder; saved_at is in Unix seconds, and of the
 * manifest's file where an older engine did not record it; parameters and states (of optimizers)
 * count tensors; states_left_out: the optimizer has states that are not there, so that no run
 * continues from it exactly. best: the best evaluation of the run so far, {"metric", "value",
 * "step"}; null without checkpoint.best. No checkpoint is no error: the list is empty then.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no such place; PLAIT_ERR_INVALID when it is a file
 * that names no checkpoint; PLAIT_ERR_IO; PLAIT_ERR_STATE. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_list(plait_engine *engine, const char *place,
                                                                       plait_text **json);

/* Describes one checkpoint by its manifest.
 * JSON: {"checkpoint" (path), "format_version", "step", "samples", "saved_at" (null: not recorded),
 * "ranks", "seed", "engine_version", "states_left_out", "settings" (those that decide the result:
 * key to TOML value), "bases": [{"model", "path", "xxh3_128"}] (weights that a checkpoint of
 * trained parameters alone is loaded beside), "files": [{"name", "bytes", "xxh3_128"}], "tensors":
 * [{"name", "kind": "parameter" or "state", "dtype", "shape", "bytes", "slices": [{"file", "key",
 * "offset", "extent", "xxh3_128"}]}]}.
 * Errors: as plait_session_load(): PLAIT_ERR_NOT_FOUND, PLAIT_ERR_DATA, PLAIT_ERR_UNIMPLEMENTED,
 * PLAIT_ERR_IO; PLAIT_ERR_STATE. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_describe(plait_engine *engine, const char *checkpoint,
                                                                           plait_text **json);

/* Reads every byte of one checkpoint (not of a folder of them) and finds all faults: a damaged
 * manifest; files that are missing, of another size, unreadable, or with a header or checksum that
 * does not match; tensors that are missing, of another type or shape, with gaps or overlaps, or
 * unknown to the manifest; an index that says otherwise. A damaged checkpoint is no error.
 * JSON: {"checkpoint" (path), "intact", "unreadable" (all faults are errors of reading, such as a
 * missing permission), "states_left_out", "faults" (texts), "files", "tensors", "bytes"}. progress
 * may be NULL.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no checkpoint; PLAIT_ERR_UNIMPLEMENTED when its format
 * is newer; PLAIT_ERR_CANCELLED; PLAIT_ERR_STATE. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_verify(plait_engine *engine, const char *checkpoint,
                                                                         plait_progress progress, void *user,
                                                                         plait_text **json);

/* What plait_checkpoint_compare() looks at. */
#define PLAIT_COMPARE_EVERYTHING 0u
#define PLAIT_COMPARE_TENSORS 1u    /* no state, no settings */
#define PLAIT_COMPARE_PARAMETERS 2u /* nor states of optimizers */

/* Compares two checkpoints, whatever ranks saved them, in pieces: tensors may be larger than
 * memory. Paths, times, versions of the engine and the division among files do not count.
 * JSON: {"a", "b" (paths), "equal", "state" and "settings": [{"key", "a", "b"}] (null: there is
 * none; settings are the keys of run.toml where both checkpoints have one, and those of the
 * manifest that say something else), "only_a" and "only_b": [{"name", "kind", "dtype", "shape"}],
 * "changed": [{"name", "kind", "dtype" and "shape" ([of a, of b]), "elements", "different",
 * "not_finite", "max_abs", "max_rel", "at"}], "tensors", "elements" (compared)}. Elements are
 * compared where shapes are equal, and types are or both are floating-point; else "elements" is
 * null, and nothing follows it. different counts elements with other bits (of other types: other
 * numbers); not_finite those of them with a NaN or an infinity, which the greatest differences
 * leave out; max_rel is relative to the larger number; at is the index of max_abs, null without
 * one. progress may be NULL.
 * Errors: PLAIT_ERR_DATA for damage in what is read, with the tensor's name; PLAIT_ERR_INVALID for
 * an unknown `what`; PLAIT_ERR_NOT_FOUND, PLAIT_ERR_UNIMPLEMENTED and PLAIT_ERR_IO as
 * plait_session_load(); PLAIT_ERR_CANCELLED; PLAIT_ERR_STATE. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_compare(plait_engine *engine, const char *a,
                                                                          const char *b, uint32_t what,
                                                                          plait_progress progress, void *user,
                                                                          plait_text **json);

typedef struct plait_convert_options {
  size_t struct_size;
  uint64_t max_shard_bytes; /* of tensors in a file; 0: no limit */
  uint32_t shards;          /* at most so many files of parameters, and of states; 0: as max_shard_bytes asks */
  uint32_t no_optimizer;    /* 1: without states of optimizers: to evaluate, generate or load weights, not to resume */
  plait_progress progress;  /* NULL: none */
  void *user;               /* passed to progress */
} plait_convert_options;

/* Writes a checkpoint again, in the newest format, as the folder `out` (which must not exist;
 * folders above it are made): every tensor whole in one file, however many ranks had shared it,
 * and everything else that the checkpoint holds. A run that loads it has the numbers of one that
 * loads the original, bit by bit. It appears complete or not at all. The original is not changed.
 * To resume from it, name it as a checkpoint, ckpt/step-0000001000, in a run directory. options
 * may be NULL: one file of parameters, one of states.
 * JSON: {"checkpoint" (path of the original), "step", "files" (paths), "tensors", "bytes"}.
 * Errors: PLAIT_ERR_INVALID when `out` exists or options contradict each other; PLAIT_ERR_DATA for
 * damage, with the tensor's name; PLAIT_ERR_NOT_FOUND, PLAIT_ERR_UNIMPLEMENTED and PLAIT_ERR_IO as
 * plait_session_load(); PLAIT_ERR_CANCELLED; PLAIT_ERR_STATE, also when `out` lies in the folder of
 * checkpoints of a run that is in use. Nothing is left at `out`.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_checkpoint_convert(plait_engine *engine, const char *checkpoint,
                                                                          const char *out,
                                                                          const plait_convert_options *options,
                                                                          plait_text **json);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_CHECKPOINT_H */
