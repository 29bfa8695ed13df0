// One op of a plugin, prepared: its best kernel, on operands that change from call to call.
#pragma once

#include "tests/bench/cuda/lab.hpp"
#include "tests/conformance/runner.hpp"

namespace cuda_bench {

class Op {
 public:
  // Throws std::runtime_error if no kernel takes the call, or only a plain one, unless that will
  // do.
  Op(Lab& lab, const conformance::Case& c, bool plain);
  ~Op();
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  // The kernel's name, and what it said when it was selected.
  const std::string& detail() const { return detail_; }
  // Of all operands, each moved once; an operand that is read and written counts twice.
  double bytes() const;
  void enqueue();

 private:
  Lab& lab_;
  conformance::Case case_;
  conformance::Desc desc_;
  const plait_kernel_item* item_ = nullptr;
  plait_kernel* kernel_ = nullptr;
  uint64_t workspace_ = 0;
  std::string detail_;
};

}  // namespace cuda_bench
