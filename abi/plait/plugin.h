/* plait/plugin.h - the plugin side: one exported symbol, one table, items added by kind.
 *
 * A plugin is a shared library that exports exactly one symbol, plait_plugin_v1, and carries an ELF note (see
 * PLAIT_PLUGIN_NOTE) that tells its name, version and ABI without loading it. The engine calls plait_plugin_v1, checks the
 * table, then calls open() once per engine; open() adds items through the host table. Items are static tables, one or two
 * kinds a header: layer.h (with losses and metrics), op.h, device.h (with kernels), optimizer.h (with schedules),
 * dataset.h, comm.h. */
#ifndef PLAIT_PLUGIN_H
#define PLAIT_PLUGIN_H

#include <plait/base.h>
#include <plait/option.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the engine offers a plugin. One per (engine, plugin); valid from open() until close() returns. */
typedef struct plait_host plait_host;
struct plait_host {
  size_t struct_size;
  uint32_t abi;      /* the host's PLAIT_ABI_VERSION */
  uint32_t reserved; /* 0 */

  /* Makes an error. `cause` may be NULL; it is consumed. Never returns NULL: when memory is short it returns a static
   * error. `text` is copied. [thread: any; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *error_new)(uint32_t code, const char *text, uint64_t size, plait_error *cause);
  /* Code and text of an error the host returned. [thread: any; blocks: no] */
  uint32_t(PLAIT_CALL *error_code)(const plait_error *e);
  const char *(PLAIT_CALL *error_text)(const plait_error *e);
  /* [thread: owner; blocks: no] */
  void(PLAIT_CALL *error_free)(plait_error *e);

  /* Sends a line to the host's log sink, if the level is wanted. [thread: any; blocks: as the sink does] */
  void(PLAIT_CALL *log)(const plait_host *host, uint32_t level, const char *text, uint64_t size);

  /* Adds an item of a kind ("plait.layer/1", ...). The item is borrowed until close(). Only inside open().
   * Errors: PLAIT_ERR_PLUGIN for an unknown kind, a second item of that name, or a malformed table.
   * [thread: plan; blocks: no] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *add)(const plait_host *host, const char *kind, const void *item);

  /* A table of the host by id (PLAIT_EXTENSION_JOB), or NULL when this host has none. Pure and repeatable; the table lives as
   * long as the host. [thread: any; blocks: no] */
  const void *(PLAIT_CALL *extension)(const plait_host *host, const char *id);
};

/* Which process of a job this is. The caller sets struct_size. */
typedef struct plait_job_place {
  size_t struct_size;
  uint32_t rank; /* of `world` */
  uint32_t world;
  uint32_t local_rank; /* of `local_size` ranks on this machine */
  uint32_t local_size;
} plait_job_place;

/* Extension "plait.job/1". While the engine makes a plan or opens a session for a job, that job, as its calls on this thread see
 * it; else what the launcher wrote into the environment when the engine was opened; else one process alone. */
typedef struct plait_job_table {
  size_t struct_size;
  /* Fills what fits of *out. [thread: any; blocks: no] */
  void(PLAIT_CALL *get)(const plait_host *host, plait_job_place *out);
} plait_job_table;

#define PLAIT_EXTENSION_JOB "plait.job/1"

/* What a plugin is. Static. */
typedef struct plait_plugin {
  size_t struct_size;
  uint32_t abi;      /* the PLAIT_ABI_VERSION it was built with */
  uint32_t reserved; /* 0 */
  const char *name;  /* as in the note; unique among loaded plugins */
  const char *version;
  const char *license; /* SPDX */
  const char *summary; /* one line */

  /* Adds the items. `path` is the absolute path of this very file. *state is the plugin's own, handed back to close().
   * May be called again after close(), and by several engines of one process. [thread: owner of the engine; blocks: yes] */
  PLAIT_MUST_USE plait_error *(PLAIT_CALL *open)(const plait_host *host, const char *path, void **state);
  /* Items and code are used no more. [thread: any, after the last object of the engine is closed; blocks: no] */
  void(PLAIT_CALL *close)(void *state);
} plait_plugin;

/* The entry symbol. Pure and repeatable; returns the table for the newest ABI both sides know, or NULL when `host_abi` is
 * too old for it. [thread: any; blocks: no] */
typedef const plait_plugin *(PLAIT_CALL *plait_plugin_entry)(uint32_t host_abi);
#define PLAIT_PLUGIN_ENTRY "plait_plugin_v1"

/* Places, once per plugin, an ELF note readable without loading the file:
 *   PLAIT_PLUGIN_NOTE("layer-dense", "0.1.0");
 * Section .note.plait; owner "Plait", type 1; text "abi=1;name=...;version=...;sanitizer=..." ending in NUL. */
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
