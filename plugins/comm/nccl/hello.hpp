// How the members of a group meet before NCCL connects them: each says on which GPU and with which
// version it is, and rank 0 answers all of them with NCCL's id, or with what is wrong.
#pragma once

#include <nccl.h>

#include <plait/plugin.hpp>
#include <string>

#include "plugins/comm/members.hpp"

namespace plait::comm_nccl {

struct Hello {
  int version = 0;      // of NCCL
  std::string gpu;      // its UUID, in hexadecimal digits
  bool shares = false;  // NCCL_MULTI_RANK_GPU_ENABLE=1: several ranks on one GPU, since NCCL 2.30
};

// The id for the group's communicator. make_id is called on rank 0.
// Errors: PLAIT_ERR_PEER when members are missing; PLAIT_ERR_CONFIG, with the same text on all
// members, when they have different versions of NCCL or share a GPU. [blocks: yes]
template <class MakeId>
ncclUniqueId meet(const comm_support::Members& who, const Store& store, const Hello& own,
                  MakeId&& make_id);

std::string packed(const Hello& hello);
Hello unpacked(const std::string& text);
// What is wrong with the members, "" if nothing.
std::string fault(const comm_support::Members& who, const std::vector<Hello>& all);

template <class MakeId>
ncclUniqueId meet(const comm_support::Members& who, const Store& store, const Hello& own,
                  MakeId&& make_id) {
  const auto missed = [&](uint32_t rank) {
    return who.head() + " did not connect; missing: " + who.names[rank] +
           "; check that it is running";
  };
  ncclUniqueId id{};
  std::string answer;
  if (who.rank == 0) {
    std::vector<Hello> all = {own};
    for (uint32_t r = 1; r < who.size; ++r)
      all.push_back(unpacked(store.get("nccl.hello." + std::to_string(r), missed(r))));
    answer = fault(who, all);
    if (answer.empty()) {
      id = make_id();
      if (who.size > 1) store.set("nccl.id", {id.internal, sizeof id.internal});
      return id;
    }
    if (who.size > 1) store.set("nccl.id", answer);
  } else {
    store.set("nccl.hello." + std::to_string(who.rank), packed(own));
    answer = store.get<4096>("nccl.id", missed(0));
    if (answer.size() == sizeof id.internal && !answer.starts_with("[nccl]")) {
      answer.copy(id.internal, sizeof id.internal);
      return id;
    }
  }
  fail(PLAIT_ERR_CONFIG, answer);
}

}  // namespace plait::comm_nccl
