#include "plugins/devices/cpu/matmul/pack.hpp"

namespace plait::cpu {

PackFunctions pack_functions(Isa isa) {
  return isa == Isa::avx512 ? pack_functions_avx512() : pack_functions_avx2();
}

}  // namespace plait::cpu
