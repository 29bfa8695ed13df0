// layer_norm, rms_norm and their gradients; the formulas are in plugins/support/plain/norm.cpp.
// X: the type of x and dx; Y: of y and dy. A row is read once and kept in registers.
//
// Gradients of gain and bias are sums over rows: each block adds up some of the rows in registers,
// a second kernel the blocks in order. How rows are cut follows from their number alone.
#include "plugins/devices/cuda/kernels/norm_rows_args.hpp"
#include "plugins/devices/cuda/kernels/row_groups.cuh"

namespace plait::cuda {
namespace {

// kPack channels from `i` of a gain or bias.
template <class X, int kPack>
__device__ __forceinline__ void channels(const void* from, bool wide, int i, float* to) {
  constexpr int kPart = kPack < 4 ? kPack : 4;
  if (wide) {
#pragma unroll
    for (int j = 0; j < kPack; j += kPart)
      load_pack<float, kPart>(static_cast<const float*>(from) + i + j, to + j);
  } else {
    load_pack<X, kPack>(static_cast<const X*>(from) + i, to);
  }
}

template <class X, class Y, int kThreads, int kPack>
__device__ __forceinline__ void norm(const NormRowsArgs& a) {
  using Rows = Group<kThreads>;
  using Row = Kept<kThreads, kPack>;
  const int64_t row = Rows::row();
  if (row >= a.rows) return;
  const int64_t mine = row * a.cols + Row::begin();
  Y* y = static_cast<Y*>(a.y) + mine;
  const float cols = static_cast<float>(a.cols);
  Pack<X, kPack> x[Row::kPacks];
  float v[Row::kPacks][kPack], sum = 0, mean = 0, squares = 0;
  Row::read(static_cast<const X*>(a.x) + mine, a.cols, x);
  Row::each(a.cols, [&](int p) {
    unpack<X, kPack>(x[p], v[p]);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += v[p][j];
  });
  if (a.mean) mean = Rows::sum(sum) / cols;
  Row::each(a.cols, [&](int p) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      v[p][j] -= mean;
      squares = fmaf(v[p][j], v[p][j], squares);
    }
  });
  const float rstd = 1 / sqrtf(Rows::sum(squares) / cols + a.eps);
  if (Rows::thread() == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  Row::each(a.cols, [&](int p) {
    float gain[kPack], bias[kPack];
    channels<X, kPack>(a.gain, a.wide, Row::begin() + p * Row::kStep, gain);
    if (a.bias) channels<X, kPack>(a.bias, a.wide, Row::begin() + p * Row::kStep, bias);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      v[p][j] = v[p][j] * rstd * gain[j];
      if (a.bias) v[p][j] += bias[j];
    }
    store_pack<Y, kPack>(y + p * Row::kStep, v[p]);
  });
}

// dx = rstd * (g - mean(g) - xh * mean(g * xh)) with g = dy * gain, xh = (x - mean) * rstd;
// rms_norm lacks mean(g). A thread has kEach channels, of kRows rows at a time, so that 128 bytes
// or more are under way; a block has kRowBlock / row_threads teams of threads, each with rows of
// its own.
template <class X, class Y, int kEach, int kPack>
struct NormGrad {
  static constexpr int kInFlight = 128 / (kEach * static_cast<int>(sizeof(X) + sizeof(Y))),
                       kRows = kInFlight > 1 ? kInFlight : 1, kPacks = kEach / kPack,
                       kWarps = kRowBlock / 32;
  struct Rows {  // of one thread
    Pack<X, kPack> x[kRows][kPacks];
    Pack<Y, kPack> dy[kRows][kPacks];
    float mean[kRows], rstd[kRows];
  };
  struct Sums {
    float g[kRows], gx[kRows];
  };

  const NormGradRowsArgs& a;
  const int team = static_cast<int>(threadIdx.x) / a.row_threads, teams = kRowBlock / a.row_threads,
            thread = static_cast<int>(threadIdx.x) % a.row_threads, begin = thread * kPack,
            step = a.row_threads * kPack;
  float gain[kPacks][kPack], dgain[kPacks][kPack], dbias[kPacks][kPack];

  // f(p) for the packs of channels that the thread has.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (begin + p * step < a.cols) f(p);
  }

  __device__ __forceinline__ void run() {
    each([&](int p) {
      channels<X, kPack>(a.gain, a.wide, begin + p * step, gain[p]);
#pragma unroll
      for (int j = 0; j < kPack; ++j) dgain[p][j] = dbias[p][j] = 0;
    });
    const int64_t last = a.rows * (blockIdx.x + 1) / a.parts;
    // All threads of the block take every turn.
    for (int64_t first = a.rows * blockIdx.x / a.parts; first < last; first += teams * kRows) {
      Rows rows;
      const int64_t mine = first + team * kRows;
      read(mine, last, rows);
      Sums sums = sum(mine, last, rows);
      over_team(sums);
      write(mine, last, rows, sums);
    }
    over_teams(dgain, a.sums + blockIdx.x * static_cast<int64_t>(a.mean ? 2 : 1) * a.cols);
    if (a.mean) over_teams(dbias, a.sums + (blockIdx.x * 2 + 1) * static_cast<int64_t>(a.cols));
  }

  __device__ __forceinline__ void read(int64_t row, int64_t last, Rows& to) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool here = row + r < last;
      const int64_t at = (row + r) * a.cols + begin;
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
        if (here && begin + p * step < a.cols) {
          to.x[r][p] = load_raw<X, kPack>(static_cast<const X*>(a.x) + at + p * step);
          to.dy[r][p] = load_raw<Y, kPack>(static_cast<const Y*>(a.dy) + at + p * step);
        }
      to.mean[r] = here && a.mean ? a.mean[row + r] : 0.0f;
      to.rstd[r] = here ? a.rstd[row + r] : 0.0f;
    }
  }
  __device__ __forceinline__ Sums sum(int64_t row, int64_t last, const Rows& of) {
    Sums s;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s.g[r] = s.gx[r] = 0;
      if (row + r >= last) continue;
      each([&](int p) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float dy = load(&of.dy[r][p].v[j]), g = dy * gain[p][j];
          const float xh = (load(&of.x[r][p].v[j]) - of.mean[r]) * of.rstd[r];
          s.g[r] += g;
          s.gx[r] = fmaf(g, xh, s.gx[r]);
          dgain[p][j] = fmaf(dy, xh, dgain[p][j]);
          dbias[p][j] += dy;
        }
      });
    }
    return s;
  }
  // The sums of the warps of the team, in order.
  __device__ __forceinline__ void over_team(Sums& s) const {
    __shared__ float of_warp[kWarps][2 * kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s.g[r] = over_warp<Sum>(s.g[r]);
      s.gx[r] = over_warp<Sum>(s.gx[r]);
    }
    if (a.row_threads == 32) return;
    __syncthreads();  // the turn before may still read
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        of_warp[threadIdx.x / 32][2 * r] = s.g[r];
        of_warp[threadIdx.x / 32][2 * r + 1] = s.gx[r];
      }
    __syncthreads();
    const int warps = a.row_threads / 32, warp = team * warps;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      s.g[r] = s.gx[r] = 0;
      for (int w = warp; w < warp + warps; ++w) {
        s.g[r] += of_warp[w][2 * r];
        s.gx[r] += of_warp[w][2 * r + 1];
      }
    }
  }
  __device__ __forceinline__ void write(int64_t row, int64_t last, const Rows& of,
                                        const Sums& s) const {
    const float cols = static_cast<float>(a.cols);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= last) continue;
      const float mean_g = a.mean ? s.g[r] / cols : 0.0f, mean_gx = s.gx[r] / cols;
      X* dx = static_cast<X*>(a.dx) + (row + r) * a.cols + begin;
      each([&](int p) {
        float d[kPack];
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float xh = (load(&of.x[r][p].v[j]) - of.mean[r]) * of.rstd[r];
          const float g = load(&of.dy[r][p].v[j]) * gain[p][j];
          d[j] = of.rstd[r] * fmaf(-xh, mean_gx, g - mean_g);
        }
        store_pack<X, kPack>(dx + p * step, d);
      });
    }
  }
  // The sums of the teams, in order: cols numbers.
  __device__ __forceinline__ void over_teams(const float (&v)[kPacks][kPack], float* to) const {
    __shared__ float of_team[kRowBlock * kEach];
    float* mine = of_team + threadIdx.x * kEach;
    __syncthreads();
    each([&](int p) {
#pragma unroll
      for (int j = 0; j < kPack; ++j) mine[p * kPack + j] = v[p][j];
    });
    __syncthreads();
    if (team != 0) return;
    each([&](int p) {
      for (int j = 0; j < kPack; ++j) {
        float sum = 0;
        for (int t = 0; t < teams; ++t) sum += mine[t * a.row_threads * kEach + p * kPack + j];
        to[begin + p * step + j] = sum;
      }
    });
  }
};

// A block adds 32 channels, which lie side by side; each of its warps has every eighth part.
template <class T>
__device__ __forceinline__ void norm_sums(const NormSumsArgs& a) {
  constexpr int kWarps = kRowBlock / 32;
  __shared__ float of_warp[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int width = a.dbias ? 2 * a.cols : a.cols;
  const int at = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (at < width) {
#pragma unroll 8
    for (int64_t p = warp; p < a.parts; p += kWarps) sum += a.sums[p * width + at];
  }
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || at >= width) return;
  for (int w = 1; w < kWarps; ++w) sum += of_warp[w][lane];
  if (at < a.cols)
    store(static_cast<T*>(a.dgain) + at, sum);
  else
    store(static_cast<T*>(a.dbias) + at - a.cols, sum);
}

}  // namespace

// _single: short rows that packs of 16 bytes do not divide. Longer ones, and their gradients, have
// no kernel here: code for them would be half of this module.
#define PLAIT_NORM_ROWS(types, X, Y, pack)                                                       \
  PLAIT_GLOBAL(norm_rows_warp_##types, NormRowsArgs, kRowBlock) { norm<X, Y, 32, pack>(a); }     \
  PLAIT_GLOBAL(norm_rows_warp_single_##types, NormRowsArgs, kRowBlock) { norm<X, Y, 32, 1>(a); } \
  PLAIT_GLOBAL(norm_rows_block_##types, NormRowsArgs, kRowBlock) {                               \
    norm<X, Y, kRowBlock, pack>(a);                                                              \
  }                                                                                              \
  PLAIT_GLOBAL(norm_grad_rows_8_##types, NormGradRowsArgs, kRowBlock) {                          \
    NormGrad<X, Y, 8, pack>{a}.run();                                                            \
  }                                                                                              \
  PLAIT_GLOBAL(norm_grad_rows_16_##types, NormGradRowsArgs, kRowBlock) {                         \
    NormGrad<X, Y, 16, pack>{a}.run();                                                           \
  }                                                                                              \
  PLAIT_GLOBAL(norm_grad_rows_32_##types, NormGradRowsArgs, kRowBlock) {                         \
    NormGrad<X, Y, 32, pack>{a}.run();                                                           \
  }
PLAIT_NORM_ROWS(f32, float, float, 4)
PLAIT_NORM_ROWS(bf16, bf16, bf16, 8)
PLAIT_NORM_ROWS(f16, f16, f16, 8)
PLAIT_NORM_ROWS(f32_bf16, float, bf16, 4)
PLAIT_NORM_ROWS(f32_f16, float, f16, 4)
#undef PLAIT_NORM_ROWS

PLAIT_GLOBAL(norm_sums_rows_f32, NormSumsArgs, kRowBlock) { norm_sums<float>(a); }
PLAIT_GLOBAL(norm_sums_rows_bf16, NormSumsArgs, kRowBlock) { norm_sums<bf16>(a); }
PLAIT_GLOBAL(norm_sums_rows_f16, NormSumsArgs, kRowBlock) { norm_sums<f16>(a); }

}  // namespace plait::cuda
