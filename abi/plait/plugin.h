/* plait/plugin.h - the plugin side: one exported symbol, one table, items added by kind.
 *
 * A plugin is a shared library that exports exactly one symbol, plait_plugin_v1, and contains an
 * ELF note (see PLAIT_PLUGIN_NOTE) from which its name, version and ABI are read without loading
 * it. The engine calls plait_plugin_v1, checks the table, then calls open() once per engine; open()
 * adds items through the host table. Items are static tables. Their kinds are declared in layer.h
 * (with losses and metrics), op.h, device.h (with kernels), optimizer.h (with schedules), dataset.h
 * and comm.h.
 *
 * Errors. If a function of an item returns an error, the engine adds the names of the plugin, the
 * function and the item to the text and keeps the code. An exception that leaves a plugin becomes
 * PLAIT_ERR_PLUGIN (PLAIT_ERR_MEMORY for std::bad_alloc), but its clean-up is lost. */
#ifndef PLAIT_PLUGIN_H
#define PLAIT_PLUGIN_H

#include <plait/base.h>
#include <plait/option.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions that the engine offers to a plugin. One table per (engine, plugin), valid from
 * open() until close() returns. */
typedef struct plait_host plait_host;
struct plait_host {
  size_t struct_size;
  uint32_t abi;      /* the host's PLAIT_ABI_VERSION */
  uint32_t reserved; /* 0 */

  /* Creates an error for the plugin to return; never NULL. `text` is copied. `cause` may be NULL;
   * the function takes it over.
   * Errors: always, with `code`; PLAIT_ERR_PLUGIN for PLAIT_OK and PLAIT_ERR_INTERNAL; PLAIT_ERR_MEMORY, a
   * static error, when there is no memory for the text. [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *error_new)(uint32_t code, const char *text, uint64_t size, plait_error *cause);
  /* The code and the text of an error that the host created. The text lives as long as the error.
   * [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *error_code)(const plait_error *e);
  const char *(PLAIT_CALL *error_text)(const plait_error *e);
  /* Frees an error that is not returned. [thread: owner; blocks: no] */
  void(PLAIT_CALL *error_free)(plait_error *e);

  /* Writes a line to the log sink of the host, if that receives lines of this level; the line
   * begins with the name of the plugin. [thread: any; blocks: as the sink does] */
  void(PLAIT_CALL *log)(const plait_host *host, uint32_t level, const char *text, uint64_t size);

  /* Adds an item of a kind ("plait.layer/1", ...). The item is borrowed until close(). Only inside
   * open(). Names have letters, digits, '_', '-' and '.'. If another plugin has an item of that
   * kind and name, this one is left out with a warning, and the call succeeds.
   * Errors: PLAIT_ERR_PLUGIN for an unknown kind or a malformed table; PLAIT_ERR_STATE outside of
   * open(). The item is not added; the plugin may go on without it. [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *add)(const plait_host *host, const char *kind, const void *item);

  /* Returns a table of the host by its id (PLAIT_EXTENSION_JOB), or NULL if this host has none of
   * that id. Pure and repeatable; the table lives as long as the host. [thread: any; blocks: no] */
  const void *(PLAIT_CALL *extension)(const plait_host *host, const char *id);
};

/* The position of this process in its job. The caller sets struct_size. */
typedef struct plait_job_place {
  size_t struct_size;
  uint32_t rank; /* of `world` */
  uint32_t world;
  uint32_t local_rank; /* of `local_size` ranks on this machine */
  uint32_t local_size;
} plait_job_place;

/* Extension "plait.job/1". While the engine makes a plan or opens a session for a job, its calls on
 * this thread see that job; otherwise the job that the launcher described in the environment when
 * the engine was opened; without a launcher a single process. */
typedef struct plait_job_table {
  size_t struct_size;
  /* Writes the fields that fit in out->struct_size. [thread: any; blocks: no] */
  void(PLAIT_CALL *get)(const plait_host *host, plait_job_place *out);
} plait_job_table;

#define PLAIT_EXTENSION_JOB "plait.job/1"

/* The description of a plugin. Static. */
typedef struct plait_plugin {
  size_t struct_size;
  uint32_t abi;      /* the PLAIT_ABI_VERSION it was built with */
  uint32_t reserved; /* 0 */
  const char *name;  /* as in the note; unique among loaded plugins */
  const char *version;
  const char *license; /* SPDX */
  const char *summary; /* one line */

  /* Adds the items. `path` is the absolute path of the plugin file. *state belongs to the plugin
   * and is passed to close(). May be called again after close(), and by several engines of one
   * process.
   * Errors: PLAIT_ERR_PLUGIN or another code, also an error of add() unchanged. The engine removes
   * the items that were added, does not call close(), and unloads the plugin: the load report has
   * the reason, and plait_engine_load() returns the same code. [thread: owner of the engine;
   * blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const char *path, void **state);
  /* Frees the state. The engine no longer uses the items and the code afterwards.
   * [thread: any, after the last object of the engine is closed; blocks: no] */
  void(PLAIT_CALL *close)(void *state);
} plait_plugin;

/* The entry symbol: returns the table for the newest ABI that both sides know, or NULL if
 * `host_abi` is too old for the plugin. Pure and repeatable. [thread: any; blocks: no] */
typedef const plait_plugin *(PLAIT_CALL *plait_plugin_entry)(uint32_t host_abi);
#define PLAIT_PLUGIN_ENTRY "plait_plugin_v1"

/* Puts an ELF note into the plugin, from which it is identified without being loaded. Once per
 * plugin:
 *   PLAIT_PLUGIN_NOTE("layer-dense", "0.1.0");
 * Section .note.plait; owner "Plait", type 1; text "abi=1;name=...;version=...;sanitizer=...", which
 * ends in NUL. */
#define PLAIT_NOTE_OWNER "Plait"
#define PLAIT_NOTE_TYPE 1u
#define PLAIT_NOTE_SECTION ".note.plait"
#define PLAIT_STR2(x) #x
#define PLAIT_STR(x) PLAIT_STR2(x)
#if defined(__SANITIZE_ADDRESS__)
#define PLAIT_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define PLAIT_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIT_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define PLAIT_SANITIZER "thread"
#else
#define PLAIT_SANITIZER "none"
#endif
#else
#define PLAIT_SANITIZER "none"
#endif
#define PLAIT_NOTE_TEXT(name, version) \
  "abi=" PLAIT_STR(PLAIT_ABI_VERSION) ";name=" name ";version=" version ";sanitizer=" PLAIT_SANITIZER
#if defined(__ELF__)
#define PLAIT_PLUGIN_NOTE(plugin_name, plugin_version)                                                                    \
  __attribute__((section(PLAIT_NOTE_SECTION), used, aligned(4))) static const struct {                                    \
    uint32_t owner_size, text_size, type;                                                                                 \
    char owner[8];                                                                                                        \
    char text[(sizeof(PLAIT_NOTE_TEXT(plugin_name, plugin_version)) + 3u) / 4u * 4u];                                     \
  } plait_plugin_note = {sizeof(PLAIT_NOTE_OWNER), (sizeof(PLAIT_NOTE_TEXT(plugin_name, plugin_version)) + 3u) / 4u * 4u, \
                         PLAIT_NOTE_TYPE, PLAIT_NOTE_OWNER, PLAIT_NOTE_TEXT(plugin_name, plugin_version)}
#else
#define PLAIT_PLUGIN_NOTE(plugin_name, plugin_version) typedef int plait_plugin_note
#endif

#ifdef __cplusplus
}
#endif
#endif /* PLAIT_PLUGIN_H */
