#include "tests/reader_work/block_counter.hpp"

namespace {
thread_local uint64_t executed = 0;
}

uint64_t reader_work::blocks() noexcept { return executed; }

// The compiler's name. NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void __sanitizer_cov_trace_pc() { ++executed; }
