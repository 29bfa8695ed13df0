// Samples that differ from epoch to epoch: the same ones on every layout, in a resumed run, and
// through datasets that are made of others.
#include <filesystem>
#include <span>

#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;
namespace fs = std::filesystem;

// Twelve images in two classes, and the dataset of them.
std::string images(const Folder& folder, const std::string& more) {
  const char* names[] = {"plain.jpg", "wide.png", "cmyk.jpg", "rgb.png", "tall.png", "grey.jpg"};
  for (const char* kind : {"a", "b"}) {
    fs::create_directories(folder / "photos" + "/" + kind);
    for (const char* name : names)
      fs::copy_file(std::string(PLAIT_SOURCE_FOLDER "/tests/golden/images/") + name,
                    folder / "photos" + "/" + kind + "/" + name,
                    fs::copy_options::overwrite_existing);
  }
  return "{type = \"images\", path = \"" + (folder / "photos") + "\", size = [6, 6]" + more + "}";
}

// An experiment that trains on a dataset, three batches an epoch.
std::string experiment(const std::string& dataset, const std::string& more = "shuffle = true\n") {
  return "[run]\nseed = 4\nthreads = 1\n[topology]\ntimeout = 60.0\n[batch]\nglobal = 4\n"
         "[precision]\ncompute = \"f64\"\n[data.train]\n" +
         dataset + "\nnormalize.image = {divide = 255}\n" + more +
         "[[model.layers]]\ntype = \"flatten\"\n[[model.layers]]\ntype = \"linear\"\nout = 2\n"
         "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.3\n";
}
// {type = "x", a = b} as lines.
std::string lines(std::string table) {
  table = table.substr(1, table.size() - 2);
  int depth = 0;
  for (char& c : table) {
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (c == ',' && depth == 0) c = '\n';
  }
  return table;
}

// n steps; losses and weights.
Body steps(int n) {
  return [n](uint32_t, plait::Session& session, Outcome& outcome) {
    for (int i = 0; i < n; ++i) outcome.losses.push_back(session.step().loss);
    std::vector<double>& weights = outcome.weights["model.linear1.weight"];
    weights.resize(2 * 3 * 6 * 6);
    session.read("model.linear1.weight", std::span<double>(weights));
  };
}

Outcome one(const std::string& toml, const Body& body) {
  Outcome all = run({toml, {}, {}, {}}, 1, body)[0];
  REQUIRE_MESSAGE(all.code == PLAIT_OK, all.error);
  return all;
}

TEST_SUITE("epochs") {
  TEST_CASE("two ranks, and a resumed run, see the samples that one rank sees") {
    const Folder folder;
    const std::string toml = experiment(lines(images(folder, ", flip = true")));
    const Outcome expected = one(toml, steps(12));
    CHECK(one(experiment(lines(images(folder, ""))), steps(12)).losses != expected.losses);
    CHECK(one(experiment(lines(images(folder, ", flip = true, seed = 1"))), steps(12)).losses !=
          expected.losses);
    const auto both = run({toml, {"topology.data=2"}, {}, {}}, 2, steps(12));
    for (const Outcome& o : both) {
      REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      check_metrics(o, expected, 1e-12);
    }
    const std::string path = folder / "saved";
    one(toml, [&](uint32_t, plait::Session& session, Outcome&) {
      for (int i = 0; i < 5; ++i) session.step();
      session.save(path);
    });
    const Outcome resumed = one(toml, [&](uint32_t rank, plait::Session& session, Outcome& o) {
      session.load(path);
      steps(7)(rank, session, o);
    });
    CHECK(resumed.losses ==
          std::vector<double>(expected.losses.begin() + 5, expected.losses.end()));
    CHECK(resumed.weights == expected.weights);
  }

  TEST_CASE("datasets made of others pass the epoch on") {
    const Folder folder;
    const std::string own = images(folder, ", flip = true"),
                      split = "{type = \"split\", part = \"train\", validation = 0.0, dataset = ";
    const Outcome expected = one(experiment(lines(own)), steps(12));
    const std::string nested = split + "{type = \"blend\", parts = [" + own + "]}}";
    CHECK(one(experiment(lines(nested)), steps(12)).losses == expected.losses);
    // A blend that takes its part twice in an epoch is as two epochs of it.
    const std::string twice = "{type = \"blend\", parts = [" + own + "], samples = 24}";
    const std::string in_order = "shuffle = false\n";
    CHECK(one(experiment(lines(twice), in_order), steps(12)).losses ==
          one(experiment(lines(own), in_order), steps(12)).losses);
  }
}

}  // namespace
