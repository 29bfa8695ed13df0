#include "plugins/devices/cpu/half/block_products.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "plugins/devices/cpu/matmul/isa.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plait::cpu {
namespace {

void nothing() {}

float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

void multiply_widened(const Block16& a, const Block16& b, const Block32& c, int64_t rows,
                      int64_t columns, int64_t depth, bool add) {
  for (int64_t i = 0; i < rows; ++i) {
    float* to = c.at + i * c.row;
    if (!add) std::memset(to, 0, static_cast<size_t>(columns) * sizeof(float));
    for (int64_t k = 0; k < depth; ++k) {
      const float factor = widened(a.at[i * a.row + k]);
      const uint16_t* from = b.at + k / 2 * b.row + k % 2;
      for (int64_t j = 0; j < columns; ++j) to[j] += factor * widened(from[2 * j]);
    }
  }
}

#if defined(__x86_64__)

#define PLAIT_DOT [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#define PLAIT_TILES [[gnu::target("avx512f,amx-tile,amx-bf16")]]

PLAIT_DOT inline __m512bh pairs_of(const uint16_t* at) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(at));
}

// Eight rows and two vectors of columns. Named sums: an array of them would go through memory in
// unoptimised builds only, but its loops must be unrolled in all.
PLAIT_DOT void dot_tile(const uint16_t* a, int64_t a_row, const uint16_t* b, int64_t b_row,
                        float* c, int64_t c_row, int64_t depth, bool add) {
#define PLAIT_EACH_ROW(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define PLAIT_START(i)                                                      \
  __m512 x##i = add ? _mm512_loadu_ps(c + (i)*c_row) : _mm512_setzero_ps(), \
         y##i = add ? _mm512_loadu_ps(c + (i)*c_row + 16) : _mm512_setzero_ps();
#define PLAIT_ADD(i)                                                    \
  {                                                                     \
    int32_t pair;                                                       \
    std::memcpy(&pair, a + (i)*a_row + k, sizeof pair);                 \
    const auto f = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)); \
    x##i = _mm512_dpbf16_ps(x##i, f, b0);                               \
    y##i = _mm512_dpbf16_ps(y##i, f, b1);                               \
  }
#define PLAIT_STORE(i)                   \
  _mm512_storeu_ps(c + (i)*c_row, x##i); \
  _mm512_storeu_ps(c + (i)*c_row + 16, y##i);
  PLAIT_EACH_ROW(PLAIT_START)
  for (int64_t k = 0; k < depth; k += 2, b += b_row) {
    const __m512bh b0 = pairs_of(b), b1 = pairs_of(b + 32);
    PLAIT_EACH_ROW(PLAIT_ADD)
  }
  PLAIT_EACH_ROW(PLAIT_STORE)
#undef PLAIT_EACH_ROW
#undef PLAIT_START
#undef PLAIT_ADD
#undef PLAIT_STORE
}

void multiply_dot(const Block16& a, const Block16& b, const Block32& c, int64_t rows,
                  int64_t columns, int64_t depth, bool add) {
  for (int64_t j = 0; j < columns; j += 32)
    for (int64_t i = 0; i < rows; i += 8)
      dot_tile(a.at + i * a.row, a.row, b.at + 2 * j, b.row, c.at + i * c.row + j, c.row, depth,
               add);
}

// Palette 1: all eight tiles have 16 rows of 64 bytes. A constant, because some compilers do not
// know how many bytes the instruction reads, and leave out what fills a local one.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);
constexpr TileConfiguration kTiles;

PLAIT_TILES void begin_tiles() { _tile_loadconfig(&kTiles); }
PLAIT_TILES void end_tiles() { _tile_release(); }

// Sixteen or, with kTwo, thirty-two rows and thirty-two columns.
template <bool kTwo>
PLAIT_TILES void multiply_tiles(const uint16_t* a, int64_t a_row, const uint16_t* b, int64_t b_row,
                                float* c, int64_t c_row, int64_t depth, bool add) {
  const int64_t a_step = 2 * a_row, b_step = 2 * b_row, c_step = 4 * c_row;  // bytes
  float* below = c + 16 * c_row;
  if (add) {
    _tile_loadd(0, c, c_step);
    _tile_loadd(1, c + 16, c_step);
    if constexpr (kTwo) {
      _tile_loadd(2, below, c_step);
      _tile_loadd(3, below + 16, c_step);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTwo) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  for (int64_t k = 0; k < depth; k += 32, a += 32, b += 16 * b_row) {
    _tile_loadd(4, a, a_step);
    _tile_loadd(6, b, b_step);
    _tile_loadd(7, b + 32, b_step);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, a + 16 * a_row, a_step);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_step);
  _tile_stored(1, c + 16, c_step);
  if constexpr (kTwo) {
    _tile_stored(2, below, c_step);
    _tile_stored(3, below + 16, c_step);
  }
}

void multiply_amx(const Block16& a, const Block16& b, const Block32& c, int64_t rows,
                  int64_t columns, int64_t depth, bool add) {
  for (int64_t j = 0; j < columns; j += 32) {
    int64_t i = 0;
    for (; i + 32 <= rows; i += 32)
      multiply_tiles<true>(a.at + i * a.row, a.row, b.at + 2 * j, b.row, c.at + i * c.row + j,
                           c.row, depth, add);
    if (i < rows)
      multiply_tiles<false>(a.at + i * a.row, a.row, b.at + 2 * j, b.row, c.at + i * c.row + j,
                            c.row, depth, add);
  }
}

// Linux lets a process use tiles only after it asked for their state.
bool tiles_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif  // __x86_64__

struct Found {
  BlockProducts all[4];
  BlockProducts best;
};

const Found& found() {
  static const Found result = [] {
    Found f;
    int n = 0;
#if defined(__x86_64__)
    const BlockInstructions has = block_instructions();
    if (has.tiles && tiles_granted())
      f.all[n++] = {multiply_amx, begin_tiles, end_tiles, "AMX", true};
    if (has.dots) f.all[n++] = {multiply_dot, nothing, nothing, "AVX512_BF16"};
#endif
    f.all[n] = {multiply_widened, nothing, nothing, "bf16 products emulated in f32"};
    if (has_bf16_products()) f.best = f.all[0];
    return f;
  }();
  return result;
}

}  // namespace

const BlockProducts& block_products() { return found().best; }
const BlockProducts* all_block_products() { return found().all; }

}  // namespace plait::cpu
