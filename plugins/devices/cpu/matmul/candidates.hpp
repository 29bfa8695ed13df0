// The entries of the ranked list, as the chooser sees them.
#pragma once

#include <memory>
#include <string>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// Whether an entry supports a problem, and what it requires.
struct Capability {
  std::string refusal;  // one clause; empty if it supports the problem
  size_t workspace_bytes = 0;
};

Capability stream_capability(const MatmulDesc& desc, Isa isa);
Capability jit_capability(const MatmulDesc& desc, Isa isa);
Capability blocked_capability(const MatmulDesc& desc, Isa isa);
// Products of bf16 by vectors of pairs.
constexpr char kBlockedBf16[] = "jit_avx512_bf16";
Capability blocked_bf16_capability(const MatmulDesc& desc);
Capability onednn_capability(const MatmulDesc& desc);
Capability onednn_bf16_capability(const MatmulDesc& desc);

// Precondition of each: its capability has no refusal.
std::unique_ptr<MatmulKernel> make_stream(const MatmulDesc& desc, Isa isa);
std::unique_ptr<MatmulKernel> make_jit(const MatmulDesc& desc, Isa isa);
std::unique_ptr<MatmulKernel> make_blocked(const MatmulDesc& desc, Isa isa);
std::unique_ptr<MatmulKernel> make_blocked_bf16(const MatmulDesc& desc);
std::unique_ptr<MatmulKernel> make_onednn(const MatmulDesc& desc);
std::unique_ptr<MatmulKernel> make_plain(const MatmulDesc& desc);

}  // namespace plait::cpu
