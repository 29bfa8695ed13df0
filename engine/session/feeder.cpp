#include "engine/session/feeder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/shape.hpp"
#include "kit/half.hpp"

namespace plait::session {

namespace {

// `row` is (B, sample shape).
bool same_sample(const plait_shape& sample, const plait_shape& row) {
  if (sample.dtype != row.dtype || sample.ndim + 1 != row.ndim) return false;
  for (uint32_t i = 0; i < sample.ndim; ++i)
    if (sample.dims[i] != row.dims[i + 1]) return false;
  return true;
}

}  // namespace

Feeder::Feeder(const plan::Feed& feed, const plan::Dataset& dataset, int64_t global,
               const runtime::Device& device)
    : feed_(feed),
      global_(global),
      device_(device),
      batch_(feed.fields.size()),
      counters_(static_cast<size_t>(global / feed.batch)) {
  for (const plan::Field& f : feed.fields) {
    if (f.index < dataset.fields().size() && f.name == dataset.fields()[f.index].name &&
        same_sample(dataset.fields()[f.index].shape, f.shape))
      continue;
    fail_config("[data." + dataset.name() + "] does not offer field '" + f.name + "' as " +
                program::text(f.shape) + " rows, which the program was planned for");
  }
}

Feeder::Source Feeder::whole(const void* data) const {
  const char* const bytes = static_cast<const char*>(data);
  return {bytes, global_, false, bytes};
}

void Feeder::set_batch(const data::Batch& batch) {
  // A rank whose programs read no samples gets none.
  for (size_t i = 0; i < feed_.fields.size(); ++i)
    batch_[i] = whole(batch.fields.empty() ? nullptr : batch.fields[feed_.fields[i].index]);
  weight_ = whole(batch.weight);
}

uint32_t from_dl(const plait_dl_dtype& t) {
  if (t.lanes != 1) return 0;
  if (t.code == 2)
    return t.bits == 32 ? PLAIT_F32 : t.bits == 64 ? PLAIT_F64 : t.bits == 16 ? PLAIT_F16 : 0;
  if (t.code == 4 && t.bits == 16) return PLAIT_BF16;
  if (t.code == 0) return t.bits == 32 ? PLAIT_I32 : t.bits == 64 ? PLAIT_I64 : 0;
  if (t.code == 1 && t.bits == 8) return PLAIT_U8;
  return t.code == 6 && t.bits == 8 ? PLAIT_BOOL : 0;
}

plait_dl_dtype to_dl(uint32_t dtype) {
  const bool integer = dtype == PLAIT_I32 || dtype == PLAIT_I64;
  const uint8_t code = dtype == PLAIT_BF16   ? 4
                       : dtype == PLAIT_BOOL ? 6
                       : dtype == PLAIT_U8   ? 1
                       : integer             ? 0
                                             : 2;
  return {code, static_cast<uint8_t>(8 * program::dtype_bytes(dtype)), 1};
}

namespace {

bool is_row_major(const plait_dl_tensor& t) {
  if (!t.strides) return true;
  int64_t expected = 1;
  for (int32_t i = t.ndim; i-- > 0;) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

const char* bytes_of(const plait_dl_tensor& t) {
  return static_cast<const char*>(t.data) + t.byte_offset;
}

bool in_host_memory(const plait_dl_tensor& t) {
  constexpr int32_t kHost = 1, kPinned = 3;
  return t.device.type == kHost || t.device.type == kPinned;
}

}  // namespace

bool Feeder::on_device(const plait_dl_tensor& t) const {
  const plait_dl_device own = device_.dl_device();
  return own.type != 0 && !in_host_memory(t) && t.device.type == own.type && t.device.id == own.id;
}

void Feeder::check_place(const plait_dl_tensor& t, const std::string& where) const {
  if (in_host_memory(t) || on_device(t)) return;
  const plait_dl_device own = device_.dl_device();
  fail_invalid(where + " lies on " + runtime::text_of(t.device) + ", expected host memory" +
               (own.type > 1 ? " or " + runtime::text_of(own) + ", where this session is" : "") +
               "; copy it there" +
               (t.device.type == own.type ? ", or open the session on that device" : ""));
}

int64_t Feeder::samples_of(const HostField& f, const plait_shape& row) const {
  const plait_dl_tensor& t = *f.tensor;
  const std::string where = "[feed] field '" + f.name + "'";
  check_place(t, where);
  if (from_dl(t.dtype) != row.dtype)
    fail_invalid(where +
                 (from_dl(t.dtype)
                      ? " is " + std::string(program::dtype_name(from_dl(t.dtype)))
                      : strf(" has element type code %u, %u bits", t.dtype.code, t.dtype.bits)) +
                 ", expected " + program::dtype_name(row.dtype));
  bool fits = t.ndim == static_cast<int32_t>(row.ndim);
  for (int32_t i = 1; fits && i < t.ndim; ++i) fits = t.shape[i] == row.dims[i];
  if (!fits || t.shape[0] < 0 || t.shape[0] > global_) {
    std::string found;
    for (int32_t i = 0; i < t.ndim; ++i) found += (i ? ", " : "") + std::to_string(t.shape[i]);
    plait_shape expected = row;
    expected.dims[0] = global_;
    fail_invalid(where + " has shape (" + found + "), expected up to " + program::text(expected));
  }
  if (!is_row_major(t)) fail_invalid(where + " must be row-major without gaps");
  if (!t.data && t.shape[0] > 0) fail_invalid(where + " has no data");
  return t.shape[0];
}

void Feeder::check_names(const std::vector<HostField>& fields) const {
  for (const HostField& h : fields) {
    const bool known =
        h.name == "weight" || std::any_of(feed_.fields.begin(), feed_.fields.end(),
                                          [&](const plan::Field& f) { return f.name == h.name; });
    if (known) continue;
    std::vector<std::string> names{"weight"};
    for (const plan::Field& f : feed_.fields) names.push_back(f.name);
    fail_invalid("[feed] the program reads no field '" + h.name + "'" +
                 did_you_mean(nearest(h.name, names)) + "; it reads: " + join(names));
  }
  for (size_t i = 0; i < fields.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (fields[i].name == fields[k].name)
        fail_invalid("[feed] field '" + fields[i].name + "' is given twice; give it once");
}

int64_t Feeder::set_batch(const std::vector<HostField>& fields, bool partial) {
  owned_.resize(feed_.fields.size());
  owned_weight_.resize(static_cast<size_t>(global_));
  check_names(fields);
  auto given = [&](const std::string& name) {
    return std::find_if(fields.begin(), fields.end(),
                        [&](const HostField& h) { return h.name == name; });
  };
  int64_t n = -1;
  for (const plan::Field& f : feed_.fields) {
    const auto h = given(f.name);
    if (h == fields.end()) {
      if (!partial)
        fail_invalid("[feed] field '" + f.name + "' is missing; expected up to " +
                     program::text(f.shape));
      continue;
    }
    const int64_t samples = samples_of(*h, f.shape);
    if (n >= 0 && n != samples)
      fail_invalid(strf("[feed] field '%s' has %ld samples, another has %ld", f.name.c_str(),
                        static_cast<long>(samples), static_cast<long>(n)));
    n = samples;
  }
  if (n < 0) fail_invalid("[feed] no field was given");
  const auto weight = given("weight");
  if (weight != fields.end() &&
      samples_of(*weight, program::make_shape(data::kWeightType, {global_})) != n)
    fail_invalid("[feed] 'weight' must have one number per sample");
  for (size_t i = 0; i < feed_.fields.size(); ++i) {
    const auto h = given(feed_.fields[i].name);
    stage(i, h == fields.end() ? nullptr : h->tensor, n);
  }
  std::fill(owned_weight_.begin(), owned_weight_.end(), data::Weight{0});
  std::fill_n(owned_weight_.begin(), n, data::Weight{1});
  weight_ = whole(owned_weight_.data());
  if (weight == fields.end()) return n;
  const plait_dl_tensor& t = *weight->tensor;
  if (on_device(t))
    weight_ = {bytes_of(t), n, true, nullptr};
  else if (n > 0)
    std::memcpy(owned_weight_.data(), bytes_of(t), program::bytes_of(n, data::kWeightType));
  return n;
}

// The host's memory stays where it is until the call returns: only what is shorter is copied, and
// zeros follow it. tensor: nullptr if the field is not given.
void Feeder::stage(size_t field, const plait_dl_tensor* tensor, int64_t samples) {
  Source& source = batch_[field];
  if (tensor && on_device(*tensor)) {
    source = {bytes_of(*tensor), samples, true, nullptr};
    return;
  }
  if (tensor && samples == global_) {
    source = whole(bytes_of(*tensor));
    return;
  }
  std::vector<char>& rows = owned_[field];
  rows.assign(static_cast<size_t>(global_) * feed_.fields[field].sample_bytes, 0);
  const uint64_t bytes = static_cast<uint64_t>(samples) * feed_.fields[field].sample_bytes;
  if (tensor && bytes) std::memcpy(rows.data(), bytes_of(*tensor), bytes);
  source = whole(rows.data());
}

void Feeder::fetch(runtime::Executor& executor, bool indices_only) {
  for (size_t i = 0; i < feed_.fields.size(); ++i) {
    const plan::Field& f = feed_.fields[i];
    Source& source = batch_[i];
    if (source.visible || !source.on_device || (indices_only && f.index_ranges.empty())) continue;
    owned_[i].assign(static_cast<size_t>(global_) * f.sample_bytes, 0);
    executor.read_device(source.data, owned_[i].data(),
                         static_cast<uint64_t>(source.rows) * f.sample_bytes);
    source.visible = owned_[i].data();
  }
}

namespace {

int64_t integer_at(uint32_t dtype, const char* data, int64_t i) {
  const auto get = [&](auto v) {
    std::memcpy(&v, data + static_cast<uint64_t>(i) * sizeof v, sizeof v);
    return static_cast<int64_t>(v);
  };
  return dtype == PLAIT_I64 ? get(int64_t{}) : dtype == PLAIT_I32 ? get(int32_t{}) : get(uint8_t{});
}

double number_at(uint32_t dtype, const char* data, int64_t i) {
  const auto get = [&](auto v) {
    std::memcpy(&v, data + static_cast<uint64_t>(i) * sizeof v, sizeof v);
    return v;
  };
  return dtype == PLAIT_F64    ? get(double{})
         : dtype == PLAIT_F32  ? static_cast<double>(get(float{}))
         : dtype == PLAIT_BF16 ? static_cast<double>(kit::from_bf16(get(uint16_t{})))
                               : static_cast<double>(kit::from_f16(get(uint16_t{})));
}

}  // namespace

std::string Feeder::non_finite_text(const std::function<std::string(int64_t row)>& named) const {
  for (size_t i = 0; i < feed_.fields.size(); ++i) {
    const plan::Field& f = feed_.fields[i];
    if (!batch_[i].visible || !program::is_float(f.shape.dtype)) continue;
    const int64_t each = program::elements(f.shape) / feed_.batch;
    for (int64_t k = 0; k < global_ * each; ++k)
      if (const double v = number_at(f.shape.dtype, batch_[i].visible, k); !std::isfinite(v))
        return "field '" + f.name + "' of " +
               (named ? named(k / each) : strf("its sample %ld", static_cast<long>(k / each))) +
               " is " + real_text(v);
  }
  return "";
}

Feeder::OutOfRange Feeder::find_out_of_range(bool labels) const {
  for (size_t i = 0; i < feed_.fields.size(); ++i) {
    const plan::Field& f = feed_.fields[i];
    if (!batch_[i].visible) continue;
    const int64_t n = global_ * (program::elements(f.shape) / feed_.batch);
    for (const plan::IndexRange& b : f.index_ranges) {
      if (b.labels && !labels) continue;
      OutOfRange found;
      for (int64_t k = 0; k < n; ++k) {
        const int64_t v = integer_at(f.shape.dtype, batch_[i].visible, k);
        if (!found.field && (v < b.least || v >= b.end)) found = {&f, &b, v, v};
        found.largest = std::max(found.largest, v);
      }
      if (found.field) return found;
    }
  }
  return {};
}

// Of micro-batch m.
void Feeder::feed_rows(runtime::Executor& executor, char* to, const Source& from,
                       uint64_t row_bytes, int64_t m) {
  const int64_t b = feed_.batch;
  const char* const first = from.data + static_cast<uint64_t>(m * b) * row_bytes;
  if (!from.on_device)
    return uploads_->write(to, first, static_cast<uint64_t>(b) * row_bytes, true);
  const int64_t rows = std::clamp<int64_t>(from.rows - m * b, 0, b);
  const uint64_t bytes = static_cast<uint64_t>(rows) * row_bytes,
                 rest = static_cast<uint64_t>(b - rows) * row_bytes;
  if (bytes > 0) executor.queue().copy(PLAIT_COPY_ON_DEVICE, to, first, bytes);
  if (rest == 0) return;
  zeros_.resize(std::max<size_t>(zeros_.size(), rest));
  uploads_->write(to + bytes, zeros_.data(), rest);
}

void Feeder::feed(runtime::Executor& executor, const plan::Feed& to, int64_t m, int32_t slot,
                  int64_t step, int64_t first_sample) {
  if (!uploads_) uploads_.emplace(executor.queue(), 2, block_bytes());
  uploads_->begin();
  // In the order in which a plan allocates them, so that they are one copy.
  if (to.counter.segment >= 0) {
    auto& counter = counters_[static_cast<size_t>(m)];
    counter = {step, first_sample};
    uploads_->write(executor.address(to.counter, slot), counter.data(), sizeof counter, true);
  }
  if (to.weight.segment >= 0)
    feed_rows(executor, executor.address(to.weight, slot), weight_, sizeof(data::Weight), m);
  for (const plan::Field& f : to.fields)
    feed_rows(executor, executor.address(f.buffer, slot), batch_[f.feed_index], f.sample_bytes, m);
  uploads_->end();
}

// Of one micro-batch: fields, weight and counter, each from a multiple of 64.
uint64_t Feeder::block_bytes() const {
  const auto rounded = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const auto b = static_cast<uint64_t>(feed_.batch);
  uint64_t sum = rounded(b * sizeof(data::Weight)) + rounded(sizeof(counters_[0]));
  for (const plan::Field& f : feed_.fields) sum += rounded(b * f.sample_bytes);
  return sum;
}

}  // namespace plait::session
