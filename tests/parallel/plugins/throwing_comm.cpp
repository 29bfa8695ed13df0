// Backends for tests: all functions of the first throw, which the ABI forbids; the second transfers
// nothing, and only its memory() throws, on rank 1.
#include <plait/comm.h>
#include <plait/plugin.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

PLAIT_PLUGIN_NOTE("comm-throwing", "1.0.0");

namespace {

template <class R, class... A>
auto throwing(R (*)(A...)) {
  return +[](A...) -> R { throw std::runtime_error("nobody catches me"); };
}

plait_comm_item named(const char* name, const char* help) {
  plait_comm_item c{};
  c.struct_size = sizeof c;
  c.name = name;
  c.help = help;
  c.reach = PLAIT_COMM_REACH_NETWORK;
  return c;
}

plait_comm_item make_item() {
  plait_comm_item c = named("throwing", "throws");
  c.open = throwing(c.open);
  c.close = throwing(c.close);
  c.prepare = throwing(c.prepare);
  c.release = throwing(c.release);
  c.start = throwing(c.start);
  c.finish = throwing(c.finish);
  c.abort = throwing(c.abort);
  return c;
}

constexpr plait_error* kNoError = nullptr;

struct Miser {
  uint32_t rank;
  std::atomic<bool> aborted{false};
};
Miser& of(plait_comm* comm) { return *reinterpret_cast<Miser*>(comm); }

// Rank 1 has no memory to give; the others wait until the engine aborts them.
plait_error* throw_in_memory(plait_comm* comm, uint64_t, void** out) {
  if (of(comm).rank == 1) throw std::runtime_error("it is mine");
  for (int i = 0; i < 10000 && !of(comm).aborted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  *out = nullptr;
  return kNoError;
}

plait_comm_item make_throwing_memory() {
  plait_comm_item c = named("throwing_memory", "gives nothing");
  c.open = [](const plait_host*, const plait_options*, const plait_comm_setup* setup,
              plait_comm** out) {
    *out = reinterpret_cast<plait_comm*>(new Miser{setup->rank});
    return kNoError;
  };
  c.close = [](plait_comm* comm) { delete &of(comm); };
  c.prepare = [](plait_comm* comm, const plait_comm_desc*, plait_comm_call** out) {
    *out = reinterpret_cast<plait_comm_call*>(comm);
    return kNoError;
  };
  c.release = [](plait_comm_call*) {};
  c.start = c.finish = [](plait_comm_call*, plait_queue*) { return kNoError; };
  c.abort = [](plait_comm* comm, const char*, uint64_t) { of(comm).aborted = true; };
  c.memory = throw_in_memory;
  return c;
}

plait_error* open_plugin(const plait_host* host, const char*, void**) {
  static const plait_comm_item item = make_item(), throwing_memory = make_throwing_memory();
  if (plait_error* e = host->add(host, PLAIT_KIND_COMM, &item)) return e;
  return host->add(host, PLAIT_KIND_COMM, &throwing_memory);
}
void close_plugin(void*) {}
const plait_plugin kTable = {sizeof(plait_plugin),
                             PLAIT_ABI_VERSION,
                             0,
                             "comm-throwing",
                             "1.0.0",
                             "Apache-2.0",
                             "A backend that throws, for tests",
                             open_plugin,
                             close_plugin};
}  // namespace

extern "C" PLAIT_EXPORT const plait_plugin* plait_plugin_v1(uint32_t) { return &kTable; }
