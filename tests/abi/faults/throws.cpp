// A plugin that lets an exception out of open().
#include <plait/plugin.h>

#include <stdexcept>

PLAIT_PLUGIN_NOTE(FAULT_NAME, "1.0.0");

namespace {
plait_error* open_plugin(const plait_host*, const char*, void**) {
  throw std::runtime_error("nobody catches me");
}
void close_plugin(void*) {}
const plait_plugin kTable = {
    sizeof(plait_plugin), PLAIT_ABI_VERSION, 0,           FAULT_NAME,  "1.0.0",
    "Apache-2.0",         "throws",          open_plugin, close_plugin};
}  // namespace

extern "C" PLAIT_EXPORT const plait_plugin* plait_plugin_v1(uint32_t) { return &kTable; }
