#include "engine/data/batch_slots.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/base/checked.hpp"
#include "engine/base/text.hpp"
#include "kit/dtype.hpp"

namespace plait::data {

namespace {

constexpr uint64_t kAlign = 64;

// Bytes of one field for all rows, padded. At least one unit, so that pointers of empty fields
// differ.
uint64_t field_bytes(const plait_field& field, int64_t rows) {
  const std::string what = std::string("[data] bytes of field '") + field.name + "'";
  uint64_t total =
      checked_mul<uint64_t>(kit::dtype_bytes(field.shape.dtype), static_cast<uint64_t>(rows), what);
  for (uint32_t d = 0; d < field.shape.ndim; ++d)
    total = checked_mul<uint64_t>(total, static_cast<uint64_t>(field.shape.dims[d]), what);
  return checked_round_up(total == 0 ? 1 : total, kAlign, what);
}

uint64_t array_bytes(int64_t rows, uint64_t element) {
  return checked_round_up(
      checked_mul<uint64_t>(static_cast<uint64_t>(rows), element, "[data] rows"), kAlign,
      "[data] rows");
}

bool is_weight(const plait_field& field) { return field.role == PLAIT_FIELD_WEIGHT; }

}  // namespace

void check_config(const DataLoaderConfig& c) {
  const auto need = [](bool good, const char* what, int64_t found, const char* expected) {
    if (!good)
      fail_invalid(
          strf("[data] %s is %lld, expected %s", what, static_cast<long long>(found), expected));
  };
  need(c.batch >= 1, "batch", c.batch, "1 or more");
  need(c.limit >= 0, "limit", c.limit, "0 or more");
  need(c.prefetch >= -1 && c.prefetch <= 1024, "prefetch", c.prefetch, "0 to 1024 batches, or -1");
  need(c.first_batch >= 0, "first_batch", c.first_batch, "0 or more");
  need(c.row_begin >= 0 && c.row_begin < c.batch, "row_begin", c.row_begin, "a row of the batch");
  need(c.rows >= 0 && c.rows <= c.batch - c.row_begin, "rows", c.rows, "rows inside the batch");
}

int64_t rows_of(const DataLoaderConfig& config) {
  return config.rows > 0 ? config.rows : config.batch - config.row_begin;
}

namespace {

// What is wrong with a field by itself; "" if nothing is.
std::string fault_of(const plait_field& f) {
  if (f.role < PLAIT_FIELD_INPUT || f.role > PLAIT_FIELD_WEIGHT)
    return strf("has the unknown role %u", f.role);
  if (kit::dtype_bytes(f.shape.dtype) == 0)
    return strf("has the unknown element type %u", f.shape.dtype);
  if (f.shape.ndim >= PLAIT_MAX_NDIM)
    return strf("has ndim %u, expected at most %d for a sample", f.shape.ndim, PLAIT_MAX_NDIM - 1);
  int64_t bytes = static_cast<int64_t>(kit::dtype_bytes(f.shape.dtype));
  for (uint32_t d = 0; d < f.shape.ndim; ++d) {
    if (f.shape.dims[d] < 0) return strf("has a negative extent in dimension %u", d);
    if (__builtin_mul_overflow(bytes, f.shape.dims[d], &bytes)) return "is larger than any memory";
  }
  if (is_weight(f) && (f.shape.dtype != kWeightType || f.shape.ndim != 0))
    return "is a weight, expected one f32 per sample";
  if (!is_weight(f) && f.name == std::string_view("weight"))
    return "has the name of the sample weights, but not their role";
  return "";
}

}  // namespace

void check_fields(const plait_field* fields, uint32_t n_fields, const std::string& where) {
  constexpr uint32_t kMost = 1000;
  if (n_fields == 0 || !fields)
    fail(PLAIT_ERR_PLUGIN, where + " declares no fields, expected at least one; tell its author");
  if (n_fields > kMost)
    fail(PLAIT_ERR_PLUGIN, where + strf(" declares %u fields, expected at most %u; tell its author",
                                        n_fields, kMost));
  int weights = 0;
  for (uint32_t i = 0; i < n_fields; ++i) {
    const plait_field& f = fields[i];
    const std::string name = f.name ? f.name : "";
    std::string fault;
    if (name.empty())
      fault = "has no name";
    else if (printable(name) != name)
      fault = "has a control character in its name";
    else
      fault = fault_of(f);
    for (uint32_t k = 0; k < i && fault.empty(); ++k)
      if (name == fields[k].name)
        fault = strf("has the name of field %u: no name may be there twice", k);
    if (fault.empty() && is_weight(f) && ++weights > 1)
      fault = "is a second weight, expected at most one";
    if (fault.empty()) continue;
    const std::string named = name.empty() ? "" : " '" + printable(name) + "'";
    fail(PLAIT_ERR_PLUGIN,
         where + ": field " + std::to_string(i) + named + " " + fault + "; tell its author");
  }
}

void check_info(const plait_dataset_info& info, const std::string& where) {
  check_fields(info.fields, info.n_fields, where);
  constexpr int64_t kMost = int64_t{1} << 53;  // samples are counted in doubles, too
  if (info.n_samples < 0 || info.n_samples > kMost)
    fail(PLAIT_ERR_PLUGIN,
         where + strf(" reports %lld samples, expected 0 to 2^53; tell its author",
                      static_cast<long long>(info.n_samples)));
}

namespace {

// Bytes of one batch with its weights.
uint64_t slot_bytes(int64_t rows, const plait_field* fields, uint32_t n_fields) {
  uint64_t slot = array_bytes(rows, sizeof(Weight));
  for (uint32_t i = 0; i < n_fields; ++i)
    if (!is_weight(fields[i]))
      slot = checked_add(slot, field_bytes(fields[i], rows), "[data] bytes of a batch");
  return slot;
}

// A wake-up of the reading thread should pay for several small batches; large ones are not worth
// the memory.
uint64_t slot_count(const DataLoaderConfig& config, uint64_t slot_bytes) {
  constexpr uint64_t kLeast = 2, kMost = 32, kBytes = 8 << 20;
  if (config.prefetch >= 0) return static_cast<uint64_t>(config.prefetch) + 1;
  return std::clamp(kBytes / slot_bytes, kLeast, kMost) + 1;
}

}  // namespace

uint64_t BatchSlots::bytes(const DataLoaderConfig& config, const plait_field* fields,
                           uint32_t n_fields) {
  const int64_t rows = rows_of(config);
  const uint64_t slot = slot_bytes(rows, fields, n_fields);
  return checked_add(checked_mul(slot, slot_count(config, slot), "[data] bytes of all batches"),
                     array_bytes(rows, sizeof(int64_t)), "[data] bytes of all batches");
}

BatchSlots::BatchSlots(const DataLoaderConfig& config, const plait_field* fields,
                       uint32_t n_fields) {
  const uint64_t total = bytes(config, fields, n_fields);
  const int64_t rows = rows_of(config);
  const uint64_t count = slot_count(config, slot_bytes(rows, fields, n_fields));
  void* memory = ::operator new (total, std::align_val_t{kAlign}, std::nothrow);
  if (!memory)
    fail(PLAIT_ERR_MEMORY, strf("[data] no memory for %llu batches of %lld samples: %s",
                                static_cast<unsigned long long>(count),
                                static_cast<long long>(rows), human_bytes(total).c_str()));
  memory_.reset(memory);
  // Touched now, so that no page fault and no surprise comes in a step.
  std::memset(memory, 0, total);
  auto* at = static_cast<std::byte*>(memory);
  const auto take = [&at](uint64_t size) {
    std::byte* here = at;
    at += size;
    return here;
  };
  indices_ = reinterpret_cast<int64_t*>(take(array_bytes(rows, sizeof(int64_t))));
  slots_.resize(count);
  for (BatchSlot& slot : slots_) {
    slot.weight = reinterpret_cast<Weight*>(take(array_bytes(rows, sizeof(Weight))));
    slot.batch.weight = slot.weight;
    for (uint32_t i = 0; i < n_fields; ++i) {
      if (is_weight(fields[i])) {
        slot.outs.push_back(slot.weight);
        has_weight_field_ = true;
        continue;
      }
      slot.outs.push_back(take(field_bytes(fields[i], rows)));
      slot.batch.fields.push_back(slot.outs.back());
    }
  }
}

void BatchSlots::Free::operator()(void* p) const {
  ::operator delete (p, std::align_val_t{kAlign});
}

}  // namespace plait::data
