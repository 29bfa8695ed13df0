/* plait/plait.h - the host side: everything an application needs to train.
 *
 *   plait_engine *engine;  plait_experiment *experiment;  plait_plan *plan;  plait_session *session;
 *   plait_engine_open(NULL, &engine);
 *   plait_experiment_read(engine, "experiment.toml", PLAIT_NTS, NULL, &experiment);
 *   plait_plan_make(experiment, &plan);                 (no memory or device touched so far)
 *   plait_session_open(plan, NULL, &session);
 *   plait_session_run(session, NULL);                   (or plait_session_step in a loop of your own)
 *
 * Objects are closed in reverse order; an object keeps what it was made from alive, so the order is not vital.
 * The conventions stand in base.h: NULL is success, on error no output is touched, every text has an owner. */
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <plait/base.h>
#include <plait/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plait_engine plait_engine;
typedef struct plait_experiment plait_experiment;
typedef struct plait_job plait_job;
typedef struct plait_plan plait_plan;
typedef struct plait_session plait_session;

/* --- versions -------------------------------------------------------------------------------------------------------- */

/* The ABI number this library implements, and the product version ("0.1.0", static). [thread: any; blocks: no] */
PLAIT_API uint32_t PLAIT_CALL plait_abi_version(void);
PLAIT_API const char *PLAIT_CALL plait_version(void);

/* --- errors ---------------------------------------------------------------------------------------------------------- */

/* Code (PLAIT_ERR_*; PLAIT_OK for NULL), this error's own text, and the error that caused it (borrowed, NULL at the end).
 * [thread: owner; blocks: no] */
PLAIT_API uint32_t PLAIT_CALL plait_error_code(const plait_error *e);
PLAIT_API const char *PLAIT_CALL plait_error_text(const plait_error *e);
PLAIT_API const plait_error *PLAIT_CALL plait_error_cause(const plait_error *e);
/* The whole chain, a line each. Lives as long as the error. [thread: owner; blocks: no] */
PLAIT_API const char *PLAIT_CALL plait_error_full_text(const plait_error *e);
PLAIT_API void PLAIT_CALL plait_error_free(plait_error *e);

/* --- texts ----------------------------------------------------------------------------------------------------------- */

/* A text the engine made, most often JSON. NUL-terminated; the size leaves the NUL out. [thread: any; blocks: no] */
typedef struct plait_text plait_text;
PLAIT_API const char *PLAIT_CALL plait_text_data(const plait_text *t);
PLAIT_API uint64_t PLAIT_CALL plait_text_size(const plait_text *t);
/* [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_text_free(plait_text *t);

/* --- engine ---------------------------------------------------------------------------------------------------------- */

/* Called for each log line, never from two threads at once. `text` has no newline.
 * [thread: any; blocks: as it likes, whoever logs waits] */
typedef void(PLAIT_CALL *plait_log_sink)(void *user, uint32_t level, const char *text, uint64_t size);

typedef struct plait_engine_options {
  size_t struct_size;
  plait_log_sink log;              /* NULL: silent; called until the last object made from this engine is closed */
  void *log_user;                  /* must live as long */
  uint32_t log_level;              /* PLAIT_LOG_*: lines below are not made */
  uint32_t no_default_plugins;     /* 1: load only `plugin_paths` */
  const char *const *plugin_paths; /* (n_plugin_paths) files or folders, searched first */
  uint32_t n_plugin_paths;
  uint32_t keep_plugins_loaded; /* 1: never unload a plugin's code (profilers, leak checkers) */
  const char *data_folder;      /* where relative data paths are looked for first; NULL: $PLAIT_DATA, else none */
} plait_engine_options;

/* Opens an engine and loads the plugins of the search path; a plugin that can't be loaded is an entry in the load report,
 * not an error, unless it was named. Engines share nothing. options may be NULL. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_open(const plait_engine_options *options, plait_engine **out);
/* While a call on the engine is running, that call closes it when it ends. [thread: any; blocks: no] */
PLAIT_API void PLAIT_CALL plait_engine_close(plait_engine *engine);
/* Loads one plugin by path. Not while another thread makes plans or opens sessions of this engine; the same holds for reading an
 * experiment that names [plugins] paths. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_load(plait_engine *engine, const char *path, uint64_t size);
/* JSON: version, plugins, every item with its options, and the load report (each path tried, outcome, reason, fix).
 * [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_describe(plait_engine *engine, plait_text **json);
/* JSON: all ops that a layer or a gradient rule may write, core ops and those of loaded plugins, sorted by name: {"schema": 1,
 * "ops": [{"name", "help", "signature", "dtypes", "gradient", "sharding", "core", "any_attribute", "attributes": [{"name", "type",
 * "default" (TOML text; null: it must be given), "choices", "help"}]}]}. `any_attribute`: a plugin's op that declares none.
 * [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_ops(plait_engine *engine, plait_text **json);
/* JSON: what a plugin file says of itself, read without loading it. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plugin_inspect(const char *path, uint64_t size, plait_text **json);

/* --- experiment: a checked configuration ----------------------------------------------------------------------------- */

typedef struct plait_experiment_options {
  size_t struct_size;
  const char *const *overrides; /* (n_overrides) "key.path=value", applied in order */
  uint32_t n_overrides;
  uint32_t reserved;
} plait_experiment_options;

/* Reads and checks a TOML file. PLAIT_ERR_CONFIG carries all problems of the file, a line each.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_read(plait_engine *engine, const char *path,
                                                                       uint64_t size,
                                                                       const plait_experiment_options *options,
                                                                       plait_experiment **out);
/* The same from memory; `name` stands for the file in messages, relative paths start in the current folder.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_parse(plait_engine *engine, const char *toml,
                                                                        uint64_t size, const char *name,
                                                                        const plait_experiment_options *options,
                                                                        plait_experiment **out);
/* JSON list of problems {file, line, column, path, message, hint}; "[]" when the file is fine. Fails only when the file can't be
 * read. Goes as far as tracing the model, so that shape errors are found too. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_check(plait_engine *engine, const char *path,
                                                                        uint64_t size,
                                                                        const plait_experiment_options *options,
                                                                        plait_text **json);
/* The complete commented TOML with every default filled in. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_bind(plait_experiment *experiment, plait_text **toml);
/* JSON: every resolved value with its origin. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_describe(plait_experiment *experiment, plait_text **json);
/* [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_experiment_close(plait_experiment *experiment);

/* --- job: the ranks that train together ------------------------------------------------------------------------------- */

typedef struct plait_job_options {
  size_t struct_size;
  uint32_t rank, size;             /* which of how many ranks this one is */
  uint32_t local_rank, local_size; /* the same among the ranks of this machine; local_size 0: all of them are */
  /* Where the ranks meet. "HOST:PORT": rank 0 listens there, and all of them know the secret. "file:PATH": rank 0 listens where it
   * likes and lays down address and secret in that file, which only this user can read. NULL: nowhere; good for plans. */
  const char *rendezvous;
  const void *secret; /* (secret_size) bytes that nobody can guess, 16 at least; NULL with a file */
  uint64_t secret_size;
  double connect_timeout; /* seconds for all ranks to arrive; 0: as [topology] says */
  double timeout; /* seconds for one collective, and of silence before a rank counts as lost; 0: as [topology] says */
} plait_job_options;

/* Says who we are. options NULL: as the environment tells (PLAIT_*, torchrun, a Slurm step, Open MPI, MPICH, in this order; else
 * one rank alone). Connects to nobody: a session does. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_job_open(const plait_job_options *options, plait_job **out);
/* JSON: rank, size, local_rank, local_size, rendezvous, source and reason; never the secret. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_job_describe(const plait_job *job, plait_text **json);
/* [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_job_close(plait_job *job);

/* --- plan ------------------------------------------------------------------------------------------------------------ */

/* Decides everything: programs, kernels, memory map. Opens datasets for their shapes; touches no device.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_make(plait_experiment *experiment, plait_plan **out);
/* The same for one rank of a job, whose size must be the product of [topology]: a session of this plan trains together with the
 * sessions of the other ranks. job is borrowed for the call; NULL: rank 0 of as many as
 * the topology asks for, to look at unless that is one. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_make_for(plait_experiment *experiment, const plait_job *job,
                                                                     plait_plan **out);
/* JSON: parameters, memory by category in bytes, FLOPs per step, the pipeline's stages and idle share, programs with the kernel
 * chosen for each op and the bytes of each collective, and the order in which a step runs them. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_describe(plait_plan *plan, plait_text **json);
/* The pipeline's schedule as a picture in SVG, UTF-8: a row for each rank, a box for each pass of a micro-batch, times in
 * operations. Errors: PLAIT_ERR_STATE when the plan has no pipeline. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_picture(plait_plan *plan, plait_text **svg);
/* [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_plan_close(plait_plan *plan);

/* --- session: a plan brought to life --------------------------------------------------------------------------------- */

/* The result of one step. Values are those of the whole global batch. */
typedef struct plait_step_result {
  size_t struct_size;
  int64_t step;         /* counts from 1 */
  int64_t epoch;        /* counts from 0 */
  int64_t samples;      /* real samples so far */
  double loss;          /* weighted mean; of several models the sum */
  double grad_norm;     /* global, before clipping */
  double learning_rate; /* learning rate of the first group */
  double seconds;       /* duration of this step */
  uint32_t skipped;     /* 1: not finite, parameters unchanged */
  uint32_t finished;    /* 1: the run's steps are done, or early stopping fired */
} plait_step_result;

/* Called after each step of plait_session_run, on the calling thread; return 0 to go on, 1 to stop after a save. It may call what
 * leaves the run where it is: not run, step and load of the same session. [thread: owner; blocks: as it likes] */
typedef uint32_t(PLAIT_CALL *plait_step_callback)(void *user, const plait_step_result *result);

#define PLAIT_RESUME_CONFIG 0u /* as [run] resume says */
#define PLAIT_RESUME_NEVER 1u
#define PLAIT_RESUME_AUTO 2u /* from the newest valid checkpoint of run_dir, if there is one */
#define PLAIT_RESUME_MUST 3u

typedef struct plait_session_options {
  size_t struct_size;
  const char *run_dir; /* existing or new folder for this run's files; NULL: a new one below [run] out */
  uint32_t no_files;   /* 1: write nothing at all (no run directory, metrics or checkpoints) */
  uint32_t resume;     /* PLAIT_RESUME_* */
  uint32_t progress;   /* 1: a progress line on stderr; 0: none */
  uint32_t reserved;
  plait_step_callback on_step; /* may be NULL */
  void *on_step_user;
  /* What to record as the command in env.json; may be NULL. The arguments of the process, as the system tells them, are recorded
   * beside it: they are no place for secrets. */
  const char *command;
} plait_session_options;

/* Allocates, initialises, opens data, resumes if asked. options may be NULL. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_open(plait_plan *plan, const plait_session_options *options,
                                                                    plait_session **out);
/* While a call on the session is running (in its callback, on another thread), that call is cancelled and closes the session when
 * it ends; else waits for a save under way. [thread: any; blocks: yes] */
PLAIT_API void PLAIT_CALL plait_session_close(plait_session *session);

/* Runs to the end: steps, evaluation, checkpoints, early stopping. result may be NULL. PLAIT_ERR_CANCELLED after
 * plait_session_cancel or a callback's 1, with the state saved. PLAIT_ERR_NUMERIC after guard.nonfinite_limit steps in a row that were
 * not finite, or when no step ever was; a run that ends on fewer is done, and result->skipped says so. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_run(plait_session *session, plait_step_result *result);

/* One field of a batch that the host brings itself: row-major host memory of the field's type, (n, sample shape).
 * n may be less than the global batch; the rest is padding. */
typedef struct plait_feed {
  size_t struct_size;
  const char *field;
  const plait_dl_tensor *tensor; /* borrowed for the call */
} plait_feed;

/* One step: forward, backward, update. With feeds (n > 0) these samples, else the next batch of [data.train].
 * No evaluation, no checkpoint. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_step(plait_session *session, const plait_feed *feeds,
                                                                    uint32_t n_feeds, plait_step_result *result);
/* Evaluates on all of [data.NAME] (NULL: "eval") and returns JSON: step, dataset, samples, loss, seconds, metrics. [evaluate]
 * batches shortens only the evaluations of plait_session_run; [data.NAME] limit shortens every one.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_evaluate(plait_session *session, const char *dataset,
                                                                        plait_text **json);
/* Runs the evaluation program on the host's own samples and copies the named value ("output": that of the last layer) to
 * `out` (bytes must be n_samples times its sample size). Errors: PLAIT_ERR_INVALID for a value that no op can take, as an id beyond
 * the vocabulary; labels are not looked at. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_predict(plait_session *session, const plait_feed *feeds,
                                                                       uint32_t n_feeds, const char *value, void *out,
                                                                       uint64_t bytes);
/* Asks a running step or run to stop at the next boundary. Safe in a signal handler. [thread: any; blocks: no] */
PLAIT_API void PLAIT_CALL plait_session_cancel(plait_session *session);

/* Writes a checkpoint into the run directory (path NULL) or into the folder `path`; reads one back.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_save(plait_session *session, const char *path);
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_load(plait_session *session, const char *path);
/* Reads the parameters alone, and the step they are of: to evaluate and predict with a checkpoint, whatever optimizer, seed and
 * topology it was saved with. Optimizer states and the place in the data stay as they are. All ranks call it.
 * [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_load_parameters(plait_session *session, const char *path);

/* JSON: run directory, step, samples, device, arena_bytes and of them shared_bytes, which other ranks reach, groups of ranks (name,
 * ranks, backend), parameters (name, shape, dtype, group), and last_evaluation: that of run or evaluate as the latter returns it,
 * null before the first and after a load.
 * [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_describe(plait_session *session, plait_text **json);
/* Copies a parameter's global tensor out of or into the session; bytes must match exactly. What lies in parts on several ranks is
 * put together by all of them: each must read. [thread: owner; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_read(plait_session *session, const char *parameter,
                                                                    void *data, uint64_t bytes);
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_write(plait_session *session, const char *parameter,
                                                                     const void *data, uint64_t bytes);
/* A view of a parameter's memory without a copy; the caller releases it through its deleter, before or after the session is
 * closed: the view keeps the memory alive. Steps change what it shows.
 * [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_session_view(plait_session *session, const char *parameter,
                                                                    plait_dl_managed **out);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_PLAIT_H */
