// All of a tensor, as a stream gives it.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/checkpoint/tensor_stream.hpp"

// Of 4-byte elements, piece by piece; checks that each piece begins where the one before has ended.
inline std::vector<int32_t> streamed(const plait::checkpoint::Checkpoint& from,
                                     const std::string& name) {
  plait::checkpoint::TensorStream stream(from, *from.find(name));
  std::vector<int32_t> all;
  for (auto piece = stream.next(); !piece.empty(); piece = stream.next()) {
    CHECK(stream.position() == static_cast<int64_t>(all.size()));
    const size_t n = piece.size() / sizeof(int32_t);
    all.resize(all.size() + n);
    std::memcpy(all.data() + all.size() - n, piece.data(), piece.size());
  }
  return all;
}
