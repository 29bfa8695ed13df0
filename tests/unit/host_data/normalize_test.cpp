// The numbers by which samples are normalised: whose they are when checkpoints are loaded.
#include "tests/unit/host_data/datasets.hpp"

namespace {

// An experiment on lines that are `scale` times as large.
std::string experiment(const host::TempFolder& folder, double scale, const std::string& normalize) {
  std::string text = "x,y,kind\n";
  for (int i = 0; i < 30; ++i)
    text += std::to_string(scale * i) + "," + std::to_string(scale * (i % 7)) + "," +
            std::to_string(i % 3) + "\n";
  const std::string path = folder / (std::to_string(scale) + ".csv");
  host::write(path, text);
  return "[run]\nsteps = 9\n[batch]\nglobal = 10\n[data.train]\ntype = \"csv\"\npath = \"" + path +
         "\"\ntarget = \"kind\"\ntarget_type = \"i32\"\n" + normalize +
         "[model]\nlayers = [{type = \"linear\", out = 3}]\n[loss]\ntype = \"cross_entropy\"\n"
         "[optimizer]\ntype = \"adamw\"\n";
}

double evaluated(const host::Run& run) {
  plait_text* text = nullptr;
  host::check(plait_session_evaluate(run.session(), "train", &text));
  return nlohmann::json::parse(host::take(text)).at("loss");
}

// Trains for some steps; returns the path of the checkpoint.
std::string trained(const std::string& toml, const std::string& run_dir, int steps) {
  const host::Run run(toml, run_dir);
  for (int i = 0; i < steps; ++i) run.step();
  host::check(plait_session_save(run.session(), nullptr));
  return run_dir + "/ckpt/step-000000000" + std::to_string(steps);
}

}  // namespace

TEST_CASE("a checkpoint without numbers leaves none of another one in use") {
  const host::TempFolder folder;
  const std::string automatic = "normalize = \"auto\"\n";
  const std::string with = trained(experiment(folder, 1, automatic), folder / "with", 3),
                    without = trained(experiment(folder, 1, ""), folder / "without", 3);
  const host::Run run(experiment(folder, 50, automatic));
  const auto loaded = [&](const std::string& path) {
    host::check(plait_session_load(run.session(), path.c_str()));
    return evaluated(run);
  };
  const double own = loaded(without);
  const double theirs = loaded(with);
  CHECK(theirs != doctest::Approx(own).epsilon(1e-3));
  CHECK(loaded(without) == own);
  CHECK(loaded(with) == theirs);
  CHECK(std::isfinite(run.step().loss));
}

TEST_CASE("a checkpoint keeps the numbers that its run used, not those of its data") {
  const host::TempFolder folder;
  const std::string automatic = "normalize = \"auto\"\n";
  const std::string first = trained(experiment(folder, 1, automatic), folder / "first", 3);
  const std::string toml = experiment(folder, 50, automatic);
  double loss = 0;
  {
    const host::Run run(toml, folder / "second");
    host::check(plait_session_load(run.session(), first.c_str()));
    run.step();
    host::check(plait_session_save(run.session(), nullptr));
    loss = evaluated(run);
  }
  const host::Run run(toml);
  host::check(plait_session_load(run.session(), (folder / "second/ckpt/step-0000000004").c_str()));
  CHECK(evaluated(run) == loss);
}
