// Plugin `misfit`: right but for the one fault of faults.inc that PLAIT_PLANTED names.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "tests/abi/planted/items.hpp"

PLAIT_PLUGIN_NOTE("misfit", "1.0.0");

namespace misfit {
namespace {

// Heads of the functions that rows replace.
#define BUILD                                                                     \
  []([[maybe_unused]] plait_builder * b, [[maybe_unused]] const plait_options* o, \
     [[maybe_unused]] const plait_value* in, [[maybe_unused]] uint32_t n,         \
     [[maybe_unused]] plait_value* out) -> plait_error*
#define UPDATE                                                                    \
  []([[maybe_unused]] plait_builder * b, [[maybe_unused]] const plait_options* o, \
     [[maybe_unused]] const plait_update* u, [[maybe_unused]] plait_value* out) -> plait_error*
#define OPEN                                                                        \
  []([[maybe_unused]] const plait_host* h, [[maybe_unused]] const plait_options* o, \
     [[maybe_unused]] auto** out) -> plait_error*
#define OPEN_SCHEDULE                                                                        \
  []([[maybe_unused]] const plait_host* h, [[maybe_unused]] const plait_options* o, int64_t, \
     [[maybe_unused]] void** out) -> plait_error*
#define FACTOR []([[maybe_unused]] const void* self, [[maybe_unused]] int64_t step) -> double
#define INFO \
  []([[maybe_unused]] const void* self, [[maybe_unused]] plait_dataset_info* out) -> plait_error*
#define READ                                                                     \
  []([[maybe_unused]] const void* self, [[maybe_unused]] const int64_t* indices, \
     [[maybe_unused]] uint64_t n, [[maybe_unused]] void* const* outs) -> plait_error*
#define INFER                                                                          \
  []([[maybe_unused]] const plait_host* h, [[maybe_unused]] const plait_op_desc* desc, \
     [[maybe_unused]] plait_shape* out) -> plait_error*
#define GRADIENT                                                                   \
  []([[maybe_unused]] plait_builder * b, [[maybe_unused]] const plait_op_use* use, \
     [[maybe_unused]] plait_value* out) -> plait_error*
#define FLOPS [](const plait_op_desc*) -> double
#define SHARD []([[maybe_unused]] plait_shard_use * use) -> uint32_t
#define SELECT \
  []([[maybe_unused]] const plait_op_desc* desc, [[maybe_unused]] plait_choice* choice) -> uint32_t
#define PREPARE                                           \
  []([[maybe_unused]] const plait_host* h, plait_device*, \
     [[maybe_unused]] const plait_op_desc* desc,          \
     [[maybe_unused]] plait_kernel** out) -> plait_error*
#define KERNEL_RUN                                                              \
  [](const plait_kernel*, plait_queue*, [[maybe_unused]] void* const* operands, \
     void*) -> plait_error*
#define DEVICE_INFO [](const plait_device*, [[maybe_unused]] plait_device_info* out) -> plait_error*
#define ALLOC \
  [](plait_device*, [[maybe_unused]] uint64_t bytes, [[maybe_unused]] void** out) -> plait_error*
#define QUEUE_OPEN [](plait_device*, [[maybe_unused]] plait_queue * *out) -> plait_error*
#define EVENT_OPEN [](plait_device*, [[maybe_unused]] plait_event * *out) -> plait_error*
#define ENQUEUE                                                                           \
  [](plait_queue*, const plait_kernel_item*, const plait_kernel*, void* const*, uint32_t, \
     void*) -> plait_error*
#define COPY [](plait_queue*, uint32_t, void*, const void*, uint64_t) -> plait_error*
#define SYNC [](plait_queue*) -> plait_error*
#define CAPTURE_END [](plait_queue*, [[maybe_unused]] plait_graph * *out) -> plait_error*
#define LAUNCH [](plait_graph*, plait_queue*) -> plait_error*
#define COMM_OPEN                                                \
  []([[maybe_unused]] const plait_host* h, const plait_options*, \
     [[maybe_unused]] const plait_comm_setup* setup,             \
     [[maybe_unused]] plait_comm** out) -> plait_error*
#define COMM_PROBE                                               \
  []([[maybe_unused]] const plait_host* h, const plait_options*, \
     const plait_comm_needs*) -> plait_error*
#define COMM_PREPARE \
  [](plait_comm*, const plait_comm_desc*, [[maybe_unused]] plait_comm_call** out) -> plait_error*
#define COMM_CALL [](plait_comm_call*, plait_queue*) -> plait_error*
#define MEMORY \
  [](plait_comm*, [[maybe_unused]] uint64_t bytes, [[maybe_unused]] void** out) -> plait_error*

std::atomic<const plait_host*> kept_host{nullptr};  // from open(), of each rank
const plait_host* host() { return kept_host; }
plait_builder* kept = nullptr;  // from build()

// An error as an item makes it.
plait_error* no(const plait_host* h) {
  return h->error_new(PLAIT_ERR_DEVICE, "not in the mood", PLAIT_NTS, nullptr);
}
plait_error* no() { return no(host()); }
plait_error* no(plait_builder* b) {
  return b->table->fail(b, PLAIT_ERR_DEVICE, "not in the mood", PLAIT_NTS);
}
plait_error* op(plait_builder* b, const char* name, plait_value in, plait_value* out) {
  return b->table->op(b, name, &in, 1, nullptr, 0, out, 1);
}
plait_error* op(plait_builder* b, const char* name, plait_value in, const plait_attr& a,
                plait_value* out) {
  return b->table->op(b, name, &in, 1, &a, 1, out, 1);
}
constexpr int64_t kZero = 0;
plait_attr text(const char* name, const char* value) {
  return {name, PLAIT_OPT_TEXT, 0, 0, 0, value, nullptr};
}
plait_attr integer(const char* name, int64_t value) {
  return {name, PLAIT_OPT_INT, 0, value, 0, nullptr, nullptr};
}
plait_attr real(const char* name, double value) {
  return {name, PLAIT_OPT_REAL, 0, 0, value, nullptr, nullptr};
}
// Functions of layer_many() that return another number of values than their item declares.
template <size_t n>
std::vector<plait::Value> many_values(plait::Builder&, const plait::Options&,
                                      std::span<const plait::Value> in) {
  return std::vector<plait::Value>(n, in[0]);
}
constexpr plait::BuildMany three_values = many_values<3>;
// A parameter as layers ask for one, and the change that a row makes to it.
template <class Change>
plait_error* parameter(plait_builder* b, const plait_value* in, plait_value* out, Change&& change) {
  plait_parameter p{sizeof p, "weight", {PLAIT_F32, 1, {4}}, PLAIT_INIT_CONSTANT, 0, 1, 0, 1, 0, 0};
  change(p);
  plait_value w = 0;
  if (plait_error* e = b->table->parameter(b, &p, &w)) return e;
  const plait_value both[] = {in[0], w};
  return b->table->op(b, "mul", both, 2, nullptr, 0, out, 1);
}
// Samples and a sharded weight of 3 entries, which two ranks cannot share evenly.
void three_entries(Items& i) {
  i.fields[0].shape.dims[0] = i.fields[1].shape.dims[0] = 3;
  i.layer.build = [](plait_builder* b, const plait_options*, const plait_value* in, uint32_t,
                     plait_value* out) {
    return parameter(b, in, out, [](auto& p) { p.shape.dims[0] = 3; });
  };
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();
const char kLong[] =
    "a.name.that.goes.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and."
    "on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on.and.on";

struct Row {
  const char* name;
  void (*plant)(Items& i);
};
const Row kRows[] = {
#define FAULT(stage, ranks, name, item, says, ...) \
  {#name, []([[maybe_unused]] Items& i) { __VA_ARGS__; }},
#include "tests/abi/planted/faults.inc"
#undef FAULT
};

plait_error* open(const plait_host* h, const char*, void** state) {
  *state = nullptr;
  kept_host = h;
  Items& all = items();
  for (const Added& one : all.added)
    if (plait_error* e = h->add(h, one.kind, one.item)) return e;
  for (const plait_kernel_item& kernel : all.plain)
    if (plait_error* e = h->add(h, PLAIT_KIND_KERNEL, &kernel)) return e;
  return all.after ? all.after(h) : nullptr;
}

}  // namespace

Items& items() {
  static Items all;
  return all;
}

plait_plugin table = {sizeof table, PLAIT_ABI_VERSION, 0,    "misfit",    "1.0.0",
                      "Apache-2.0", "misbehaves",      open, [](void*) {}};

namespace {
bool plant() {
  const char* name = std::getenv("PLAIT_PLANTED");
  for (const Row& row : kRows)
    if (name && row.name == std::string_view(name)) row.plant(items());
  return true;
}
}  // namespace
}  // namespace misfit

extern "C" PLAIT_EXPORT const plait_plugin* plait_plugin_v1(uint32_t) {
  static const bool planted = misfit::plant();
  return planted ? &misfit::table : nullptr;
}
