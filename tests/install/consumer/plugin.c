/* The smallest plugin: shakes hands, offers nothing. */
#include <plait/plugin.h>

PLAIT_PLUGIN_NOTE("consumer", "0.1.0");

static plait_error* PLAIT_CALL open_plugin(const plait_host* host, const char* path, void** state) {
  (void)host;
  (void)path;
  *state = NULL;
  return NULL;
}

static void PLAIT_CALL close_plugin(void* state) { (void)state; }

static const plait_plugin kPlugin = {
    sizeof(plait_plugin), PLAIT_ABI_VERSION, 0u,          "consumer",   "0.1.0",
    "Apache-2.0",         "offers nothing",  open_plugin, close_plugin,
};

PLAIT_EXPORT const plait_plugin* PLAIT_CALL plait_plugin_v1(uint32_t host_abi);
PLAIT_EXPORT const plait_plugin* PLAIT_CALL plait_plugin_v1(uint32_t host_abi) {
  return host_abi >= PLAIT_ABI_VERSION ? &kPlugin : NULL;
}
