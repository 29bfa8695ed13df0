// A backend that refuses one rank: no rank uses it.
#include <plait/comm.h>

#include <algorithm>

#include "engine/base/text.hpp"
#include "engine/runtime/backend_needs.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

thread_local bool refuses = false;      // this rank
thread_local plait_comm_needs asked{};  // and what it was last asked for

plait_error* probe(const plait_host* host, const plait_options*, const plait_comm_needs* needs) {
  asked = *needs;
  const std::string text = "[narrow] this machine has no room";
  return refuses ? host->error_new(PLAIT_ERR_MEMORY, text.data(), text.size(), nullptr) : nullptr;
}

// Nothing else of it may be called.
plait_error* open(const plait_host* host, const plait_options*, const plait_comm_setup*,
                  plait_comm**) {
  const std::string text = "[narrow] was opened";
  return host->error_new(PLAIT_ERR_INTERNAL, text.data(), text.size(), nullptr);
}

plait_comm_item narrow() {
  plait_comm_item item{};
  item.struct_size = sizeof item;
  item.name = "narrow";  // before "threads", which reaches as far
  item.help = "";
  item.reach = PLAIT_COMM_REACH_PROCESS;
  item.open = open;
  item.close = [](plait_comm*) {};
  item.prepare = [](plait_comm*, const plait_comm_desc*, plait_comm_call**) -> plait_error* {
    return nullptr;
  };
  item.release = [](plait_comm_call*) {};
  item.start = item.finish = [](plait_comm_call*, plait_queue*) -> plait_error* { return nullptr; };
  item.abort = [](plait_comm*, const char*, uint64_t) {};
  item.probe = probe;
  return item;
}

// Each rank opens it.
plait_error* open_plugin(const plait_host* host, const char*, void** state) {
  static const plait_comm_item item = narrow();
  *state = nullptr;
  return host->add(host, PLAIT_KIND_COMM, &item);
}

constexpr plait_plugin kPlugin{sizeof kPlugin, PLAIT_ABI_VERSION, 0,           "narrow",    "1.0.0",
                               "Apache-2.0",   "refuses",         open_plugin, [](void*) {}};

struct Attempt {
  Error error{PLAIT_OK, ""};
  std::vector<std::string> lines;   // of the log
  plait_comm_needs asked{}, own{};  // for the ranks of the machine, and for this one
};

// Two ranks, of which the second is refused, train one step.
std::vector<Attempt> attempt(const std::string& backend) {
  extra_plugin = &kPlugin;
  HookedFiles files;
  const Folder rendezvous;
  std::vector<Attempt> attempts(2);
  on_threads(2, [&](int rank) {
    refuses = rank == 1;
    session::Settings s;
    s.no_files = true;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = 2;
    s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    Attempt& own = attempts[static_cast<size_t>(rank)];
    Log log([](uint32_t, std::string_view) {});
    const std::vector<std::string> keys = {"topology.data=2", "topology.backend=" + backend};
    const std::vector<runtime::Peer> peers(2, runtime::Peer{"", "here", ""});
    own.own =
        runtime::backend_needs(*make_plan(keys, files, rank, 2, log), peers, true, {}).at("narrow");
    asked = {};
    own.error = error_of([&] {
      Rank one(keys, files, std::move(s));
      one.session->step();
      own.lines = one.lines;
    });
    own.asked = asked;
  });
  extra_plugin = nullptr;
  return attempts;
}

int warnings(const Attempt& a) {
  return static_cast<int>(std::count_if(a.lines.begin(), a.lines.end(), [](const auto& line) {
    return line.find("all ranks pass over backend 'narrow'") != std::string::npos &&
           line.find("rank 1 on ") != std::string::npos &&
           line.find("this machine has no room") != std::string::npos;
  }));
}

}  // namespace

TEST_CASE("auto: a backend that refuses one rank is passed over by all, with one warning") {
  const std::vector<Attempt> attempts = attempt("auto");
  for (const Attempt& one : attempts)
    CHECK_MESSAGE(one.error.code() == PLAIT_OK, one.error.full_text());
  CHECK(warnings(attempts[0]) == 1);
  CHECK(warnings(attempts[1]) == 0);
}

TEST_CASE("a backend asked for by name that refuses one rank fails on all with that rank's code") {
  for (const Attempt& one : attempt("narrow")) {
    const std::string text = one.error.full_text();
    CHECK_MESSAGE(one.error.code() == PLAIT_ERR_MEMORY, text);
    CHECK_MESSAGE(text.find("backend 'narrow' of plugin narrow (topology.backend) does not work: "
                            "rank 1 on ") != std::string::npos,
                  text);
    CHECK_MESSAGE(text.find("this machine has no room") != std::string::npos, text);
  }
}

TEST_CASE("a backend is asked for what all ranks of the machine need of it together") {
  for (const Attempt& one : attempt("narrow")) {
    CHECK(one.asked.struct_size == sizeof(plait_comm_needs));
    CHECK(one.asked.ranks == 2);
    CHECK(one.own.groups > 0);
    CHECK(one.asked.groups == 2 * one.own.groups);
    CHECK(one.own.bytes > 0);
    CHECK(one.asked.bytes == 2 * one.own.bytes);
  }
}
