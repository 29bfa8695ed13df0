// Reads and writes what a rank holds of a parameter or of a state, with the type that it has for
// hosts and files. A split parameter (plan/halves.hpp) is joined and split on the way, a piece at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/plan/layout.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// At most so many elements of the block as a piece that can be read or written: whole rows of a
// quantized one, at least one of them.
int64_t piece_elements(const plan::LocalBlock& block, int64_t most);

// Elements [first, first + n) of a block, ordered with launches as Executor::read and write are:
// the first waits, the second may borrow `from` until the queue is empty.
void read_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                int64_t n, void* to);
void write_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                 int64_t n, const void* from);

// All of a block, in pieces; each is valid until the next call. Empty at the end, and from then on
// from the beginning again.
std::function<std::span<const std::byte>()> pieces_of(runtime::Executor& executor,
                                                      const plan::LocalBlock& block);

}  // namespace plait::session
