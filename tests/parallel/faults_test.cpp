// A rank that fails, leaves or differs ends the job on all ranks, with a text that names the rank
// and the reason.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <utility>

#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

plait_step_result step_on(plait::Session& session, const std::vector<float>& x,
                          const std::vector<int32_t>& label) {
  const auto n = static_cast<int64_t>(label.size());
  const plait::Feed feeds[] = {
      {"input", std::span<const float>(x), {n, static_cast<int64_t>(x.size()) / n}},
      {"target", std::span<const int32_t>(label), {n}}};
  return session.step(feeds);
}

const char* const kFailing = R"([run]
threads = 1
[topology]
data = 2
[batch]
global = 8
[data.train]
type = "failing"
[[model.layers]]
type = "linear"
out = 2
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.1
)";

TEST_SUITE("faults") {
  TEST_CASE(
      "ranks with different experiments are refused on every rank, with key and both values") {
    const Folder folder;
    JobSpec job_spec{
        model(folder), {"topology.data=2"}, {{1, {"optimizer.learning_rate=0.5"}}}, {}};
    for (const Outcome& o : run(job_spec, 2, train(1))) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_CONFIG);
      CHECK(has(o.error, "optimizer.learning_rate"));
      CHECK(has(o.error, "0.5"));
      CHECK(has(o.error, "0.003"));
      CHECK(has(o.error, "rank 1"));
    }
  }

  TEST_CASE("a rank whose plugin is another file: every rank names the plugin and both hashes") {
    const Folder folder;
    const std::string copy = folder / std::filesystem::path(FAILING_DATASET).filename().string();
    std::filesystem::copy_file(FAILING_DATASET, copy);
    std::ofstream(copy, std::ios::binary | std::ios::app).put('x');
    JobSpec job_spec{kFailing, {}, {}, {}};
    job_spec.plugins = {FAILING_DATASET};
    job_spec.plugins_of_rank[1] = {copy};
    const auto outcomes = run(job_spec, 2, train(1));
    for (const Outcome& o : outcomes) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_CONFIG);
      CHECK(o.error == outcomes[0].error);
      const size_t at = o.error.find(" has plugin data-failing 1.0.0 ");
      REQUIRE(at != std::string::npos);
      CHECK(has(o.error.substr(0, at), "rank 1 (pipeline 0, data 1, tensor 0) on "));
      CHECK(has(o.error.substr(at), ", rank 0 has 1.0.0 "));
      CHECK(o.error.find("has plugin") == o.error.rfind("has plugin"));  // no other plugin is named
    }
  }

  TEST_CASE("a model of many layers meets, and a difference in the last of them is named") {
    const Folder folder;
    std::string toml = model(folder), layers;
    for (int i = 0; i < 200; ++i)
      layers += "[[model.layers]]\ntype = \"linear\"\nout = 4\n[[model.layers]]\ntype = \"relu\"\n";
    toml.insert(toml.find("[loss]"), layers);
    JobSpec job_spec{toml, {"topology.data=2"}, {}, {}};
    const Body step = [](uint32_t, plait::Session& session, Outcome&) { session.step(); };
    for (const Outcome& o : run(job_spec, 2, step)) CHECK(o.error == "");
    job_spec.of_rank[1] = {"model.layers[405].bias=false"};
    for (const Outcome& o : run(job_spec, 2, step)) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_CONFIG);
      CHECK(has(o.error, "rank 1"));
      CHECK(has(o.error, "has model.layers[405].bias false, rank 0 has true"));
      CHECK(!has(o.error, "layers[404]"));
    }
  }

  TEST_CASE("a rank that leaves early: the others name it and the step") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {"topology.data=4"}, {}, {}};
    const auto outcomes =
        run(job_spec, 4, [](uint32_t rank, plait::Session& session, Outcome& outcome) {
          for (int i = 0; i < (rank == 2 ? 3 : 30); ++i) {
            session.step();
            outcome.losses.push_back(0);
          }
        });
    CHECK(outcomes[2].code == PLAIT_OK);
    for (const uint32_t r : {0u, 1u, 3u}) {
      CAPTURE(outcomes[r].error);
      CHECK(outcomes[r].code == PLAIT_ERR_PEER);
      CHECK(has(outcomes[r].error, "rank 2"));
      CHECK(has(outcomes[r].error, "step 4"));
      CHECK(has(outcomes[r].error, "because: [runtime] the collective of "));
      CHECK(!has(outcomes[r].error, "[plugin device"));  // the device plugin is not at fault
      CHECK(outcomes[r].losses.size() == 3);
    }
  }

  TEST_CASE("a parameter in parts whose other holder is gone: the reader's memory is untouched") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {"topology.data=2", "topology.zero=3"}, {}, {}};
    std::vector<float> values(16 * 16, 7.0F);
    const auto outcomes = run(job_spec, 2, [&](uint32_t rank, plait::Session& session, Outcome&) {
      session.step();
      if (rank == 0) session.read("model.first.weight", std::span<float>(values));
    });
    CHECK(outcomes[0].code == PLAIT_ERR_PEER);
    CHECK(values == std::vector<float>(16 * 16, 7.0F));
  }

  TEST_CASE("ranks that do different things: both are named, long before the time-out") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {"topology.data=2"}, {}, {}};
    const auto outcomes = run(job_spec, 2, [](uint32_t rank, plait::Session& session, Outcome&) {
      session.step();
      if (rank == 1) session.load("/nowhere/at/all");
      for (int i = 0; i < 30; ++i) session.step();
    });
    for (const Outcome& o : outcomes) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_PEER);
      CHECK(has(o.error, "rank 0 (pipeline 0, data 0, tensor 0) called 'step'"));
      CHECK(has(o.error, "rank 1 (pipeline 0, data 1, tensor 0) called 'loading'"));
    }
  }

  TEST_CASE("a rank that fails where the others can't see it: they learn its reason") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {"topology.data=2"}, {}, {}};
    const auto outcomes = run(job_spec, 2, [](uint32_t rank, plait::Session& session, Outcome&) {
      session.step();
      session.load(rank == 0 ? "/nowhere/at/all" : "/anywhere");
    });
    CHECK(outcomes[0].code == PLAIT_ERR_NOT_FOUND);
    CAPTURE(outcomes[1].error);
    CHECK(outcomes[1].code == PLAIT_ERR_PEER);
    CHECK(has(outcomes[1].error, "rank 0"));
    CHECK(has(outcomes[1].error, "/nowhere/at/all"));
  }

  TEST_CASE(
      "numbers that are not finite, of one rank alone: all skip, then stop naming op and rank") {
    const Folder folder;
    for (const char* zero : {"0", "3"}) {
      const JobSpec job_spec{
          model(folder),
          {"topology.data=2", std::string("topology.zero=") + zero, "guard.nonfinite_limit=3"},
          {},
          {}};
      const auto outcomes =
          run(job_spec, 2, [](uint32_t rank, plait::Session& session, Outcome& outcome) {
            std::vector<float> x(8 * 16, rank == 1 ? INFINITY : 1.0f);
            std::vector<int32_t> label(8, 0);
            for (int i = 0; i < 10; ++i) {
              const plait_step_result r = step_on(session, x, label);
              outcome.norms.push_back(r.skipped);
            }
          });
      for (const Outcome& o : outcomes) {
        CAPTURE(o.error);
        CHECK(o.code == PLAIT_ERR_NUMERIC);
        CHECK(o.norms == std::vector<double>{1, 1});
        CHECK(has(o.error, "on rank 1"));
        CHECK(has(o.error, "model.first"));
      }
    }
  }

  TEST_CASE("an error of a plugin on one rank alone is not an agreement, whatever its code") {
    for (const uint32_t code : {PLAIT_ERR_CANCELLED, PLAIT_ERR_NUMERIC}) {
      JobSpec job_spec{kFailing, {"data.train.code=" + std::to_string(code)}, {}, {}};
      job_spec.plugins = {FAILING_DATASET};
      auto outcomes =
          run(job_spec, 2, [](uint32_t, plait::Session& session, Outcome&) { session.step(); });
      if (outcomes[0].code == PLAIT_ERR_PEER) std::swap(outcomes[0], outcomes[1]);
      CAPTURE(outcomes[0].error);
      CAPTURE(outcomes[1].error);
      CHECK(outcomes[0].code == code);
      CHECK(has(outcomes[0].error, "no further"));
      CHECK(outcomes[1].code == PLAIT_ERR_PEER);
      CHECK(has(outcomes[1].error, "aborted: [session] step failed in step 1"));
    }
  }

  TEST_CASE("a backend that throws is an error that names its plugin") {
    JobSpec job_spec{kFailing, {"topology.backend=throwing"}, {}, {}};
    job_spec.plugins = {THROWING_COMM, FAILING_DATASET};
    const auto outcomes = run(job_spec, 2, train(1));
    CAPTURE(outcomes[0].error);
    CAPTURE(outcomes[1].error);
    for (const Outcome& o : outcomes) CHECK(o.code != PLAIT_OK);
    CHECK(std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) {
      return has(o.error,
                 "[plugin comm-throwing] open() of backend 'throwing' threw: nobody catches "
                 "me; no exception may leave a plugin: tell its author");
    }));
  }

  TEST_CASE("a rank that gets no memory while its session opens: the others learn its reason") {
    JobSpec job_spec{kFailing, {"topology.backend=throwing_memory"}, {}, {}};
    job_spec.plugins = {THROWING_COMM, FAILING_DATASET};
    const auto outcomes = run(job_spec, 2, train(1));
    CAPTURE(outcomes[0].error);
    CAPTURE(outcomes[1].error);
    CHECK(has(outcomes[1].error, "memory() of backend 'throwing_memory' threw: it is mine"));
    CHECK(outcomes[0].code == PLAIT_ERR_PEER);
    CHECK(
        has(outcomes[0].error,
            "rank 1 (pipeline 0, data 1, tensor 0) aborted: [session] opening the session failed"));
    CHECK(has(outcomes[0].error, "it is mine"));
  }

  TEST_CASE("a job's time-out for the rendezvous overrides that of [topology]") {
    const Folder folder;
    JobSpec job_spec{model(folder), {"topology.data=2"}, {{1, {"topology.data=1"}}}, {}};
    job_spec.job = [](uint32_t, plait::JobSettings& job) { job.connect_timeout = 0.3; };
    const auto outcomes = run(job_spec, 2, train(1));
    CHECK(outcomes[1].code == PLAIT_ERR_CONFIG);  // it makes no plan and does not join
    CAPTURE(outcomes[0].error);
    CHECK(outcomes[0].code == PLAIT_ERR_PEER);
    CHECK(has(outcomes[0].error, "did not connect within 0.3 s; missing: rank 1 of 2"));
  }

  TEST_CASE("a job's time-out for one collective overrides that of [topology]") {
    const Folder folder;
    JobSpec job_spec{model(folder), {"topology.data=2"}, {}, {}};
    job_spec.job = [](uint32_t, plait::JobSettings& job) { job.timeout = 4; };
    std::promise<void> over;
    const auto outcomes = run(job_spec, 2, [&](uint32_t rank, plait::Session& session, Outcome&) {
      if (rank == 1) {
        // Alive, but not where the other rank waits for it; the time-out of [topology] is a minute.
        CHECK(over.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready);
        return;
      }
      CHECK_THROWS_AS(session.step(), plait::HostError);
      over.set_value();
    });
    for (const Outcome& o : outcomes) CHECK(o.error == "");
  }

  TEST_CASE("a plan of several ranks needs its job") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {"topology.data=2"}, {}, {}};
    const auto outcomes = run(job_spec, 1, train(1));
    CAPTURE(outcomes[0].error);
    CHECK(outcomes[0].code == PLAIT_ERR_CONFIG);
    CHECK(has(outcomes[0].error, "make 2 ranks, but 1 was started"));
  }
}

}  // namespace
