/* plait/engine.h - what a host has before it trains: the engine with its plugins, a checked
 * experiment, the job of several ranks, and the plan. A part of plait.h, whose conventions apply. */
#ifndef PLAIT_ENGINE_H
#define PLAIT_ENGINE_H

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

/* --- versions -------------------------------------------------------------------------------- */

/* The ABI number that this library implements, and its product version ("0.1.0", a static text).
 * [thread: any; blocks: no] */
PLAIT_API uint32_t PLAIT_CALL plait_abi_version(void);
PLAIT_API const char *PLAIT_CALL plait_version(void);

/* --- errors ---------------------------------------------------------------------------------- */

/* The code of an error (PLAIT_ERR_*; PLAIT_OK for NULL), its own text, and the error that caused it
 * (borrowed; NULL at the end of the chain). [thread: owner; blocks: no] */
PLAIT_API uint32_t PLAIT_CALL plait_error_code(const plait_error *e);
PLAIT_API const char *PLAIT_CALL plait_error_text(const plait_error *e);
PLAIT_API const plait_error *PLAIT_CALL plait_error_cause(const plait_error *e);
/* The text of the whole chain, one line per error; it lives as long as the error.
 * [thread: owner; blocks: no] */
PLAIT_API const char *PLAIT_CALL plait_error_full_text(const plait_error *e);
/* Frees an error and its causes. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_error_free(plait_error *e);

/* --- texts ----------------------------------------------------------------------------------- */

/* A text that the engine created, usually JSON. The data ends in NUL, which the size does not
 * count. [thread: any; blocks: no] */
typedef struct plait_text plait_text;
PLAIT_API const char *PLAIT_CALL plait_text_data(const plait_text *t);
PLAIT_API uint64_t PLAIT_CALL plait_text_size(const plait_text *t);
/* Frees a text. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_text_free(plait_text *t);

/* --- engine ---------------------------------------------------------------------------------- */

/* Called for each log line, never by two threads at once, but also by threads of the engine: by the
 * connection to the other ranks, a checkpoint being written, kernels and plugins. A host with a
 * global interpreter lock must acquire it here, and must not hold it while it calls a function that
 * blocks. `text` has no newline and is valid during the call.
 * [thread: any; blocks: allowed, the logging thread waits] */
typedef void(PLAIT_CALL *plait_log_sink)(void *user, uint32_t level, const char *text, uint64_t size);

/* Called when a function of a plugin has not returned for run.plugin_timeout seconds: once for each
 * such call, which cannot be ended and may still return. `text` (`size` bytes, UTF-8) is the line of
 * the log that says so. The host may end the process here, or only take note: calls on objects that
 * wait for the plugin go on waiting. It must not close the engine. [thread: any; blocks: allowed] */
typedef void(PLAIT_CALL *plait_late_callback)(void *user, const char *text, uint64_t size);

typedef struct plait_engine_options {
  size_t struct_size;
  plait_log_sink log;              /* NULL: none; called until all its objects are closed, and by a device
                                    * that was given up (run.device_timeout) until the process ends */
  void *log_user;                  /* passed to `log`; must live as long as it is called */
  uint32_t log_level;              /* PLAIT_LOG_*: no lines of lower levels */
  uint32_t no_default_plugins;     /* 1: load only `plugin_paths` */
  const char *const *plugin_paths; /* (n_plugin_paths) files or folders, searched first */
  uint32_t n_plugin_paths;
  uint32_t keep_plugins_loaded; /* 1: never unload plugin code (profilers, leak checkers) */
  const char *data_folder;      /* first place of relative paths; NULL: $PLAIT_DATA, else none */

  /* Since struct_size 72. */
  plait_late_callback on_late; /* NULL: only the log says that a plugin hangs */
  void *on_late_user;          /* passed to `on_late`; must live as long as log_user */
} plait_engine_options;

/* Opens an engine and loads the plugins of the search path; plait_engine_close() frees it. A plugin
 * that cannot be loaded becomes an entry of the load report; it is an error only if plugin_paths
 * names the file itself. Engines share nothing. options may be NULL.
 * Errors: PLAIT_ERR_NOT_FOUND when a named path does not exist; PLAIT_ERR_PLUGIN when a named
 * plugin cannot be loaded, or the code with which its open() failed; PLAIT_ERR_IO when a folder or
 * file cannot be read. Nothing stays open or loaded. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_open(const plait_engine_options *options, plait_engine **out);
/* Closes an engine. If a call on the engine is running, that call closes it when it ends.
 * [thread: any; blocks: no] */
PLAIT_API void PLAIT_CALL plait_engine_close(plait_engine *engine);
/* Loads one plugin file. Must not be called while another thread makes plans or opens sessions of
 * this engine; the same applies to reading an experiment that names [plugins] paths. A file that is
 * already loaded is not loaded again.
 * Errors: PLAIT_ERR_NOT_FOUND when the file does not exist; PLAIT_ERR_PLUGIN when it is not a
 * plugin, does not fit this ABI or machine, or has the name of a loaded plugin, or the code with
 * which its open() failed; PLAIT_ERR_IO when it cannot be read; PLAIT_ERR_STATE. The engine has the
 * same items as before; the attempt is in the load report. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_load(plait_engine *engine, const char *path, uint64_t size);
/* Returns JSON: version, plugins, every item with its options, the load report (each path tried,
 * outcome, reason, remedy), and as "tables" those of an experiment: [{"path", "also" (other paths),
 * "help", "kind" (of the item that its `type` names), "named_by" (the key that names it instead),
 * "type" (the only one it holds for), "keys": [{"name", "type", "default" (TOML; null: required),
 * "help", "expected", ...}]}]. In a path "[]" is any element of a list, NAME and FIELD any name.
 * plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE. The engine is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_describe(plait_engine *engine, plait_text **json);
/* Returns JSON: every op that a layer or a gradient rule may write, core ops and ops of loaded
 * plugins, sorted by name: {"schema": 1, "ops": [{"name", "help", "signature", "dtypes",
 * "gradient", "sharding", "core", "any_attribute", "attributes": [{"name", "type", "default" (TOML
 * text; null: required), "choices", "help"}]}]}. `any_attribute` is true for a plugin's op that
 * declares no attributes. plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE. The engine is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_ops(plait_engine *engine, plait_text **json);
/* Returns JSON: the devices of loaded plugins, in the order in which run.device = "auto" tries
 * them: {"schema": 1, "devices": [{"name", "help", "plugin", "priority", "usable" (whether it can be
 * opened on this machine with default options), "detail" (what it found, or what is missing)}]}.
 * plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE. The engine is unchanged. [thread: owner; blocks: may look for drivers] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_engine_devices(plait_engine *engine, plait_text **json);
/* Returns JSON: the metadata of a plugin file, read without loading it. plait_text_free() frees it.
 * Errors: PLAIT_ERR_NOT_FOUND when the file does not exist; PLAIT_ERR_PLUGIN when it is not an ELF
 * file or its note is malformed; PLAIT_ERR_IO when it cannot be read.
 * [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plugin_inspect(const char *path, uint64_t size, plait_text **json);

/* --- experiment: a checked configuration ----------------------------------------------------- */

typedef struct plait_experiment_options {
  size_t struct_size;
  const char *const *overrides; /* (n_overrides) "key.path=value", applied in order */
  uint32_t n_overrides;
  uint32_t reserved;
} plait_experiment_options;

/* Reads and checks a TOML file, with the files that its key `extends` names below its values;
 * plait_experiment_close() frees *out. Plugins that [plugins] names
 * are loaded into the engine. options may be NULL.
 * Errors: PLAIT_ERR_CONFIG, also for a file that cannot be read, with all problems of the file, one
 * per line; if all problems have the same other code (PLAIT_ERR_NOT_FOUND, PLAIT_ERR_PLUGIN), that
 * code; PLAIT_ERR_STATE. The engine keeps the plugins that the file loaded and is otherwise
 * unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_read(plait_engine *engine, const char *path,
                                                                       uint64_t size,
                                                                       const plait_experiment_options *options,
                                                                       plait_experiment **out);
/* Does the same with a text in memory. `name` stands for the file in messages (NULL: "experiment");
 * relative paths start in the current folder.
 * Errors: PLAIT_ERR_CONFIG and the other codes of plait_experiment_read(), with the same effects.
 * [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_parse(plait_engine *engine, const char *toml,
                                                                        uint64_t size, const char *name,
                                                                        const plait_experiment_options *options,
                                                                        plait_experiment **out);
/* Returns a JSON list of problems {file, line, column, path, message, hint}; "[]" when the file has
 * none. The check includes tracing the model and planning, so it finds shape errors, too. A file
 * that cannot be read is a problem in the list. plait_text_free() frees the list.
 * Errors: PLAIT_ERR_STATE. The engine keeps the plugins that the file loaded and is otherwise
 * unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_check(plait_engine *engine, const char *path,
                                                                        uint64_t size,
                                                                        const plait_experiment_options *options,
                                                                        plait_text **json);
/* Returns the complete commented TOML with every default filled in. plait_text_free() frees it.
 * Errors: PLAIT_ERR_MEMORY. The experiment is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_bind(plait_experiment *experiment, plait_text **toml);
/* Returns JSON: every resolved value by its path in what plait_experiment_bind() writes: {"value",
 * "origin" ("experiment.toml:3:9", "default", "override 'run.seed=1'"), "key" (its path in the file
 * and for overrides, where that is another one)}. plait_text_free() frees it.
 * Errors: PLAIT_ERR_MEMORY. The experiment is unchanged. [thread: owner; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_experiment_describe(plait_experiment *experiment, plait_text **json);
/* Closes an experiment. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_experiment_close(plait_experiment *experiment);

/* --- job: the ranks that train together ------------------------------------------------------ */

typedef struct plait_job_options {
  size_t struct_size;
  uint32_t rank, size;             /* the number of this rank, from 0, and the number of ranks */
  uint32_t local_rank, local_size; /* the same on this machine; local_size 0: all ranks are on it */
  /* The rendezvous. "HOST:PORT": rank 0 listens there, and every rank has the same secret.
   * "file:PATH": rank 0 listens at an address of its choice and publishes address and secret in
   * that file, which only this user can read. NULL: none, which is enough for plans. */
  const char *rendezvous;
  const void *secret; /* (secret_size) unpredictable bytes, at least 16; NULL with a file */
  uint64_t secret_size;
  double connect_timeout; /* seconds until all ranks must have joined, and then until all have opened
                           * their devices; 0: the value of [topology] */
  /* Seconds for one collective, and of silence until a rank counts as lost; 0: as in [topology]. */
  double timeout;
} plait_job_options;

/* Describes this process as a rank of a job; plait_job_close() frees *out. options NULL: read from
 * the environment (PLAIT_*, torchrun, a Slurm step, Open MPI, MPICH, in this order; otherwise a
 * single rank). Opens no connection; plait_session_open() connects.
 * Errors: PLAIT_ERR_INVALID for options out of range; PLAIT_ERR_CONFIG for environment variables
 * that are malformed or contradict each other; PLAIT_ERR_IO when the secret or the folder of the
 * rendezvous cannot be read or created. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_job_open(const plait_job_options *options, plait_job **out);
/* Returns JSON: rank, size, local_rank, local_size, rendezvous, source and reason; never the
 * secret. plait_text_free() frees it. Errors: PLAIT_ERR_MEMORY. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_job_describe(const plait_job *job, plait_text **json);
/* Tells the other ranks that this one has failed before its session was opened, and why: their
 * plait_session_open() then fails at once with PLAIT_ERR_PEER and the text, instead of waiting for
 * this rank. Returns when they have been told, at the latest after 10 s. Does nothing for a single
 * rank or without a rendezvous. Call it instead of plait_session_open().
 * Errors: PLAIT_ERR_PEER when rank 0 cannot be reached; PLAIT_ERR_CONFIG when rank 0 does not accept
 * this rank; PLAIT_ERR_IO for sockets and the file of the rendezvous. The job is unchanged.
 * [thread: any; blocks: yes] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_job_fail(const plait_job *job, const char *text, uint64_t size);
/* Frees a job. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_job_close(plait_job *job);

/* --- plan ------------------------------------------------------------------------------------ */

/* Plans the whole run: programs, kernels and memory layout; plait_plan_close() frees *out. Opens
 * datasets for their shapes, but no device. The same as plait_plan_make_for() without a job.
 * Errors: PLAIT_ERR_CONFIG and the other codes of plait_plan_make_for(). The experiment is
 * unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_make(plait_experiment *experiment, plait_plan **out);
/* Plans for one rank of a job, whose size must be the product of the axes of [topology]. Sessions
 * of this plan train together with the sessions of the other ranks. job is borrowed for the call. NULL:
 * the plan is for rank 0 of as many ranks as [topology] asks for; it can be described in any case,
 * but trained only if that is a single rank.
 * Errors: PLAIT_ERR_CONFIG with all problems of model, data and topology, one per line; if all
 * problems have the same other code, that code: PLAIT_ERR_NOT_FOUND for a missing data file, device
 * or other item, PLAIT_ERR_DATA or PLAIT_ERR_IO for a dataset that cannot be read, PLAIT_ERR_PLUGIN
 * for an item that violates the ABI, PLAIT_ERR_UNIMPLEMENTED for an op without a kernel on the
 * device. The experiment is unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_make_for(plait_experiment *experiment, const plait_job *job,
                                                                     plait_plan **out);
/* Returns JSON: parameters, memory by category in bytes, FLOPs per step, the stages and the idle
 * share of the pipeline, programs with the kernel of each op and the bytes of each collective, and
 * the order in which a step launches them, metrics, memory that ranks share. plait_text_free() frees it.
 * Errors: PLAIT_ERR_MEMORY. [thread: any; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_describe(plait_plan *plan, plait_text **json);
/* Returns the programs of the plan as text, one line for each op with its results, operands,
 * attributes and memory; ARCHITECTURE.md explains the form, which is for people and may change.
 * program: the name of one; NULL: all of them. plait_text_free() frees it.
 * Errors: PLAIT_ERR_NOT_FOUND when the plan has no program of that name. The plan is unchanged.
 * [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_ir(plait_plan *plan, const char *program, uint64_t size,
                                                               plait_text **text);
/* Returns the schedule of the pipeline as an SVG picture in UTF-8: one row per rank, one box per
 * pass of a micro-batch, times in operations. plait_text_free() frees it.
 * Errors: PLAIT_ERR_STATE when the plan has no pipeline. [thread: any; blocks: no] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_picture(plait_plan *plan, plait_text **svg);
/* Plans every rank that [topology] asks for, equal ranks once, and proves that the collectives and
 * messages of all ranks match and finish: no rank waits for ever in a step, an evaluation or a
 * prediction. Returns JSON: the grid, the number of ranks that were planned, the calls of a step,
 * the rank with the largest arena and its memory, and for each coordinate along the pipeline its
 * stages, its fullest rank with the memory in bytes, FLOPs, sent bytes and idle share.
 * plait_text_free() frees it. Opens no connection.
 * Errors: PLAIT_ERR_PEER when calls of two ranks do not match or ranks wait for each other: the
 * text names the ranks, calls and programs. PLAIT_ERR_CONFIG and the other codes of
 * plait_plan_make_for(). The experiment is unchanged. [thread: owner; blocks: on files] */
PLAIT_API PLAIT_MUST_USE plait_error *PLAIT_CALL plait_plan_every_rank(plait_experiment *experiment, plait_text **json);
/* Closes a plan. [thread: owner; blocks: no] */
PLAIT_API void PLAIT_CALL plait_plan_close(plait_plan *plan);

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_ENGINE_H */
