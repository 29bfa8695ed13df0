// Sessions on a device that works by itself: the same bits as on the device whose kernels it runs.
#include <algorithm>
#include <filesystem>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

const std::vector<std::string> kRun{
    "run.steps=12",         "checkpoint.every=5",  "evaluate.every=4",   "data.eval.type=synthetic",
    "data.eval.samples=20", "data.eval.shape=[6]", "data.eval.classes=4"};
const std::vector<std::string> kReference{"run.device=reference"},
    kAsync{"run.device=async", "device.pinned_only=true"},
    kByCalls{"run.device=async", "device.pinned_only=true", "device.by_calls=true"},
    // In host memory, where collectives of host backends split the graphs.
    kVisible{"run.device=async", "device.visible=true", "device.delay=500",
             "topology.backend=threads"};

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// Losses of all steps, weights, checkpoints.
struct Seen {
  std::vector<double> losses, norms;
  std::vector<Outcome> ranks;
  std::map<std::string, std::string> tensors;
};

Seen run(const std::vector<std::string>& keys, int ranks, const std::string& folder,
         const SettingsOf& more = {}) {
  Seen seen;
  HookedFiles files;
  seen.ranks = run_all(
      keys, ranks, folder, [&](int) -> FileSystem& { return files; },
      [&](int rank, session::Settings& s) {
        if (rank == 0)
          s.on_step = [&](const session::StepResult& r) {
            seen.losses.push_back(r.loss);
            seen.norms.push_back(r.grad_norm);
            return false;
          };
        if (more) more(rank, s);
      });
  for (const Outcome& o : seen.ranks) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  seen.tensors = tensors_of(folder);
  return seen;
}

void check_same(const Seen& a, const Seen& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
  CHECK(a.tensors == b.tensors);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (size_t r = 0; r < a.ranks.size(); ++r) {
    CAPTURE(r);
    REQUIRE_MESSAGE(a.ranks[r].code == PLAIT_OK, a.ranks[r].error);
    REQUIRE_MESSAGE(b.ranks[r].code == PLAIT_OK, b.ranks[r].error);
    CHECK(a.ranks[r].weights == b.ranks[r].weights);
    CHECK(a.ranks[r].last.samples == b.ranks[r].last.samples);
    CHECK(a.ranks[r].last.learning_rate == b.ranks[r].last.learning_rate);
  }
}

void check_layout(int ranks, const std::vector<std::string>& layout) {
  CAPTURE(layout.front());
  CAPTURE(layout.back());
  const Folder a, b;
  const std::vector<std::string> keys = with(kRun, layout);
  const Seen expected = run(with(keys, kReference), ranks, a / "run");
  CHECK(expected.losses.size() == 12);
  CHECK(!expected.tensors.empty());
  check_same(run(with(keys, kAsync), ranks, b / "run"), expected);
  const Folder c;
  check_same(run(with(keys, kVisible), ranks, c / "run"), expected);
  if (ranks == 1) return;
  const Folder d;
  check_same(run(with(keys, kByCalls), ranks, d / "run"), expected);
}

}  // namespace

TEST_CASE("a run with evaluations and checkpoints, alone") {
  check_layout(1, {"batch.micro=8"});
  check_layout(1, {"batch.micro=2"});
  check_layout(1, {"checkpoint.background=false", "optimizer.type=adamw"});
}

TEST_CASE("saves that are due by time, though the next step was launched before") {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"batch.micro=8"}, {"topology.data=2"}, {"topology.tensor=2"}}) {
    CAPTURE(layout);
    const int ranks = layout[0] == "batch.micro=8" ? 1 : 2;
    const Folder a, b;
    const auto keys = with(with(kRun, layout), {"checkpoint.keep=100"});
    const Seen expected = run(with(keys, kReference), ranks, a / "run");
    const Seen timed = run(with(with(keys, kAsync), {"checkpoint.minutes=1e-9"}), ranks, b / "run");
    CHECK(timed.losses == expected.losses);
    CHECK(timed.ranks[0].weights == expected.ranks[0].weights);
    // What both have saved is the same.
    for (const auto& [name, bytes] : expected.tensors) {
      CAPTURE(name);
      CHECK(timed.tensors.at(name) == bytes);
    }
    CHECK(steps_of(b / "run").size() > steps_of(a / "run").size());
    CHECK(steps_of(b / "run").back() == 12);
  }
}

TEST_CASE("a resumed run equals an uninterrupted one") {
  const Folder a, b;
  const Seen expected = run(with(kRun, kReference), 1, a / "run");
  const auto half = with(with(kRun, kAsync), {"run.steps=7"});
  run(half, 1, b / "run");
  const auto resume = [](int, session::Settings& s) { s.resume = session::Resume::kMust; };
  const Seen rest = run(with(kRun, kAsync), 1, b / "run", resume);
  REQUIRE_MESSAGE(rest.ranks[0].code == PLAIT_OK, rest.ranks[0].error);
  REQUIRE(rest.losses.size() == 5);
  CHECK(std::equal(rest.losses.begin(), rest.losses.end(), expected.losses.begin() + 7));
  CHECK(rest.ranks[0].weights == expected.ranks[0].weights);
}

TEST_CASE("ranks on devices that work by themselves") {
  check_layout(2, {"topology.data=2"});
  check_layout(2, {"topology.data=2", "batch.micro=2"});
  check_layout(2, {"topology.tensor=2"});
  check_layout(2, {"topology.data=2", "topology.zero=2"});
  check_layout(4, {"topology.data=2", "topology.tensor=2", "topology.zero=3"});
  check_layout(2, {"topology.pipeline=2", "batch.micro=2", "batch.eval=8"});
}

TEST_CASE("run.device = \"auto\" passes a device over that cannot be opened here") {
  HookedFiles files;
  Log log;
  CHECK(make_plan({}, files, 0, 1, log)->device == "reference");
  CHECK(make_plan({"run.device=async"}, files, 0, 1, log)->device == "async");
}

TEST_CASE("a stop takes effect one step later, on all ranks alike") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    const Folder folder;
    const auto keys = with(with(kRun, kAsync), {"evaluate.every=0", "checkpoint.every=0",
                                                "topology.data=" + std::to_string(ranks)});
    HookedFiles files;
    std::vector<std::vector<int64_t>> steps(static_cast<size_t>(ranks));
    const auto all = run_all(
        keys, ranks, folder / "run", [&](int) -> FileSystem& { return files; },
        [&](int rank, session::Settings& s) {
          s.on_step = [&steps, rank](const session::StepResult& r) {
            steps[static_cast<size_t>(rank)].push_back(r.step);
            return r.step == 3;
          };
        });
    for (const Outcome& o : all) REQUIRE_MESSAGE(o.code == PLAIT_ERR_CANCELLED, o.error);
    for (const auto& of_rank : steps) CHECK(of_rank == steps[0]);
    // Alone: the step that was launched already. Several ranks carry the wish around first, in the
    // step after that.
    CHECK(steps[0].back() == (ranks == 1 ? 4 : 6));
    CHECK(steps_of(folder / "run") == std::vector<int64_t>{steps[0].back()});
  }
}

TEST_CASE("a callback reads the parameters after the step in flight, and the run goes on") {
  const auto keys = with(kRun, {"evaluate.every=5", "checkpoint.every=0"});
  std::map<int64_t, std::vector<float>> seen[2];
  std::vector<double> losses[2];
  for (const bool async : {false, true}) {
    const Folder folder;
    HookedFiles files;
    session::Settings s;
    s.no_files = true;
    Rank* rank = nullptr;
    s.on_step = [&](const session::StepResult& r) {
      losses[async].push_back(r.loss);
      const plan::Parameter& p = rank->plan->parameters[0];
      std::vector<float>& values = seen[async][r.step];
      values.resize(static_cast<size_t>(program::elements(p.shape)));
      rank->session->read(p.name, values.data(), values.size() * sizeof(float));
      return false;
    };
    Rank one(with(keys, async ? kAsync : kReference), files, std::move(s));
    rank = &one;
    CHECK(one.session->run().step == 12);
  }
  CHECK(losses[0] == losses[1]);
  REQUIRE(seen[1].size() == 12);
  // The first read ends the step in flight, so that the callback of that step sees the same.
  CHECK(seen[1][1] == seen[0][2]);
  CHECK(seen[1][2] == seen[0][2]);
  // No step is in flight before an evaluation and at the end.
  CHECK(seen[1][5] == seen[0][5]);
  CHECK(seen[1][10] == seen[0][10]);
  CHECK(seen[1][12] == seen[0][12]);
  for (int64_t step = 1; step <= 12; ++step) {
    CAPTURE(step);
    const bool at = seen[1][step] == seen[0][step],
               behind = step < 12 && seen[1][step] == seen[0][step + 1];
    CHECK((at || behind));
  }
}

// Step 1 is not finite and is tolerated; the read in its callback ends step 2, which is one too
// many. Only rank 0 reads.
TEST_CASE("a step whose error a callback ignores ends the run on all ranks alike") {
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    HookedFiles files;
    const Folder rendezvous;
    std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
    int ignored = 0;
    on_threads(ranks, [&](int rank) {
      session::Settings s;
      s.no_files = true;
      s.job.rank = s.job.local_rank = rank;
      s.job.size = s.job.local_size = ranks;
      if (ranks > 1) s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
      Rank* self = nullptr;
      std::vector<float> values;
      const auto read = [&] {
        self->session->read("model.linear1.bias", values.data(), values.size() * sizeof(float));
      };
      if (rank == 0)
        s.on_step = [&](const session::StepResult&) {
          for (int i = 0; i < 2; ++i) try {
              read();
            } catch (const Error& e) {
              CHECK(e.code() == PLAIT_ERR_NUMERIC);
              ++ignored;
            }
          return false;
        };
      Rank one(with(kAsync, {"topology.data=" + std::to_string(ranks), "checkpoint.every=0",
                             "guard.nonfinite_limit=2"}),
               files, std::move(s));
      self = &one;
      const plan::Parameter& bias = *one.plan->parameter("model.linear1.bias");
      values.assign(static_cast<size_t>(program::elements(bias.shape)),
                    std::numeric_limits<float>::quiet_NaN());
      one.session->write(bias.name, values.data(), values.size() * sizeof(float));
      Outcome& o = outcomes[static_cast<size_t>(rank)];
      try {
        o.last = one.session->run();
      } catch (const Error& e) {
        o.code = e.code();
        o.error = e.full_text();
      }
      if (ranks == 1) CHECK_NOTHROW(read());  // the run is over, and its error was thrown
    });
    CHECK(ignored == 2);
    for (const Outcome& o : outcomes) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_NUMERIC);
      CHECK(o.error.find("2 steps in a row were not finite, up to step 2") != std::string::npos);
    }
  }
}

TEST_CASE("ranks whose devices differ end with both named") {
  const Folder folder;
  HookedFiles files;
  std::vector<std::string> errors(2);
  const Folder rendezvous;
  on_threads(2, [&](int rank) {
    session::Settings s;
    s.no_files = true;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = 2;
    s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    const auto keys = with(kAsync, {"topology.data=2", rank == 0 ? "device.identity=first model"
                                                                 : "device.identity=second model"});
    try {
      const Rank one(keys, files, std::move(s));
    } catch (const Error& e) {
      errors[static_cast<size_t>(rank)] = e.text();
    }
  });
  for (const std::string& error : errors) {
    CHECK(error.find("rank 0 has 'first model', rank 1 'second model'") != std::string::npos);
  }
}

// Its queue passes over the collectives that fail then: the next results are worth nothing.
TEST_CASE("a rank that launches steps ahead ends with the rank that leaves") {
  HookedFiles files;
  const Folder rendezvous;
  int64_t seen = 0;
  std::string error;
  on_threads(2, [&](int rank) {
    session::Settings s;
    s.no_files = true;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = 2;
    s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    if (rank == 0)
      s.on_step = [&](const session::StepResult& r) {
        seen = r.step;
        return false;
      };
    const Rank one(with(kAsync, {"topology.data=2", "run.steps=5000", "checkpoint.every=0"}), files,
                   std::move(s));
    if (rank == 1) {
      for (int i = 0; i < 5; ++i) one.session->step();
      return;
    }
    try {
      one.session->run();
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_PEER);
      error = e.full_text();
    }
  });
  CAPTURE(error);
  CHECK(error.find("step failed in step 6") != std::string::npos);
  CHECK(seen == 5);
}

TEST_CASE("steps that a host makes one by one wait for their own results") {
  HookedFiles files;
  std::vector<float> found[2];
  for (const bool async : {false, true}) {
    session::Settings s;
    s.no_files = true;
    Rank one(async ? kAsync : kReference, files, std::move(s));
    for (int i = 0; i < 5; ++i) {
      const session::StepResult r = one.session->step();
      CHECK(r.step == i + 1);
      for (const plan::Parameter& p : one.plan->parameters) {
        std::vector<float> values(static_cast<size_t>(program::elements(p.shape)));
        one.session->read(p.name, values.data(), values.size() * sizeof(float));
        found[async].insert(found[async].end(), values.begin(), values.end());
      }
    }
  }
  CHECK(found[0] == found[1]);
}

TEST_CASE("a session asks for pinned memory wherever it promises that") {
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  Rank one(kAsync, files, std::move(s));
  const plan::Parameter& p = one.plan->parameters[0];
  std::vector<float> values(static_cast<size_t>(program::elements(p.shape)), 0.5F), back = values;
  one.session->write(p.name, values.data(), values.size() * sizeof(float));
  one.session->read(p.name, back.data(), back.size() * sizeof(float));
  CHECK(back == values);
  CHECK_NOTHROW(one.session->step());
}
