#pragma once
// The ranked list's entries, as the chooser sees them.

#include <memory>
#include <string>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

/// Whether an entry takes a problem, and what it needs.
struct Offer {
  std::string refusal;  ///< one clause; empty if it takes the problem
  size_t workspace_bytes = 0;
};

Offer offer_jit(const MatmulDesc& desc, Isa isa);
Offer offer_blocked(const MatmulDesc& desc, Isa isa);
Offer offer_onednn(const MatmulDesc& desc);

/// Precondition of each: its offer has no refusal.
std::unique_ptr<MatmulKernel> make_jit(const MatmulDesc& desc, Isa isa);
std::unique_ptr<MatmulKernel> make_blocked(const MatmulDesc& desc, Isa isa);
std::unique_ptr<MatmulKernel> make_onednn(const MatmulDesc& desc);
std::unique_ptr<MatmulKernel> make_plain(const MatmulDesc& desc);

}  // namespace plait::cpu
