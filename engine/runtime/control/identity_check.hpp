// Checks that all ranks have the same identity, and finds the differences: digests are sent first,
// then the keys of the sections whose digests differ, in messages of bounded size. So an experiment
// may have any length.
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

// A key is assigned to a section by its name.
constexpr size_t kSections = 64;
using SectionDigests = std::array<uint64_t, kSections>;
SectionDigests digests_of(const Identity& identity);
// Bit s: section s differs.
uint64_t differing_sections(const SectionDigests& a, const SectionDigests& b);

// The keys of those sections as kKeys messages, ended by an empty one. Of a long text only the
// beginning is sent, with size and hash of the whole.
std::string encode_keys(const Identity& identity, uint64_t sections);
// Adds the keys of such a message; returns true for the last one. Errors: PLAIT_ERR_DATA.
bool add_keys(const Frame& frame, IdentityKeys& to);

// The differences in those sections, one per line, for `name` on `host`: "\n  rank 1 on node has
// key 2, rank 0 has 1".
std::string differences(const std::string& name, const std::string& host, uint64_t sections,
                        const IdentityKeys& own, const IdentityKeys& of_rank_0);

}  // namespace plait::runtime::control
