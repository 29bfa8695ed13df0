// The instruction sets that the vectorised kernels are compiled for. Include before hwy/foreach_target.h, and nothing of Highway
// before this.
#pragma once

// Too close to their neighbours to pay for their code.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
