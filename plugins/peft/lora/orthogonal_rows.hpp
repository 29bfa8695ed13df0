// The op peft-lora.orthogonal_rows: x (m,n) → y (m,n) = uᵀ·x, whose rows are orthogonal, the
// longest first, and u (m,m), which is orthogonal. The lengths of the rows of y are x's
// singular values, its rows and the columns of u the singular vectors. f32 and f64; computed in
// f64 by one-sided Jacobi rotations (Hestenes 1958) on the host, for initial values alone. It
// has no gradient.
#pragma once

#include <plait/plugin.hpp>

namespace plait::orthogonal_rows {

constexpr const char* kOp = "peft-lora.orthogonal_rows";

void add(const Host& host);

}  // namespace plait::orthogonal_rows
