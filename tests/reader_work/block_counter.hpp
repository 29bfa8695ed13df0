// Counts the basic blocks that instrumented code executes (-fsanitize-coverage=trace-pc).
#pragma once

#include <cstdint>

namespace reader_work {

// Executed by this thread so far.
uint64_t blocks() noexcept;

}  // namespace reader_work
