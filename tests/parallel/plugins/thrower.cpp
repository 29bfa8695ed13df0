// A backend for tests: all its functions throw, which none may.
#include <plait/comm.h>
#include <plait/plugin.h>

#include <stdexcept>

PLAIT_PLUGIN_NOTE("comm-thrower", "1.0.0");

namespace {

template <class R, class... A>
auto thrower(R (*)(A...)) {
  return +[](A...) -> R { throw std::runtime_error("nobody catches me"); };
}

plait_comm_item make_item() {
  plait_comm_item c{};
  c.struct_size = sizeof c;
  c.name = "thrower";
  c.help = "throws";
  c.reach = PLAIT_COMM_REACH_NETWORK;
  c.open = thrower(c.open);
  c.close = thrower(c.close);
  c.prepare = thrower(c.prepare);
  c.release = thrower(c.release);
  c.start = thrower(c.start);
  c.finish = thrower(c.finish);
  c.abort = thrower(c.abort);
  return c;
}

plait_error* open_plugin(const plait_host* host, const char*, void**) {
  static const plait_comm_item item = make_item();
  return host->add(host, PLAIT_KIND_COMM, &item);
}
void close_plugin(void*) {}
const plait_plugin kTable = {sizeof(plait_plugin),
                             PLAIT_ABI_VERSION,
                             0,
                             "comm-thrower",
                             "1.0.0",
                             "Apache-2.0",
                             "A backend that throws, for tests",
                             open_plugin,
                             close_plugin};
}  // namespace

extern "C" PLAIT_EXPORT const plait_plugin* plait_plugin_v1(uint32_t) { return &kTable; }
