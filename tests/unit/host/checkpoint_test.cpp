// Stop and resume: the results equal those of an uninterrupted run.
#include <cstring>
#include <fstream>

#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

TEST_CASE(
    "resuming is bit-identical, at any step, for every optimizer state, dropout and order of "
    "samples") {
  const host::TempFolder folder;
  const auto straight = Run(small()).losses(40);
  for (const int at : {1, 7, 8, 25}) {  // 100 samples of 12: the ninth batch ends an epoch
    CAPTURE(at);
    const std::string dir = folder / ("run" + std::to_string(at));
    {
      const Run first(small(), dir);
      first.losses(at);
      host::check(plait_session_save(first.session(), nullptr));
    }
    const Run second(small(), dir, PLAIT_RESUME_MUST);
    const auto rest = second.losses(40 - at);
    CHECK(rest == std::vector<double>(straight.begin() + at, straight.end()));
  }
}

TEST_CASE("a damaged newest checkpoint falls back to the one before") {
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  const auto straight = Run(small()).losses(10);
  {
    const Run first(small(), dir);
    first.losses(4);
    host::check(plait_session_save(first.session(), nullptr));
    first.losses(2);
    host::check(plait_session_save(first.session(), nullptr));
  }
  std::fstream(dir + "/ckpt/step-0000000006/model.safetensors",
               std::ios::in | std::ios::out | std::ios::binary)
      .seekp(700)
      .put('!');
  const Run second(small(), dir, PLAIT_RESUME_AUTO);
  CHECK(second.step().loss == straight[4]);
}

TEST_CASE("a checkpoint that cannot be resumed gives the reason") {
  const host::TempFolder folder;
  auto f = host::failure_of([&] { Run(small(), folder / "none", PLAIT_RESUME_MUST); });
  CHECK(f.code == PLAIT_ERR_NOT_FOUND);
  CHECK(f.text.find("no checkpoint") != std::string::npos);
  {
    const Run run(small(), folder / "run");
    run.losses(2);
    host::check(plait_session_save(run.session(), nullptr));
    const Run other(small(), folder / "other");
    other.losses(1);
  }
  // Another model: the error names the tensor that does not fit, with both shapes, and nothing has
  // changed.
  f = host::failure_of(
      [&] { Run(small(), folder / "run", PLAIT_RESUME_MUST, {"model.layers[1].out=24"}); });
  CHECK(f.code == PLAIT_ERR_CONFIG);
  CHECK(f.text.find("model.linear1.weight") != std::string::npos);
}

TEST_CASE("two sessions cannot hold one run directory") {
  const host::TempFolder folder;
  const Run first(small(), folder / "run");
  const auto f = host::failure_of([&] { Run(small(), folder / "run", PLAIT_RESUME_AUTO); });
  CHECK(f.code == PLAIT_ERR_STATE);
}

TEST_CASE("a run to the end evaluates, saves, keeps the newest and writes its metrics") {
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  const std::string eval =
      "[data.eval]\ntype = \"synthetic\"\nsamples = 33\n[evaluate]\nevery = "
      "10\n[checkpoint]\nevery = 5\nkeep = 2\n";
  const Run run(small(eval), dir);
  const auto r = run.run();
  CHECK(r.step == 30);
  CHECK(r.finished == 1);
  int checkpoints = 0;
  for (const auto& e : std::filesystem::directory_iterator(dir + "/ckpt"))
    checkpoints += e.path().filename().string().starts_with("step-");
  CHECK(checkpoints == 2);
  std::ifstream metrics(dir + "/metrics.ndjson");
  int steps = 0, evaluations = 0;
  for (std::string line; std::getline(metrics, line);) {
    steps +=
        line.find("\"loss\":") != std::string::npos && line.find("\"event\"") == std::string::npos;
    evaluations += line.find("\"event\":\"evaluate\"") != std::string::npos;
  }
  CHECK(steps == 30);
  CHECK(evaluations == 3);
  for (const char* name : {"run.toml", "env.json", "status.json", "overrides.txt"})
    CHECK(std::filesystem::exists(dir + "/" + name));
}

TEST_CASE("a session remembers its last evaluation") {
  const auto facts = [](const Run& run) {
    plait_text* t = nullptr;
    host::check(plait_session_describe(run.session(), &t));
    return host::take(t);
  };
  const Run run(small("[data.eval]\ntype = \"synthetic\"\nsamples = 33\n[evaluate]\nbatches = 2\n",
                      "", "global = 12\neval = 10"));
  CHECK(facts(run).find("\"last_evaluation\": null") != std::string::npos);
  run.run();
  const std::string ran = facts(run);
  CHECK(ran.find("\"last_evaluation\": {\"step\": 30, \"dataset\": \"eval\", \"samples\": 20, "
                 "\"loss\": ") != std::string::npos);
  plait_text* t = nullptr;
  host::check(plait_session_evaluate(run.session(), nullptr, &t));
  const std::string whole = host::take(t);
  CHECK(whole.find("{\"schema\": 1, \"step\": 30, \"dataset\": \"eval\", \"samples\": 33, ") == 0);
  CHECK(facts(run).find(whole.substr(whole.find("\"step\""))) != std::string::npos);
}

TEST_CASE("going on from an older step by hand: the new checkpoints are the newest, and stay") {
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  const std::string keep = "[checkpoint]\nkeep = 2\n";
  std::vector<float> weights;
  {
    const Run run(small(keep), dir);
    for (int i = 0; i < 2; ++i) {
      run.losses(10);
      host::check(plait_session_save(run.session(), nullptr));
    }
    host::check(plait_session_load(run.session(), (dir + "/ckpt/step-0000000010").c_str()));
    run.losses(5);
    host::check(plait_session_save(run.session(), nullptr));
    weights = run.read("model.linear1.weight", 256);
  }
  CHECK(std::filesystem::exists(dir + "/ckpt/step-0000000010"));
  CHECK(std::filesystem::exists(dir + "/ckpt/step-0000000015"));
  CHECK_FALSE(std::filesystem::exists(dir + "/ckpt/step-0000000020"));
  std::ifstream metrics(dir + "/metrics.ndjson");
  const std::string text{std::istreambuf_iterator<char>(metrics), {}};
  CHECK(text.find("\"event\":\"resume\",\"from_step\":10") != std::string::npos);
  // A resume uses that checkpoint.
  const Run again(small(keep), dir, PLAIT_RESUME_MUST);
  CHECK(again.read("model.linear1.weight", 256) == weights);
  CHECK(again.step().step == 16);
}

TEST_CASE("early stopping stops, and the reason is patience") {
  const host::TempFolder folder;
  const std::string stop =
      "[data.eval]\ntype = \"synthetic\"\nsamples = 33\n[evaluate]\nevery = 1\nearly_stop = "
      "{metric = \"loss\", patience = 2, min_delta = 100.0}\n";
  const Run run(small(stop), folder / "run");
  const auto r = run.run();
  CHECK(r.finished == 1);
  CHECK(r.step == 3);  // the first counts as best, two more gain less than 100
}

TEST_CASE(
    "a callback stops the run after a save, and resuming ends where an undisturbed run ends") {
  const host::TempFolder folder;
  const Run straight(small());
  straight.losses(30);
  const std::string dir = folder / "run";
  {
    const Run first(small(), dir);
    first.losses(11);
    plait_session_cancel(first.session());
    const auto f = host::failure_of([&] { first.run(); });
    CHECK(f.code == PLAIT_ERR_CANCELLED);
    CHECK(f.text.find("saved as") != std::string::npos);
    // The cancellation is delivered once: a later call runs as if there had been none.
    plait_text* t = nullptr;
    host::check(plait_session_evaluate(first.session(), "train", &t));
    CHECK(host::take(t).find("\"samples\": 100") != std::string::npos);
    // A cancelled evaluation is an error, never the metrics of a part.
    plait_session_cancel(first.session());
    const auto g = host::failure_of(
        [&] { host::check(plait_session_evaluate(first.session(), "train", &t)); });
    CHECK(g.code == PLAIT_ERR_CANCELLED);
  }
  const Run second(small(), dir, PLAIT_RESUME_MUST);
  CHECK(second.run().step == 30);
  CHECK(second.read("model.linear1.weight", 256) == straight.read("model.linear1.weight", 256));
}

TEST_CASE("a new run in a folder that holds another run's checkpoints is refused") {
  const host::TempFolder folder;
  {
    const Run run(small(), folder / "run");
    run.losses(2);
    host::check(plait_session_save(run.session(), nullptr));
  }
  const auto f = host::failure_of([&] { Run(small(), folder / "run"); });
  CHECK(f.code == PLAIT_ERR_CONFIG);
  CHECK(f.text.find("holds checkpoints of an earlier run") != std::string::npos);
}

TEST_CASE(
    "early stopping that watches no figure is refused before the first step, with the names there "
    "are") {
  const std::string stop =
      "[data.eval]\ntype = \"synthetic\"\nsamples = 33\n[evaluate]\nevery = 1\nearly_stop = "
      "{metric = \"acuracy\"}\n";
  const auto f = host::failure_of([&] { Run(small(stop)).run(); });
  CHECK(f.code == PLAIT_ERR_CONFIG);
  CHECK(f.text.find("accuracy") != std::string::npos);
}
