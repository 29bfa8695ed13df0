// Runs one case on one kernel, in every way that must give the same result.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/case.hpp"
#include "tests/conformance/host.hpp"

namespace conformance {

using Bytes = std::vector<unsigned char>;

// A case as a desc, with all data that it borrows.
class Desc {
 public:
  explicit Desc(const Case& c, uint32_t threads, bool in_place = false);
  Desc(const Desc&) = delete;
  Desc& operator=(const Desc&) = delete;
  const plait_op_desc& get() const { return desc_; }

 private:
  std::vector<plait_shape> inputs_;
  std::vector<plait_attr> attrs_;
  plait_map map_{};
  plait_op_desc desc_{};
};

struct Selection {
  bool taken = false;
  uint64_t workspace = 0;
  std::string detail;
};
Selection select(const plait_kernel_item& kernel, const Desc& desc);

enum class RunMode { direct, captured, in_place };

// Outputs of the case. Throws std::runtime_error if a call fails, an input changed, or memory
// outside was written.
std::vector<Bytes> run(const Device& device, const plait_kernel_item& kernel, const Case& c,
                       uint32_t threads, RunMode mode);

// The outputs of the reference device.
std::vector<Bytes> expected(const Device& reference, const Case& c);

// Empty if `found` is within the case's tolerance of `wanted`, else where and by how much it
// differs.
std::string difference(const Case& c, const std::vector<Bytes>& found,
                       const std::vector<Bytes>& wanted);

}  // namespace conformance
