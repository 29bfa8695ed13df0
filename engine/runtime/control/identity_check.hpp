// Whether all ranks have the same identity, and where they differ: digests travel first, keys only of the sections whose digests
// differ, in messages of a bounded size. So an experiment may be of any length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/control/wire.hpp"

namespace plait::runtime::control {

using Identity = std::vector<std::pair<std::string, std::string>>;
using IdentityKeys = std::map<std::string, std::string>;

// A key belongs to a section by its name.
constexpr size_t kSections = 64;
using SectionDigests = std::array<uint64_t, kSections>;
SectionDigests digests_of(const Identity& identity);
// Bit s: section s differs.
uint64_t differing_sections(const SectionDigests& a, const SectionDigests& b);

// The keys of those sections as kKeys messages, an empty one behind them. Of a long text only the beginning travels, with size and
// hash of the whole.
std::string encode_keys(const Identity& identity, uint64_t sections);
// Adds the keys of such a message; returns whether it ends them. Errors: PLAIT_ERR_DATA.
bool add_keys(const Frame& frame, IdentityKeys& to);

// What of those sections differs, a line each, as `name` on `host` has it: "\n  rank 1 on node has key 2, rank 0 has 1".
std::string differences(const std::string& name, const std::string& host, uint64_t sections,
                        const IdentityKeys& own, const IdentityKeys& of_rank_0);

}  // namespace plait::runtime::control
