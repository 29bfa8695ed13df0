/* plait/session.h - a plan in execution: steps, evaluation, predictions, checkpoints, parameters and
 * profiles. A part of plait.h, whose conventions apply. */
#ifndef PLAIT_SESSION_H
#define PLAIT_SESSION_H

#include <plait/engine.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where several ranks train together, each has its own session. All ranks make the collective calls
 * in the same order: open, run, step, evaluate, predict, any_rank, save, load and load_parameters,
 * and read for a parameter that is distributed. If such a call fails on one rank, the job is
 * over: the call fails on the other ranks with PLAIT_ERR_PEER and the cause, and so does every
 * later collective call; only calls that are not collective still work. There are two
 * exceptions. An argument that a rank refuses before the call starts (see the functions) affects
 * no other rank; that rank must repeat the call, because the others wait for it. And
 * PLAIT_ERR_CANCELLED, PLAIT_ERR_NUMERIC, and PLAIT_ERR_DATA for values out of range or weights
 * that are all 0 are the same on all ranks; their sessions remain usable. */

/* A metric and its value. The name lives as long as the session. This struct never changes. */
typedef struct plait_metric_value {
  const char *name;
  double value;
} plait_metric_value;

/* The result of one step, for the whole global batch. */
typedef struct plait_step_result {
  size_t struct_size;
  int64_t step;         /* from 1 */
  int64_t epoch;        /* from 0 */
  int64_t samples;      /* number of samples so far, without padding */
  double loss;          /* weighted mean; with several models their sum */
  double grad_norm;     /* global, before clipping */
  double learning_rate; /* of the first group */
  double seconds;       /* duration of this step */
  uint32_t skipped;     /* 1: not finite, parameters and optimizer states unchanged */
  uint32_t finished;    /* 1: the steps of the run are done, or early stopping ended it */

  /* Since struct_size 152. A library that does not know these members leaves them unchanged. */
  int64_t tokens;           /* so far; 0 where the model looks up no tokens */
  int64_t skipped_steps;    /* so far */
  double grad_norm_clipped; /* after clipping */
  /* Over the steps since the last line of metrics (run.log_every); evaluations, checkpoints and the
   * time of a host between two calls of plait_session_step() do not count. */
  double mean_loss; /* of the steps that were not skipped */
  double samples_per_s, tokens_per_s;
  /* FLOPs of the models, of all ranks: products of the forward pass, and twice that for the backward
   * pass. Of attention the pairs that its mask lets through, or (full) all of them. mfu: the share of
   * the devices' peak (run.peak_tflops, else plait_device_item.peak_flops); 0: not known. */
  double tflops, tflops_full;
  double mfu, mfu_full;

  /* Since struct_size 168; as above. metrics: (n_metrics), the session's, valid until its next call.
   * Over the steps since the last line of metrics without those that were skipped (NaN: nothing
   * counted): the [[metrics]] with train = true, and of several losses each before its weight,
   * "loss.NAME". */
  const plait_metric_value *metrics;
  uint32_t n_metrics;
  uint32_t reserved;
} plait_step_result;

/* Called after each step of plait_session_run(), on the calling thread. Returns 0 to continue, 1 to
 * save and stop. It may call functions of the same session except run, step, load and
 * load_parameters, which fail with PLAIT_ERR_STATE. On a device that works by itself
 * (plait_device_info.records) the next step may be in flight by then: a function that reads or
 * writes parameters waits for it, and sees the parameters after that step, of which the next call
 * of the callback tells. No step is in flight before an evaluation or a checkpoint that is due
 * after this step, and after the last step. A stop takes effect after the step in flight.
 * [thread: owner; blocks: allowed] */
typedef uint32_t(PLAIT_CALL *plait_step_callback)(void *user, const plait_step_result *result);

#define PLAIT_RESUME_CONFIG 0u /* as the key run.resume says */
#define PLAIT_RESUME_NEVER 1u
#define PLAIT_RESUME_AUTO 2u /* from the newest valid checkpoint of run_dir, if there is one */
#define PLAIT_RESUME_MUST 3u /* from the newest valid checkpoint of run_dir; an error without one */

typedef struct plait_session_options {
  size_t struct_size;
  const char *run_dir; /* existing or new folder for the run's files; NULL: a new one in run.out */
  uint32_t no_files;   /* 1: write no run directory, metrics or checkpoints */
  uint32_t resume;     /* PLAIT_RESUME_* */
  uint32_t progress;   /* 1: a progress line on stderr; 0: none */
  uint32_t reserved;
  plait_step_callback on_step; /* may be NULL */
  void *on_step_user;
  /* The command that env.json records; may be NULL. The arguments of the process are recorded
   * beside it, so they must not contain secrets. */
  const char *command;

  /* Since struct_size 64. Equal on all ranks. plait_session_run() ends behind this step, after the
   * evaluation that is due there, as behind a callback that returns 1; 0: at the end. */
  int64_t stop_after;
} plait_session_options;

/* Connects the ranks, allocates memory, initialises parameters, creates the run directory and
 * resumes if requested; plait_session_close() frees *out. options may be NULL. Collective.
 * Errors: PLAIT_ERR_INVALID when several ranks have no rendezvous; PLAIT_ERR_STATE when the plan is
 * for a rank of another job, or the run directory is in use or holds other files; PLAIT_ERR_CONFIG
 * when the run directory holds checkpoints but resuming is off, when a checkpoint or the other
 * ranks do not fit the plan, or when no loaded backend connects the ranks; PLAIT_ERR_NOT_FOUND for
 * PLAIT_RESUME_MUST without a checkpoint, or a missing file of weights; PLAIT_ERR_DATA for damaged
 * checkpoints or weights that do not fit; PLAIT_ERR_UNIMPLEMENTED for a checkpoint of a newer
 * format; PLAIT_ERR_IO for files and sockets; PLAIT_ERR_DEVICE, PLAIT_ERR_PLUGIN or another code of
 * the device; PLAIT_ERR_PEER. Nothing stays open, connected or allocated; a run directory that was
 * already created remains, and no checkpoint has changed. The plan is unchanged.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_open(plait_plan *plan, const plait_session_options *options,
                                                                    plait_session **out);
/* Closes a session. If a call on the session is running (in its callback or on another thread),
 * that call is cancelled and closes the session when it ends; otherwise the function waits for a
 * checkpoint that is being written. [thread: any; blocks: yes] */
PLAIT_API void PLAIT_CALL plait_session_close(plait_session *session);

/* Runs to the end: steps, evaluations, checkpoints, early stopping. result may be NULL; it receives
 * the result of the last step. Collective.
 * Errors: PLAIT_ERR_CANCELLED after plait_session_cancel(), a callback that returned 1, or the step
 * `stop_after` of the session; the state is saved unless the session writes no files.
 * PLAIT_ERR_NUMERIC after guard.nonfinite_limit consecutive steps that were not finite, or if no
 * step of the run was finite; a run that ends after fewer such steps succeeds, and result->skipped
 * is 1. PLAIT_ERR_DATA for indices or labels out of range, a batch whose weights are all 0, or a
 * dataset that cannot be read; PLAIT_ERR_CONFIG when the run has no end or the metric of early
 * stopping does not exist; PLAIT_ERR_IO when the last checkpoint cannot be written (an earlier one
 * that cannot be written is only a warning in the log and an event in the metrics, and other files
 * of the run are written when that works again); PLAIT_ERR_STATE; PLAIT_ERR_PEER; a code of the
 * device. All completed steps stay applied; the effect of the step that failed is that of
 * plait_session_step(). Another run continues from there, except after PLAIT_ERR_PEER and device
 * errors. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_run(plait_session *session, plait_step_result *result);

/* One field of a batch that the host provides. `tensor` is row-major without gaps, of the element
 * type of the field and shape (n, sample shape); byte_offset applies, and NULL strides mean
 * row-major. The field "weight" is f32, shape (n). The tensor lies in host memory (device type 1,
 * or 3: pinned), or in memory of the session's own device, from where it is copied on the device
 * (see view.h about work of the host that still writes it); each field where it is. Of fields on
 * the device, plait_session_predict() copies those with indices to the host, to check them, and a
 * step that was not finite copies all, to find out why. */
typedef struct plait_feed {
  size_t struct_size;
  const char *field;             /* ends in NUL; borrowed for the call */
  const plait_dl_tensor *tensor; /* borrowed for the call */
} plait_feed;

/* Makes one step: forward, backward, update. n_feeds 0: on the next batch of [data.train];
 * otherwise on the samples of feeds (n_feeds). Each field that the training program reads must be
 * there, all with the same n; "weight" is optional and 1 by default. n is at most the global batch
 * divided by the number of data-parallel ranks; the rest is padding with weight 0. Each
 * data-parallel rank feeds its own samples, and the tensor and pipeline ranks beside it feed the
 * same ones; n_feeds must be 0 on all ranks or on none. A step with feeds does not advance the
 * position in [data.train]. Evaluates and saves nothing. result may be NULL. Collective.
 * Errors: PLAIT_ERR_INVALID for feeds that do not fit or lie elsewhere, and PLAIT_ERR_STATE:
 * refused before the call starts, no step is made and the session is unchanged. PLAIT_ERR_DATA when
 * [data.train] cannot be read or is empty: no step is made. PLAIT_ERR_DATA for indices or labels
 * out of range or weights that are all 0, and PLAIT_ERR_NUMERIC for the last of
 * guard.nonfinite_limit consecutive steps that were not finite: the step counts as skipped,
 * parameters and optimizer states are unchanged, and the session remains usable. PLAIT_ERR_PEER or
 * a code of the device: the step may be applied in part; close the session, or on a single rank
 * load a checkpoint.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_step(plait_session *session, const plait_feed *feeds,
                                                                    uint32_t n_feeds, plait_step_result *result);
/* Evaluates on [data.NAME] (dataset NULL: "eval") and returns JSON: step, dataset, samples, loss
 * (a text if not finite: "nan" where no sample counts), seconds, metrics, and token_perplexity if
 * the model reads tokens and its loss is a log-likelihood; plait_text_free() frees it. The limit of
 * a dataset holds here, too; evaluate.batches is for plait_session_run() only. Collective.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no such dataset; PLAIT_ERR_CONFIG when its fields or
 * its normalisation differ from those of the plan; PLAIT_ERR_DATA when the loss is not finite
 * because of indices out of range, or the dataset cannot be read; PLAIT_ERR_CANCELLED after
 * plait_session_cancel(); PLAIT_ERR_STATE; PLAIT_ERR_PEER; a code of the device. Parameters,
 * optimizer states, step and last_evaluation are unchanged. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_evaluate(plait_session *session, const char *dataset,
                                                                        plait_text **json);
/* Runs the evaluation program on the samples of feeds (n_feeds, at least 1) and copies the named
 * value ("output": that of the last layer) to `out`: host memory, row-major, (n, shape of one
 * sample), in the element type of the value. `bytes` must be exactly that size. All fields given
 * must have the same n, at most batch.eval divided by the number of data-parallel ranks; a field
 * that is not given is 0. Each data-parallel rank predicts its own samples, and the tensor and
 * pipeline ranks beside it feed the same ones. Collective.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no value of that name; PLAIT_ERR_CONFIG when
 * evaluate.outputs keeps no memory for it; PLAIT_ERR_INVALID for feeds or `bytes` that do not fit:
 * these are refused before the call starts. PLAIT_ERR_INVALID for an index
 * that no op can take, such as a token beyond the vocabulary (labels are not checked);
 * PLAIT_ERR_STATE; PLAIT_ERR_PEER; a code of the device. The session is unchanged; after an error
 * of the device `out` is undefined. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_predict(plait_session *session, const plait_feed *feeds,
                                                                       uint32_t n_feeds, const char *value, void *out,
                                                                       uint64_t bytes);
/* A value to predict, and where to. This struct never changes. */
typedef struct plait_prediction {
  const char *value;
  void *out; /* (bytes), host memory; NULL with bytes 0: not copied, a view shows it (view.h) */
  uint64_t bytes;
} plait_prediction;
/* Predicts several values (n, at least 1), such as the hidden states of some layers, in one run of
 * the evaluation program. Everything else is as in plait_session_predict(); when one value is
 * refused, none is computed. [thread: owner; blocks: yes]
 * Errors: as plait_session_predict(): PLAIT_ERR_NOT_FOUND, PLAIT_ERR_CONFIG, PLAIT_ERR_INVALID,
 * PLAIT_ERR_STATE, PLAIT_ERR_PEER, a code of the device. */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_predict_all(plait_session *session, const plait_feed *feeds,
                                                                           uint32_t n_feeds, const plait_prediction *values,
                                                                           uint32_t n);
/* Sets *any to 1 when any rank passes own = 1, else to 0; it is the same on all ranks. No rank
 * returns before all have called it, so it is also a barrier: what each rank wrote to its files
 * before is there for the others. A single rank receives its own. Collective.
 * Errors: PLAIT_ERR_INVALID when own is neither 0 nor 1: refused before the call starts;
 * PLAIT_ERR_STATE; PLAIT_ERR_PEER. *any is unchanged. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_any_rank(plait_session *session, uint32_t own,
                                                                        uint32_t *any);
/* Requests that a run stops after the current step, or an evaluation after the current batch. A
 * step or a prediction completes; the request then applies to the next run or evaluation. Safe in a
 * signal handler. [thread: any; blocks: no] */
PLAIT_API void PLAIT_CALL plait_session_cancel(plait_session *session);

/* Writes a checkpoint: a new folder step-... in the run directory (path NULL) or in the folder
 * `path`, which is created if absent. In the run directory the oldest checkpoints beyond
 * checkpoint.keep are deleted afterwards, and the states of the optimizer of those beyond
 * checkpoint.keep_optimizer. With several ranks the path of rank 0 counts, and all
 * ranks must reach it. Waits for a checkpoint that is being written. Collective.
 * Errors: PLAIT_ERR_STATE when path is NULL and the session writes no files; PLAIT_ERR_IO when the
 * operating system refuses, for instance on a full disk, on any rank; PLAIT_ERR_PEER; a code of the
 * device. The session and all existing checkpoints are unchanged; the incomplete checkpoint is
 * removed if possible. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save(plait_session *session, const char *path);
/* Reads a checkpoint: parameters, optimizer states, step and the position in the data. path is a
 * checkpoint, one of the files best and latest in ckpt/, or a folder of checkpoints or a run
 * directory, of which the newest intact one is read; with several ranks the path of rank 0 counts.
 * Collective.
 * Errors: PLAIT_ERR_NOT_FOUND when path is or holds no checkpoint; PLAIT_ERR_DATA when it is
 * damaged; PLAIT_ERR_CONFIG when its parameters or optimizer states do not fit the plan;
 * PLAIT_ERR_UNIMPLEMENTED when its format is newer; PLAIT_ERR_IO when it cannot be read;
 * PLAIT_ERR_STATE; PLAIT_ERR_PEER. On a single rank the session is unchanged, except after a code
 * of the device (parameters undefined) and when the metrics file cannot be written (PLAIT_ERR_IO
 * after the checkpoint has been loaded). [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_load(plait_session *session, const char *path);
/* Reads only the parameters of a checkpoint and the number of its step, in order to evaluate and
 * predict with it, whatever optimizer, seed and topology it was saved with. Optimizer states and
 * the position in the data stay as they are. Collective.
 * Errors: PLAIT_ERR_NOT_FOUND and the other codes of plait_session_load(), with the same effects;
 * optimizer states need not fit. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_load_parameters(plait_session *session, const char *path);

/* Returns JSON: run directory, step, samples, device, dl_device ([type, index] of its memory in
 * DLPack; type 0: it tells none), arena_bytes and the part of it that other ranks can access,
 * shared_bytes, groups of ranks (name, ranks, backend), parameters (name, shape, dtype, group), and
 * last_evaluation: the latest result of run or evaluate, null before the first one and after a
 * load; unsaved: a step not saved, or null; training_seconds of all steps. plait_text_free() frees it. Not collective.
 * Errors: PLAIT_ERR_STATE. The session is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_describe(plait_session *session, plait_text **json);
/* Copies the global tensor of a parameter to `data`: host memory, row-major, in the dtype of the
 * parameter, see plait_session_describe(). `bytes` must be exactly its size. Collective if the
 * parameter is distributed over ranks (tensor, pipeline, zero = 3): each rank calls it and receives
 * the whole tensor.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no such parameter, with the nearest name;
 * PLAIT_ERR_INVALID when `bytes` differs, with the shape: both are refused before the call starts.
 * PLAIT_ERR_STATE; PLAIT_ERR_PEER; a code of the device. The session is unchanged, and so is
 * `data`, except after an error of the device. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_read(plait_session *session, const char *parameter,
                                                                    void *data, uint64_t bytes);
/* Copies `data`, in the layout of plait_session_read(), into a parameter. Each rank stores only its
 * own part and communicates with no other, so all ranks must write the same tensor between two
 * steps. Optimizer states stay as they are. A frozen parameter that checkpoints leave out
 * (checkpoint.save) is in none of them: the next save warns. Views are not noticed.
 * Errors: as plait_session_read(), and PLAIT_ERR_STATE: the parameter is unchanged. A code of the
 * device: it may be written in part. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_write(plait_session *session, const char *parameter,
                                                                     const void *data, uint64_t bytes);
/* Returns a view of the memory of a parameter without a copy: host memory (device type 1),
 * row-major, in the dtype of the parameter. The deleter of the view frees it, before or after the
 * session is closed, on any thread; the view keeps the memory alive. Steps and loads change its
 * content. While there is a view, the host may write at any time: 16-bit copies and 8-bit weights
 * are then made again before each launch that reads them, and generation reuses no prompts. Not
 * collective.
 * Errors: PLAIT_ERR_NOT_FOUND when there is no such parameter; PLAIT_ERR_UNIMPLEMENTED when the
 * host cannot access the memory of the device (plait_session_view_of() of view.h shows it there),
 * the parameter is distributed over ranks, or it is split (precision.split_master):
 * plait_session_read() works for these; PLAIT_ERR_STATE. The session is unchanged.
 * [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_view(plait_session *session, const char *parameter,
                                                                    plait_dl_managed **out);

/* --- profile --------------------------------------------------------------------------------- */

typedef struct plait_profile_options {
  size_t struct_size;
  const char *entry_point; /* NULL: "train_step"; "evaluate": batches of an evaluation */
  const char *dataset;     /* of an evaluation: [data.NAME]; NULL: "eval" */
  uint32_t runs;           /* steps or batches that are measured; 0: 1 */
  uint32_t warm_up;        /* steps or batches before them that are not measured */
  uint32_t trace;          /* 1: *trace_json receives every call */
  uint32_t reserved;
} plait_profile_options;

/* Makes steps on the next batches of [data.train], which train as those of plait_session_step(), or
 * evaluates batches, and measures every kernel and collective. The host launches them one by one,
 * and on a device that records it waits for each, so that the time of a kernel holds its launch
 * there. options may be NULL. Returns JSON: what was measured and how, the seconds of all runs and
 * the part outside of kernels, the peak FLOP/s if it is known, and lists sorted by time: `ops` (scope,
 * op, shapes, kernel, calls, seconds, share of the runs, FLOPs, least bytes read and written, rates),
 * `by_op` and `by_layer`. The figures are those of this rank. trace_json may be NULL; it receives a
 * JSON for Chrome's trace viewer: on rank 0 with the calls of all ranks, on the others NULL.
 * plait_text_free() frees both. Collective.
 * Errors: PLAIT_ERR_INVALID for options; PLAIT_ERR_NOT_FOUND when there is no such entry point or
 * dataset; the codes of plait_session_step() and plait_session_evaluate(), with the same effects.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_profile(plait_session *session,
                                                                       const plait_profile_options *options,
                                                                       plait_text **json, plait_text **trace_json);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_SESSION_H */
