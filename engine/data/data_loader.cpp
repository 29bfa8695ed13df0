#include "engine/data/data_loader.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>

#include "engine/base/c_error.hpp"
#include "engine/base/call_watch.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"
#include "engine/data/batch_slots.hpp"
#include "engine/data/require_samples.hpp"
#include "engine/data/ring.hpp"
#include "engine/data/sample_order.hpp"

namespace plait::data {

namespace {

plait_dataset_info checked_info(const DatasetSource& source) {
  if (source.described) return *source.described;
  if (!source.item || !source.dataset)
    fail_invalid("[data] a loader needs an opened dataset, found none");
  plait_dataset_info info = {};
  info.struct_size = sizeof info;
  const PluginCall at{source.plugin, "info", "dataset", source.item->name};
  check_plugin(at, "describing [data." + source.name + "]",
               [&] { return source.item->info(source.dataset, &info); });
  check_info(info, "[plugin " + source.plugin + "] dataset '" + source.item->name + "' of [data." +
                       source.name + "]");
  return info;
}

}  // namespace

decltype(plait_dataset_item::read_epoch) read_epoch_of(const plait_dataset_item& item) {
  constexpr size_t kSize = offsetof(plait_dataset_item, read_epoch) + sizeof(item.read_epoch);
  return item.struct_size < kSize ? nullptr : item.read_epoch;
}

struct DataLoader::State {
  State(DatasetSource source, const DataLoaderConfig& config);
  ~State();

  bool ended(int64_t index) const { return !endless && index >= total; }
  void fill(int64_t index, BatchSlot& slot);
  void read(int64_t epoch, BatchSlot& slot);
  void fill_or_explain(int64_t index, BatchSlot& slot);
  const Batch* next_direct();
  const Batch* next_ahead();
  void start();
  void work();

  // Fixed after construction.
  DatasetSource source;
  plait_dataset_info info;
  int64_t batch, row_begin, rows, n, per_epoch, total;
  uint64_t seed;
  bool shuffle, endless, threaded;
  decltype(plait_dataset_item::read_epoch)
      read_epoch;  // nullptr: samples are the same in all epochs
  std::vector<plait_field> fields;
  BatchSlots slots;

  // Used by the filling side: the thread, or next() if there is none.
  SampleOrder order;
  int64_t order_epoch = -1;

  // Reading ahead. The thread owns fill_index and error, except while the ring is paused or closed.
  Ring ring;
  std::thread thread;
  std::unique_ptr<CallMark> mark;  // of the thread
  int64_t fill_index = 0;          // the batch the thread reads next
  std::exception_ptr error;

  int64_t position = 0;  // the batch next() delivers
};

void require_samples(const DatasetSource& source, int64_t n) {
  if (n == 0)
    fail_data("[plugin " + source.plugin + "] dataset '" + source.item->name + "' of [data." +
              source.name + "] has no samples, expected at least one to train on");
}

DataLoader::State::State(DatasetSource opened, const DataLoaderConfig& config)
    : source(std::move(opened)),
      info(checked_info(source)),
      slots((check_config(config), config), info.fields, source.described ? 0 : info.n_fields),
      ring(slots.count()) {
  batch = config.batch;
  row_begin = config.row_begin;
  rows = rows_of(config);
  n = config.limit > 0 ? std::min(config.limit, info.n_samples) : info.n_samples;
  per_epoch = data::batches_per_epoch(n, batch);
  seed = config.seed;
  shuffle = config.shuffle;
  endless = config.endless;
  read_epoch = config.by_epoch ? read_epoch_of(*source.item) : nullptr;
  total = per_epoch;
  threaded = config.prefetch != 0 && !source.described;
  position = fill_index = config.first_batch;
  if (endless) require_samples(source, n);
  for (uint32_t i = 0; i < info.n_fields; ++i)
    if (info.fields[i].role != PLAIT_FIELD_WEIGHT) fields.push_back(info.fields[i]);
}

DataLoader::State::~State() {
  ring.stop();
  if (thread.joinable()) thread.join();
}

void DataLoader::State::read(int64_t epoch, BatchSlot& slot) {
  const int64_t* indices = slots.indices();
  const auto n_rows = static_cast<uint64_t>(rows);
  const auto call = [&] {
    return read_epoch ? read_epoch(source.dataset, epoch, indices, n_rows, slot.outs.data())
                      : source.item->read(source.dataset, indices, n_rows, slot.outs.data());
  };
  const PluginCall at{source.plugin, read_epoch ? "read_epoch" : "read", "dataset",
                      source.item->name};
  if (plait_error* e = try_plugin(at, call))
    check_plugin(e, at, "reading [data." + source.name + "]");
}

void DataLoader::State::fill(int64_t index, BatchSlot& slot) {
  const int64_t epoch = index / per_epoch;
  if (epoch != order_epoch) {
    order = SampleOrder(seed, epoch, n, shuffle);
    order_epoch = epoch;
  }
  const int64_t first = index % per_epoch * batch + row_begin;
  const int64_t valid = std::clamp<int64_t>(n - first, 0, rows);
  int64_t* indices = slots.indices();
  for (int64_t i = 0; i < valid; ++i) indices[i] = order(first + i);
  std::fill(indices + valid, indices + rows, int64_t{0});
  if (!slots.has_weight_field()) std::fill(slot.weight, slot.weight + rows, 1.0f);
  if (!source.described) read(epoch, slot);
  std::fill(slot.weight + valid, slot.weight + rows, 0.0f);
  double sum = 0;
  for (int64_t i = 0; i < valid; ++i) sum += static_cast<double>(slot.weight[i]);
  slot.batch.index = index;
  slot.batch.epoch = epoch;
  slot.batch.valid = valid;
  slot.batch.weight_sum = sum;
}

void DataLoader::State::fill_or_explain(int64_t index, BatchSlot& slot) {
  try {
    fill(index, slot);
  } catch (...) {
    rethrow_with(strf("[data] batch %lld of '%s' (epoch %lld) could not be read",
                      static_cast<long long>(index), source.name.c_str(),
                      static_cast<long long>(index / per_epoch)));
  }
}

const Batch* DataLoader::State::next_direct() {
  if (ended(position)) return nullptr;
  BatchSlot& slot = slots[0];
  fill_or_explain(position, slot);
  ++position;
  return &slot.batch;
}

const Batch* DataLoader::State::next_ahead() {
  if (!thread.joinable() && !ended(position)) start();
  if (!thread.joinable()) return nullptr;
  const int64_t slot = ring.acquire_filled();
  if (slot < 0) {
    if (error) std::rethrow_exception(error);
    return nullptr;
  }
  ++position;
  return &slots[static_cast<size_t>(slot)].batch;
}

void DataLoader::State::start() {
  mark = CallMark::like_own();
  thread = start_thread([this] { work(); });
}

void DataLoader::State::work() {
  pthread_setname_np(pthread_self(), "plait-data");
  const WatchedThread watched(mark.get());
  for (;;) {
    const int64_t slot = ring.acquire_free();
    if (slot < 0) return;
    if (ended(fill_index)) {
      ring.close();
      continue;
    }
    try {
      fill_or_explain(fill_index, slots[static_cast<size_t>(slot)]);
    } catch (...) {  // kept as it is: a copy might fail for lack of memory
      error = std::current_exception();
      ring.close();
      continue;
    }
    ++fill_index;
    ring.commit_filled();
  }
}

DataLoader::DataLoader(DatasetSource source, const DataLoaderConfig& config)
    : state_(std::make_unique<State>(std::move(source), config)) {}
DataLoader::~DataLoader() = default;

const Batch* DataLoader::next() {
  return state_->threaded ? state_->next_ahead() : state_->next_direct();
}

void DataLoader::seek(int64_t batch_index) {
  if (batch_index < 0)
    fail_invalid(
        strf("[data] seek to batch %lld, expected 0 or more", static_cast<long long>(batch_index)));
  State& s = *state_;
  if (s.thread.joinable()) s.ring.pause();
  s.error = nullptr;
  s.position = s.fill_index = batch_index;
  s.ring.restart();
}

int64_t DataLoader::position() const { return state_->position; }
int64_t DataLoader::samples() const { return state_->n; }
int64_t DataLoader::batches_per_epoch() const { return state_->per_epoch; }
int64_t DataLoader::rows() const { return state_->rows; }
const std::vector<plait_field>& DataLoader::fields() const { return state_->fields; }
uint64_t DataLoader::fingerprint() const { return state_->info.fingerprint; }

uint64_t DataLoader::host_bytes(const DataLoaderConfig& config, const plait_field* fields,
                                uint32_t n_fields) {
  check_config(config);
  check_fields(fields, n_fields, "[data]");
  return BatchSlots::bytes(config, fields, n_fields);
}

}  // namespace plait::data
