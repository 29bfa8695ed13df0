// The instruction sets for which the vectorised kernels are compiled. Include it before
// hwy/foreach_target.h, and no other Highway header before this one.
#pragma once

// Targets too similar to their neighbours to be worth their code size.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
