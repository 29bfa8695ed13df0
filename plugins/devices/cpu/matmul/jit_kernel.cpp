#include "plugins/devices/cpu/matmul/jit_kernel.hpp"

#define XBYAK_NO_OP_NAMES
#include <xbyak/xbyak.h>
#include <xbyak/xbyak_util.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/devices/cpu/matmul/isa.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int kBodyInstructions =
    400;  // per iteration of the k loop: a large part of the cache of decoded code
constexpr int64_t kPrefetchAhead = 2048;
constexpr int64_t kLine = 64;

}  // namespace

class JitCode::Generator : public Xbyak::CodeGenerator {
 public:
  Generator() : CodeGenerator(4096, Xbyak::AutoGrow) {}

  // Emits one function and returns its offset.
  size_t emit(const KernelSpec& spec) {
    align(64);
    const size_t offset = getSize();
    spec_ = &spec;
    Xbyak::util::StackFrame frame(this, 1, 11, 0, false);
    p_ = frame.t[0];
    q_ = frame.t[1];
    d_ = frame.t[2];
    bias_ = frame.t[3];
    tiles_ = frame.t[4];
    p_now_ = frame.t[5];
    q_now_ = frame.t[6];
    count_ = frame.t[7];
    d_prefetch_ = frame.t[8];
    squares_ = frame.t[9];
    prefetch_address_ = frame.t[10];
    const Xbyak::Reg64& args = frame.p[0];
    mov(p_, ptr[args + offsetof(PanelArgs, p)]);
    mov(q_, ptr[args + offsetof(PanelArgs, q)]);
    mov(d_, ptr[args + offsetof(PanelArgs, d)]);
    if (spec.bias) mov(bias_, ptr[args + offsetof(PanelArgs, bias)]);
    if (spec.squares) mov(squares_, ptr[args + offsetof(PanelArgs, squares)]);
    if (spec.prefetch_rows > 0) mov(prefetch_address_, ptr[args + offsetof(PanelArgs, prefetch)]);
    load_mask();
    if (spec.rows_hi > spec.rows_lo) {
      mov(tiles_, ptr[args + offsetof(PanelArgs, tiles_hi)]);
      tiles(spec.rows_hi);
    }
    mov(tiles_, ptr[args + offsetof(PanelArgs, tiles_lo)]);
    tiles(spec.rows_lo);
    vzeroupper();
    frame.close();
    return offset;
  }

  PanelFunction at(size_t offset) const {
    return reinterpret_cast<PanelFunction>(reinterpret_cast<uintptr_t>(getCode() + offset));
  }

 private:
  // Registers: accumulators first, then the vectors of Q, then broadcasts of P; AVX2 keeps its mask
  // in the last one.
  Xbyak::Xmm vector(int index) const {
    return {spec_->isa == Isa::avx512 ? Xbyak::Operand::ZMM : Xbyak::Operand::YMM, index};
  }
  Xbyak::Xmm sum(int row, int vec) const { return vector(row * spec_->vecs + vec); }
  Xbyak::Xmm mask_vector() const { return vector(15); }
  int vector_bytes() const { return lanes_of(spec_->isa) * static_cast<int>(kFloat); }
  bool masked(bool wanted, int vec) const { return wanted && vec == spec_->vecs - 1; }
  bool masks_squares() const { return spec_->squares && spec_->last_lanes < lanes_of(spec_->isa); }

  void load_mask() {
    if (!spec_->mask_q && !spec_->mask_d && !masks_squares()) return;
    if (spec_->isa == Isa::avx512) {
      mov(count_.cvt32(), (1 << spec_->last_lanes) - 1);
      kmovw(k1, count_.cvt32());
      return;
    }
    static constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    mov(count_, reinterpret_cast<uintptr_t>(kMasks + 8 - spec_->last_lanes));
    vmovups(mask_vector(), ptr[count_]);
  }

  void tiles(int rows) {
    Xbyak::Label next;
    Xbyak::Label done;
    test(tiles_, tiles_);
    jz(done, T_NEAR);
    align(32);
    L(next);
    clear_sums(rows);
    k_loop(rows);
    finish(rows);
    if (spec_->squares) sum_squares(rows);
    add(p_, static_cast<uint32_t>(spec_->p_tile != 0 ? spec_->p_tile : rows * spec_->p_row));
    add(d_, static_cast<uint32_t>(rows * spec_->d_row));
    if (spec_->bias && spec_->bias_per_row) add(bias_, static_cast<uint32_t>(rows * kFloat));
    dec(tiles_);
    jnz(next, T_NEAR);
    L(done);
  }

  // Prefetches one row of the next tile of D per iteration of the k loop, into the second-level
  // cache: rows of D a power of two apart would evict each other from the first.
  void prefetch_d_row() {
    for (int vec = 0; vec < spec_->vecs; ++vec) prefetcht1(ptr[d_prefetch_ + vec * vector_bytes()]);
    add(d_prefetch_, static_cast<uint32_t>(spec_->d_row));
  }

  bool prefetches_next(int64_t iterations) const {
    return spec_->prefetch_rows > 0 && iterations > 1;
  }
  // Rows are long: each iteration prefetches a piece of every row of the tile. Otherwise it
  // prefetches whole rows.
  bool splits_rows(int64_t iterations) const {
    return spec_->prefetch_row_bytes >= kLine * iterations / 2;
  }

  // Distance in bytes between the pieces of consecutive iterations.
  int64_t prefetch_step_bytes(int64_t iterations) const {
    return splits_rows(iterations) ? spec_->prefetch_row_bytes / iterations
                                   : whole_rows(iterations) * spec_->prefetch_stride;
  }
  int64_t whole_rows(int64_t iterations) const {
    return (spec_->prefetch_rows + iterations - 1) / iterations;
  }

  // Prefetches an iteration's piece of the data to be packed next, into the second-level cache.
  // Spread over the products this costs almost nothing; packing itself would wait for every line.
  void prefetch_next(int64_t iterations) {
    const int64_t rows = splits_rows(iterations) ? spec_->prefetch_rows : whole_rows(iterations),
                  bytes = splits_rows(iterations) ? prefetch_step_bytes(iterations)
                                                  : spec_->prefetch_row_bytes;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t at = 0; at < bytes; at += kLine)
        prefetcht1(ptr[prefetch_address_ + static_cast<int>(i * spec_->prefetch_stride + at)]);
    add(prefetch_address_, static_cast<uint32_t>(prefetch_step_bytes(iterations)));
  }

  // Moves to the start of the next tile's rows, forwards or backwards.
  void advance_prefetch(int64_t iterations) {
    const int64_t done = prefetch_step_bytes(iterations) * iterations;
    add(prefetch_address_,
        static_cast<uint32_t>(spec_->prefetch_rows * spec_->prefetch_stride - done));
  }

  void clear_sums(int rows) {
    for (int i = 0; i < rows * spec_->vecs; ++i) clear(vector(i));
  }

  void clear(const Xbyak::Xmm& reg) {
    if (spec_->isa == Isa::avx512) {
      vpxord(reg, reg, reg);
    } else {
      vxorps(reg, reg, reg);
    }
  }

  void k_loop(int rows) {
    const int step_instructions = rows * spec_->vecs + rows + spec_->vecs;
    int64_t unroll = std::clamp(kBodyInstructions / step_instructions, 2, 32);
    if (spec_->k <= unroll + unroll / 2) unroll = spec_->k;
    const int64_t iterations = spec_->k / unroll;
    mov(p_now_, p_);
    mov(q_now_, q_);
    if (spec_->prefetch) lea(d_prefetch_, ptr[d_ + static_cast<int>(rows * spec_->d_row)]);
    if (iterations > 1) {
      Xbyak::Label next;
      mov(count_, iterations);
      align(32);
      L(next);
      if (spec_->prefetch) prefetch_d_row();
      if (prefetches_next(iterations)) prefetch_next(iterations);
      for (int64_t i = 0; i < unroll; ++i) k_step(rows, i);
      add(p_now_, static_cast<uint32_t>(unroll * spec_->p_k));
      add(q_now_, static_cast<uint32_t>(unroll * spec_->q_k));
      dec(count_);
      jnz(next, T_NEAR);
    }
    if (prefetches_next(iterations)) advance_prefetch(iterations);
    const int64_t rest = iterations > 1 ? spec_->k % unroll : spec_->k;
    for (int64_t i = 0; i < rest; ++i) k_step(rows, i);
  }

  void k_step(int rows, int64_t k) {
    const int vecs = spec_->vecs;
    const int q_first = rows * vecs;
    const int spare_first = q_first + vecs;
    const int limit = registers_of(spec_->isa) - (spec_->isa == Isa::avx512 ? 0 : 1);
    const int spares = std::min(limit - spare_first, 4);
    for (int vec = 0; vec < vecs; ++vec) {
      load(vector(q_first + vec), q_now_, k * spec_->q_k + vec * vector_bytes(),
           masked(spec_->mask_q, vec));
    }
    if (spec_->prefetch) {
      prefetcht0(ptr[p_now_ + static_cast<int>(k * spec_->p_k + kPrefetchAhead)]);
    }
    for (int row = 0; row < rows; ++row) {
      const Xbyak::Xmm spare = vector(spare_first + row % spares);
      vbroadcastss(spare, ptr[p_now_ + static_cast<int>(row * spec_->p_row + k * spec_->p_k)]);
      for (int vec = 0; vec < vecs; ++vec) {
        if (spec_->pairs)
          vdpbf16ps(sum(row, vec), spare, vector(q_first + vec));
        else
          vfmadd231ps(sum(row, vec), spare, vector(q_first + vec));
      }
    }
  }

  void load(const Xbyak::Xmm& to, const Xbyak::Reg64& base, int64_t offset, bool mask) {
    const Xbyak::Address address = ptr[base + static_cast<int>(offset)];
    if (!mask) {
      vmovups(to, address);
    } else if (spec_->isa == Isa::avx512) {
      vmovups(to | k1 | T_z, address);
    } else {
      vmaskmovps(to, mask_vector(), address);
    }
  }

  // Adds the sums of earlier blocks and the bias, applies relu, stores.
  void finish(int rows) {
    const int vecs = spec_->vecs;
    const Xbyak::Xmm work = vector(rows * vecs);
    const Xbyak::Xmm zero = vector(rows * vecs + 1);  // the first broadcast register if vecs is 1
    if (spec_->relu) clear(zero);
    for (int row = 0; row < rows; ++row) {
      if (spec_->bias && spec_->bias_per_row) {
        vbroadcastss(work, ptr[bias_ + static_cast<int>(row * kFloat)]);
        for (int vec = 0; vec < vecs; ++vec) vaddps(sum(row, vec), sum(row, vec), work);
      }
      for (int vec = 0; vec < vecs; ++vec) {
        const Xbyak::Xmm value = sum(row, vec);
        const int64_t offset = row * spec_->d_row + vec * vector_bytes();
        const bool mask = masked(spec_->mask_d, vec);
        if (spec_->add) {
          load(work, d_, offset, mask);
          vaddps(value, value, work);
        }
        if (spec_->bias && !spec_->bias_per_row) {
          load(work, bias_, vec * vector_bytes(), mask);
          vaddps(value, value, work);
        }
        // The instruction returns its second source if one operand is NaN, so NaN propagates.
        if (spec_->relu) vmaxps(value, zero, value);
        store(value, offset, mask);
      }
    }
  }

  // The sums have been stored, so their registers are free: row 0 accumulates the squares of its
  // column of vectors.
  void sum_squares(int rows) {
    const int last = spec_->vecs - 1;
    for (int vec = 0; vec < spec_->vecs; ++vec) {
      vmulps(sum(0, vec), sum(0, vec), sum(0, vec));
      for (int row = 1; row < rows; ++row) vfmadd231ps(sum(0, vec), sum(row, vec), sum(row, vec));
    }
    if (masks_squares()) {  // lanes beyond the panel are undefined
      if (spec_->isa == Isa::avx512)
        vmovaps(sum(0, last) | k1 | T_z, sum(0, last));
      else
        vandps(sum(0, last), sum(0, last), mask_vector());
    }
    for (int vec = 1; vec <= last; ++vec) vaddps(sum(0, 0), sum(0, 0), sum(0, vec));
    vmovups(ptr[squares_], sum(0, 0));
    add(squares_, vector_bytes());
  }

  void store(const Xbyak::Xmm& from, int64_t offset, bool mask) {
    const Xbyak::Address address = ptr[d_ + static_cast<int>(offset)];
    if (!mask) {
      vmovups(address, from);
    } else if (spec_->isa == Isa::avx512) {
      vmovups(address | k1, from);
    } else {
      vmaskmovps(address, mask_vector(), from);
    }
  }

  const KernelSpec* spec_ = nullptr;
  Xbyak::Reg64 p_, q_, d_, bias_, tiles_, p_now_, q_now_, count_, d_prefetch_, squares_,
      prefetch_address_;
};

JitCode::JitCode(const std::vector<KernelSpec>& specs) try
    : generator_(std::make_unique<Generator>()) {
  std::vector<std::pair<KernelSpec, size_t>> emitted;
  std::vector<size_t> offsets;
  for (const KernelSpec& spec : specs) {
    const auto found = std::find_if(emitted.begin(), emitted.end(),
                                    [&spec](const auto& entry) { return entry.first == spec; });
    offsets.push_back(found != emitted.end() ? found->second : generator_->emit(spec));
    if (found == emitted.end()) emitted.emplace_back(spec, offsets.back());
  }
  generator_->ready(Xbyak::CodeArray::PROTECT_RE);
  for (const size_t offset : offsets) functions_.push_back(generator_->at(offset));
} catch (const Xbyak::Error& error) {
  throw std::runtime_error(std::string("[matmul] generating code failed: ") + error.what() +
                           "; let the process map executable memory, or limit it to plain kernels");
}

JitCode::~JitCode() = default;

}  // namespace plait::cpu
