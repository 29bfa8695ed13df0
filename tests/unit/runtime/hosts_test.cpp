#include "engine/runtime/hosts.hpp"

#include <doctest/doctest.h>

#include "engine/runtime/hierarchical.hpp"

namespace {

using plait::runtime::Hosts;
using plait::runtime::needs_flat_group;
using Texts = std::vector<std::string>;
using Members = std::vector<std::vector<uint32_t>>;

}  // namespace

TEST_CASE("members by host, in the order of the group") {
  const Hosts blocks(Texts{"b", "b", "a", "a"});
  CHECK(blocks.members() == Members{{0, 1}, {2, 3}});
  CHECK(blocks.even());
  CHECK(blocks.all_consecutive());
  CHECK(blocks.name(0) == "b");
  CHECK(blocks.host_of(3) == 1);
  CHECK(blocks.local_index_of(3) == 1);

  const Hosts stripes(Texts{"a", "b", "a", "b"});
  CHECK(stripes.members() == Members{{0, 2}, {1, 3}});
  CHECK(stripes.even());
  CHECK(!stripes.consecutive(0));

  const Hosts uneven(Texts{"a", "b", "a", "a"});
  CHECK(uneven.members() == Members{{0, 2, 3}, {1}});
  CHECK(!uneven.even());
  CHECK(!uneven.consecutive(0));
  CHECK(uneven.consecutive(1));
  CHECK(uneven.count() == 2);
  CHECK(uneven.size() == 4);
}

TEST_CASE("calls that need the flat group") {
  CHECK(needs_flat_group(PLAIT_COMM_SEND, PLAIT_F32, 0));
  CHECK(needs_flat_group(PLAIT_COMM_ALL_TO_ALL, PLAIT_F32, 0));
  CHECK(needs_flat_group(PLAIT_COMM_ALL_REDUCE, PLAIT_BF16, PLAIT_COMM_SUM));
  CHECK(!needs_flat_group(PLAIT_COMM_ALL_REDUCE, PLAIT_BF16, PLAIT_COMM_MAX));
  CHECK(!needs_flat_group(PLAIT_COMM_REDUCE_SCATTER, PLAIT_F32, PLAIT_COMM_SUM));
  CHECK(!needs_flat_group(PLAIT_COMM_BARRIER, 0, 0));
}
