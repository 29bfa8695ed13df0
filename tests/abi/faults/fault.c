/* A plugin in C that is right but for the one fault its build asks for. */
#define _GNU_SOURCE 1
#include <plait/layer.h>
#include <plait/plugin.h>

#if defined(FAULT_SWAPPED)
/* Takes the place of fault-none while that is loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#undef FAULT_NAME
#define FAULT_NAME "fault-none"
#define FAULT_VERSION "2.0.0"
#define FAULT_LAYER "swapped_layer"

/* Tells that code of this file ran. */
__attribute__((constructor)) static void leave_mark(void) {
  const char* mark = getenv("FAULT_MARK");
  const int fd = mark ? open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) close(fd);
}
#else
#define FAULT_VERSION "1.0.0"
#define FAULT_LAYER "fault_layer"
#endif

/* A note as PLAIT_PLUGIN_NOTE makes it, with a text of our own. */
#define NOTE(text_of_it)                                                               \
  __attribute__((section(PLAIT_NOTE_SECTION), used, aligned(4))) static const struct { \
    uint32_t owner_size, text_size, type;                                              \
    char owner[8];                                                                     \
    char text[(sizeof(text_of_it) + 3u) / 4u * 4u];                                    \
  } note = {6, (sizeof(text_of_it) + 3u) / 4u * 4u, PLAIT_NOTE_TYPE, PLAIT_NOTE_OWNER, text_of_it}

#if defined(FAULT_ABI_NOTE)
NOTE("abi=99;name=" FAULT_NAME ";version=1;sanitizer=none");
#elif defined(FAULT_SANITIZER) && defined(__SANITIZE_THREAD__)
NOTE("abi=1;name=" FAULT_NAME ";version=1;sanitizer=address");
#elif defined(FAULT_SANITIZER)
NOTE("abi=1;name=" FAULT_NAME ";version=1;sanitizer=thread");
#elif !defined(FAULT_NO_NOTE)
PLAIT_PLUGIN_NOTE(FAULT_NAME, FAULT_VERSION);
#endif

#if defined(FAULT_PRIVATE)
int fault_private_number(void);
#endif
#if defined(FAULT_UNBOUND)
int a_function_that_is_nowhere(void);
#endif

#if defined(FAULT_CRASH)
#include <stdlib.h>
#include <string.h>
/* Ends the process as the environment says. */
static void end_process(void) {
  const char* how = getenv("FAULT_CRASH");
  volatile char* volatile nowhere = NULL;
  void* (*volatile fill)(void*, int, size_t) = memset;
  if (!how) return;
  if (!strcmp(how, "write")) *nowhere = 1;
  if (!strcmp(how, "memset")) fill((void*)nowhere, 1, 1 << 20);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "exit 0")) exit(0);
  if (!strcmp(how, "exit 7")) exit(7);
}
#endif

static plait_error* PLAIT_CALL build(plait_builder* b, const plait_options* o,
                                     const plait_value* in, uint32_t n, plait_value* out) {
  (void)b, (void)o, (void)n;
#if defined(FAULT_CRASH)
  end_process();
#endif
  out[0] = in[0];
  return NULL;
}

static const plait_layer_item layer = {
#if defined(FAULT_TINY_ITEM)
    16,
#else
    sizeof(plait_layer_item),
#endif
    FAULT_LAYER, "passes its input on", NULL, 0, 1, 1, 1, build};

static plait_error* PLAIT_CALL open_plugin(const plait_host* host, const char* path, void** state) {
  (void)path;
  *state = NULL;
#if defined(FAULT_OPEN_FAILS)
  return host->error_new(PLAIT_ERR_DEVICE, "the moon is in the wrong place", PLAIT_NTS, NULL);
#elif defined(FAULT_PRIVATE)
  if (fault_private_number() != 7)
    return host->error_new(PLAIT_ERR_PLUGIN, "another library", PLAIT_NTS, NULL);
#elif defined(FAULT_UNBOUND)
  a_function_that_is_nowhere();
#endif
  return host->add(host, PLAIT_KIND_LAYER, &layer);
}

static void PLAIT_CALL close_plugin(void* state) { (void)state; }

static const plait_plugin table = {
#if defined(FAULT_TINY_TABLE)
    8,
#else
    sizeof(plait_plugin),
#endif
    PLAIT_ABI_VERSION,
    0,
#if defined(FAULT_OTHER_NAME)
    "somebody-else",
#else
    FAULT_NAME,
#endif
    FAULT_VERSION,
    "Apache-2.0",
    "a plugin of the tests",
    open_plugin,
    close_plugin};

#if defined(FAULT_NO_ENTRY)
PLAIT_EXPORT const plait_plugin* fault_other_entry(void);
PLAIT_EXPORT const plait_plugin* fault_other_entry(void) { return &table; }
#else
PLAIT_EXPORT const plait_plugin* PLAIT_CALL plait_plugin_v1(uint32_t host_abi);
PLAIT_EXPORT const plait_plugin* PLAIT_CALL plait_plugin_v1(uint32_t host_abi) {
#if defined(FAULT_NULL_TABLE)
  (void)host_abi, (void)table;
  return NULL;
#else
  return host_abi >= 1 ? &table : NULL;
#endif
}
#endif

/* Exported only where the build forgets to hide symbols. */
int fault_helper(void);
int fault_helper(void) { return 1; }
