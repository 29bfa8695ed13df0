// Measured steps and batches do what others do, on devices that compute on the host and on those
// that work by themselves, alone and on several ranks.
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/session/sessions.hpp"

using namespace plait;
using namespace plait::test;
using nlohmann::json;

namespace {

struct Seen {
  std::vector<double> losses;
  session::Profile profile;
};

// Four steps of every rank, of which the second and the third may be measured.
std::vector<Seen> four_steps(std::vector<std::string> keys, int ranks, bool measured) {
  HookedFiles files;
  const Folder rendezvous;
  std::vector<Seen> all(static_cast<size_t>(ranks));
  on_threads(ranks, [&](int rank) {
    session::Settings s;
    s.no_files = true;
    if (ranks > 1) {
      s.job.rank = s.job.local_rank = rank;
      s.job.size = s.job.local_size = ranks;
      s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    }
    const Rank one(keys, files, std::move(s));
    Seen& seen = all[static_cast<size_t>(rank)];
    seen.losses.push_back(one.session->step().loss);
    if (measured)
      seen.profile = one.session->profile({.runs = 2, .trace = true});
    else
      for (int i = 0; i < 2; ++i) one.session->step();
    seen.losses.push_back(one.session->step().loss);
    std::vector<float> weight(16 * 6);
    one.session->read("model.linear1.weight", weight.data(), weight.size() * sizeof(float));
    for (const float w : weight) seen.losses.push_back(w);
  });
  return all;
}

size_t calls_of_step(const std::vector<std::string>& keys) {
  HookedFiles files;
  Log log;
  const auto plan = make_plan(keys, files, 0, 1, log);
  size_t n = 0;
  for (const plan::Launch& launch : plan->entry_point(plan::kTrainStep).launches)
    if (launch.program >= 0) n += plan->programs[static_cast<size_t>(launch.program)].calls.size();
  return n;
}

}  // namespace

TEST_CASE("measured steps train the same bits") {
  for (const char* device : {"reference", "async"})
    for (const int ranks : {1, 2}) {
      CAPTURE(device);
      CAPTURE(ranks);
      std::vector<std::string> keys{std::string("run.device=") + device, "batch.micro=2"};
      if (ranks == 2) keys.emplace_back("topology.data=2");
      const std::vector<Seen> plain = four_steps(keys, ranks, false),
                              measured = four_steps(keys, ranks, true);
      for (size_t r = 0; r < plain.size(); ++r) CHECK(plain[r].losses == measured[r].losses);
      const json table = json::parse(measured[0].profile.table);
      CHECK(table.at("runs") == 2);
      CHECK(table.at("ranks") == ranks);
      const bool records = std::string(device) == "async";
      CHECK(table.at("launches") == (records ? "one by one, awaited" : "one by one"));
      CHECK(table.contains("peak_flops_per_s") == records);  // the reference knows none
      if (ranks == 1) CHECK(table.at("calls") == 2 * calls_of_step(keys));
      const double all = table.at("seconds"), kernels = table.at("kernel_seconds");
      CHECK(kernels <= all);
      CHECK(table.at("outside_seconds") == doctest::Approx(all - kernels).epsilon(1e-6));
      // The trace of all ranks is that of rank 0.
      const json events = json::parse(measured[0].profile.trace).at("traceEvents");
      std::set<int> seen;
      for (const json& e : events) seen.insert(e.at("pid").get<int>());
      CHECK(static_cast<int>(seen.size()) == ranks);
      if (ranks == 2) CHECK(measured[1].profile.trace.empty());
    }
}

TEST_CASE("a measured evaluation is not the last one") {
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  const Rank one({"run.device=reference", "data.eval.type=synthetic", "data.eval.samples=20",
                  "data.eval.shape=[6]", "data.eval.classes=4"},
                 files, std::move(s));
  const json table =
      json::parse(one.session->profile({.entry_point = plan::kEvaluate, .runs = 2}).table);
  CHECK(table.at("runs") == 2);
  CHECK(json::parse(one.session->describe()).at("last_evaluation").is_null());
  one.session->evaluate("eval");
  one.session->profile({.entry_point = plan::kEvaluate, .runs = 1});
  CHECK(json::parse(one.session->describe()).at("last_evaluation").at("samples") == 20);
}

TEST_CASE("what cannot be measured is named") {
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  const Rank one({"run.device=reference"}, files, std::move(s));
  CHECK_THROWS_WITH(one.session->profile({.entry_point = "predict"}),
                    "[session] entry point 'predict' cannot be measured; there are: train_step, "
                    "evaluate");
}

TEST_CASE("a step tells what came so far, and the clipped norm") {
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  const Rank one({"run.device=async", "run.log_every=2", "optimizer.clip_grad_norm=0.01"}, files,
                 std::move(s));
  const session::StepResult first = one.session->step(), second = one.session->step();
  CHECK(first.grad_norm > 0.01);
  CHECK(first.grad_norm_clipped == doctest::Approx(0.01));
  CHECK(second.mean_loss == doctest::Approx((first.loss + second.loss) / 2));
  CHECK(second.tokens == 0);
  CHECK(second.skipped_steps == 0);
  const double sample = 3 * 2 * (6 * 16 + 16 * 4);
  CHECK(second.tflops == doctest::Approx(second.samples_per_s * sample * 1e-12));
  CHECK(second.mfu == doctest::Approx(second.tflops * 1e12 / 1e9));  // what the device says
}
