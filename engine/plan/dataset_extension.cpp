#include "engine/plan/dataset_extension.hpp"

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/dataset.hpp"

struct plait_host_dataset {
  plait::plan::Dataset dataset;
};

namespace plait::plan {
namespace {

void need(const void* pointer, const char* what) {
  if (!pointer) fail_invalid(std::string("[datasets] ") + what + " is NULL");
}

plait_error* open(const plait_host* host, const char* type, const plait_options* options,
                  plait_host_dataset** out) {
  return guard_c([&] {
    need(host, "host");
    need(type, "type");
    need(options, "options");
    need(out, "out");
    *out = new plait_host_dataset{
        {type, "", options, static_cast<const plugin::Host*>(host)->registry()}};
  });
}

const plait_dataset_info* info(const plait_host_dataset* d) { return &d->dataset.info(); }

plait_error* read(const plait_host_dataset* d, const int64_t* indices, uint64_t n,
                  void* const* outs) {
  const plait_dataset_item& item = d->dataset.item();
  return try_plugin({"", "read", "dataset", item.name},
                    [&] { return item.read(d->dataset.handle(), indices, n, outs); });
}

plait_error* read_epoch(const plait_host_dataset* d, int64_t epoch, const int64_t* indices,
                        uint64_t n, void* const* outs) {
  const plait_dataset_item& item = d->dataset.item();
  const auto own = data::read_epoch_of(item);
  if (!own) return read(d, indices, n, outs);
  return try_plugin({"", "read_epoch", "dataset", item.name},
                    [&] { return own(d->dataset.handle(), epoch, indices, n, outs); });
}

void close(plait_host_dataset* d) { delete d; }

const char* text_of(const plait_host_dataset* d, uint32_t field, uint32_t what, uint64_t index) {
  return d->dataset.text_of(field, what, index);
}

constexpr plait_datasets_table kTable = {
    sizeof(plait_datasets_table), open, info, read, close, text_of, read_epoch};

}  // namespace

const plait_datasets_table* datasets_table() { return &kTable; }

}  // namespace plait::plan
