// A kernel of f32 as one of 16-bit operands: what is bf16 or f16 is widened into the workspace
// before, and narrowed from there after it. Two more passes over these operands, so for kernels
// that do much more than that with each element.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <plait/plugin.hpp>

#include "kit/dtype.hpp"
#include "kit/shape.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {

// The operands of a desc, inputs then outputs, as f32 and where each lies in the workspace.
class WidenedOperands {
 public:
  explicit WidenedOperands(const plait_op_desc& d) : desc_(d) {
    shapes_.assign(d.inputs, d.inputs + d.n_inputs);
    shapes_.insert(shapes_.end(), d.outputs, d.outputs + d.n_outputs);
    n_inputs_ = d.n_inputs;
    for (plait_shape& s : shapes_) {
      const bool half = s.dtype == PLAIT_BF16 || s.dtype == PLAIT_F16;
      places_.push_back({half ? s.dtype : 0u, kit::elements(s), bytes_});
      if (!half) continue;
      s.dtype = PLAIT_F32;
      bytes_ += (static_cast<uint64_t>(places_.back().n) * sizeof(float) + 63) / 64 * 64;
      most_ = std::max(most_, places_.back().n);
    }
    desc_.inputs = shapes_.data();
    desc_.outputs = shapes_.data() + n_inputs_;
    constexpr double kNanosecondsPerElement = 0.15;
    threads_ = choose_num_threads(d.threads, static_cast<double>(most_) * kNanosecondsPerElement,
                                  most_ / 1024 + 1);
  }
  WidenedOperands(const WidenedOperands&) = delete;
  WidenedOperands& operator=(const WidenedOperands&) = delete;

  bool any() const { return bytes_ > 0; }
  const plait_op_desc& desc() const { return desc_; }
  uint64_t bytes() const { return bytes_; }

  // Calls f(operands, workspace behind these).
  template <class F>
  void run(void* const* operands, void* workspace, const F& f) const {
    void* wide[32];
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& p = places_[i];
      wide[i] = p.dtype ? static_cast<char*>(workspace) + p.offset : operands[i];
      if (p.dtype && i < n_inputs_) widen(p, operands[i], static_cast<float*>(wide[i]));
    }
    f(wide, static_cast<char*>(workspace) + bytes_);
    for (size_t i = n_inputs_; i < places_.size(); ++i)
      if (places_[i].dtype) narrow(places_[i], static_cast<float*>(wide[i]), operands[i]);
  }
  static constexpr size_t kMostOperands = 32;
  size_t count() const { return places_.size(); }

 private:
  struct Place {
    uint32_t dtype;  // 0: it is used as it is
    int64_t n;
    uint64_t offset;
  };
  void widen(const Place& p, const void* from, float* to) const {
    const WidenFunction f = widen_function(p.dtype);
    in_parallel(threads_, p.n, [&](int64_t first, int64_t last) {
      f(static_cast<const uint16_t*>(from) + first, to + first, last - first);
    });
  }
  void narrow(const Place& p, const float* from, void* to) const {
    const NarrowFunction f = narrow_function(p.dtype);
    in_parallel(threads_, p.n, [&](int64_t first, int64_t last) {
      f(from + first, static_cast<uint16_t*>(to) + first, last - first);
    });
  }

  plait_op_desc desc_;
  std::vector<plait_shape> shapes_;
  std::vector<Place> places_;
  uint32_t n_inputs_ = 0;
  uint64_t bytes_ = 0;
  int64_t most_ = 0;
  int threads_ = 1;
};

template <class Kernel>
class Widened {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const WidenedOperands wide(d);
    if (!wide.any() || wide.count() > WidenedOperands::kMostOperands) {
      why = "takes 16-bit floats";
      return false;
    }
    if (!Kernel::select(wide.desc(), choice, why)) return false;
    choice.workspace += wide.bytes();
    why += "; 16-bit operands widened to f32, so no faster than f32";
    return true;
  }
  Widened(plait_device* device, const plait_op_desc& d) : wide_(d), kernel_(device, wide_.desc()) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    wide_.run(operands, workspace,
              [&](void* const* as_f32, void* rest) { kernel_.run(queue, as_f32, rest); });
  }

 private:
  WidenedOperands wide_;
  Kernel kernel_;
};

constexpr int32_t kWidenedPriority = 8;

}  // namespace plait::cpu
