// Mixed precision through the C ABI: copies of weights follow every change, checkpoints know no
// bf16, and losses of f16 are scaled.
#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kit/half.hpp"
#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using host::TempFolder;
using plait::test::GoldenFile;

namespace {

// A transformer that learns two texts of 24 ids by heart.
std::string learner(const std::string& precision, const std::string& optimizer = "") {
  static const GoldenFile golden("families.safetensors");
  return "[run]\nsteps = 400\nlog_every = 1\n[batch]\nglobal = 2\n[precision]\n" + precision +
         "\n[optimizer]\n" +
         (optimizer.empty() ? "type = \"adamw\"\nlearning_rate = 1e-3\nclip_grad_norm = 1.0\n"
                            : optimizer) +
         "[loss]\ntype = \"cross_entropy\"\n[data.train]\ntype = \"safetensors\"\npath = \"" +
         golden.path() +
         "\"\ninput = [\"ids\"]\ntarget = [\"labels\"]\n[model]\nlayers = [\n"
         R"({type = "embedding", name = "embed", vocabulary = 96, width = 32},
            {type = "decoder_block", name = "h", repeat = 2, heads = 4, bias = true},
            {type = "layer_norm", name = "norm"},
            {type = "linear", name = "head", out = 96, bias = false}]
)";
}

std::vector<float> predict(const Run& run) {
  std::vector<int32_t> ids(48);
  std::iota(ids.begin(), ids.end(), 3);
  int64_t shape[2] = {2, 24};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &x};
  std::vector<float> logits(2 * 24 * 96);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                    logits.size() * sizeof(float)));
  return logits;
}

double greatest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max<double>(worst, std::abs(a[i] - b[i]));
  return worst;
}

nlohmann::json memory_of(const Run& run) {
  plait_text* json = nullptr;
  host::check(plait_plan_describe(run.plan(), &json));
  return nlohmann::json::parse(host::take(json))["memory"];
}

constexpr const char* kHead = "model.head.weight";
constexpr size_t kHeadSize = 96 * 32;

}  // namespace

TEST_SUITE_BEGIN("precision");

TEST_CASE("200 steps in bf16 follow those in f32") {
  const std::vector<double> wide = Run(learner("compute = \"f32\"")).losses(200);
  for (const char* precision : {"compute = \"bf16\"", "compute = \"bf16\"\nresidual = \"compute\"",
                                "compute = \"f16\"", "compute = \"bf16\"\nmaster = false"}) {
    CAPTURE(precision);
    const std::vector<double> low = Run(learner(precision)).losses(200);
    CHECK(low != wide);
    CHECK(low[199] < 0.5 * low[0]);
    double mean = 0;
    for (size_t i = 0; i < wide.size(); ++i) {
      CHECK(std::abs(low[i] - wide[i]) <= 7.5e-2);
      mean += (low[i] - wide[i]) / 20;
      if (i % 20 != 19) continue;
      CAPTURE(i);
      CHECK(std::abs(mean) <= 3e-2);
      mean = 0;
    }
  }
}

TEST_CASE("products read copies of two bytes for each of their weights") {
  const auto wide = memory_of(Run(learner("compute = \"f32\""))),
             low = memory_of(Run(learner("compute = \"bf16\"")));
  CHECK(wide["low_parameters"] == 0);
  // Two blocks of 12·32² weights and the head; neither table, gains nor biases.
  CHECK(low["low_parameters"] == 2 * (2 * 12 * 32 * 32 + 96 * 32));
  CHECK(low["parameters"] >= wide["parameters"]);
  CHECK(low["activations"] == wide["activations"]);
}

TEST_CASE("what a host writes, or a checkpoint brings, is what products read next") {
  const TempFolder folder;
  const Run run(learner("compute = \"bf16\""));
  const auto before = predict(run);
  CHECK(greatest_difference(before, predict(Run(learner("compute = \"f32\"")))) < 0.05);
  host::check(plait_session_save(run.session(), (folder / "saved").c_str()));
  const std::vector<float> zeros(kHeadSize, 0), weights = run.read(kHead, kHeadSize);
  host::check(plait_session_write(run.session(), kHead, zeros.data(), kHeadSize * sizeof(float)));
  CHECK(greatest_difference(predict(run), std::vector<float>(before.size(), 0)) == 0);
  host::check(plait_session_load(run.session(), (folder / "saved").c_str()));
  CHECK(run.read(kHead, kHeadSize) == weights);
  CHECK(predict(run) == before);
}

TEST_CASE("a checkpoint of bf16 goes on in f32, and back") {
  const TempFolder folder;
  const std::pair<const char*, const char*> ways[] = {
      {"bf16", "f32"}, {"f32", "bf16"}, {"f16", "bf16"}, {"bf16", "f16"}};
  for (const auto& way : ways) {
    const char *from = way.first, *to = way.second;
    CAPTURE(from);
    CAPTURE(to);
    const std::string path = folder / (std::string(from) + to);
    const Run first(learner("compute = \"" + std::string(from) + "\""));
    first.losses(20);
    host::check(plait_session_save(first.session(), path.c_str()));
    const Run second(learner("compute = \"" + std::string(to) + "\""));
    host::check(plait_session_load(second.session(), path.c_str()));
    CHECK(second.read(kHead, kHeadSize) == first.read(kHead, kHeadSize));
    const auto a = first.losses(5), b = second.losses(5);
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 0.05);
  }
}

TEST_CASE("an overflow skips the step and shrinks the scale; good steps let it grow") {
  const TempFolder folder;
  const std::string toml = learner(
      "compute = \"f16\"\n[precision.scale]\ninitial = 1.0e12\nfactor = 1024.0\nhysteresis = 2\n"
      "window = 4\n[guard]\nnonfinite_limit = 1");
  const Run run(toml, folder / "run");
  const auto before = run.read(kHead, kHeadSize);
  // 1e12 overflows twice, then once more with each smaller one, until f16 holds the gradients.
  int skipped = 0;
  while (run.step().skipped) {
    ++skipped;
    CHECK(run.read(kHead, kHeadSize) == before);
    REQUIRE(skipped < 10);
  }
  CHECK(skipped >= 2);
  CHECK(run.read(kHead, kHeadSize) != before);
  const std::string saved = folder / "saved";
  host::check(plait_session_save(run.session(), saved.c_str()));
  // The scale is part of the checkpoint: the one that goes on skips no step again.
  const Run again(toml);
  host::check(plait_session_load(again.session(), saved.c_str()));
  CHECK(again.step().skipped == 0);
  // Four good steps let it grow beyond what f16 holds: some later step is skipped, and none ends
  // it.
  int later = 0;
  for (int i = 0; i < 12; ++i) later += again.step().skipped != 0 ? 1 : 0;
  CHECK(later >= 1);
  CHECK(later <= 6);
}

TEST_CASE("the loss scale stands in the metrics, and in those of f16 alone") {
  const TempFolder folder;
  for (const char* compute : {"f16", "bf16"}) {
    const Run run(learner("compute = \"" + std::string(compute) + "\""), folder / compute,
                  PLAIT_RESUME_NEVER, {"run.steps=3"});
    run.run();
    std::ifstream lines(folder / (std::string(compute) + "/metrics.ndjson"));
    bool found = false;
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("loss_scale"))
        found = json["loss_scale"] == 65536.0;
    CHECK(found == (std::string(compute) == "f16"));
  }
}

TEST_CASE("a step that is not finite at the least scale counts, and ends the run") {
  const Run run(
      learner("compute = \"f16\"\n[precision.scale]\ninitial = 1e30\nmin = 1e30\n[guard]\n"
              "nonfinite_limit = 2"));
  CHECK(run.step().skipped != 0);
  const host::Failure f = host::failure_of([&] { run.step(); });
  CHECK(f.code != PLAIT_OK);
  CHECK(f.text.find("not finite") != std::string::npos);
}

namespace {

constexpr const char* kRounded = "compute = \"bf16\"\nmaster = false";

std::vector<uint16_t> read_weights(const Run& run, const char* name, size_t n) {
  std::vector<uint16_t> bits(n);
  host::check(plait_session_read(run.session(), name, bits.data(), n * sizeof(uint16_t)));
  return bits;
}

}  // namespace

TEST_CASE("without a master a weight takes two bytes, and with its gradient and states 14") {
  const Run run(learner(kRounded));
  const auto memory = memory_of(run), with_master = memory_of(Run(learner("compute = \"bf16\"")));
  plait_text* text = nullptr;
  host::check(plait_plan_describe(run.plan(), &text));
  const auto plan = nlohmann::json::parse(host::take(text));
  double weights = 0, others = 0, least = 0;
  for (const auto& p : plan["parameters"]) {
    double n = 1;
    for (const auto& d : p["shape"]) n *= d.get<double>();
    const bool is_weight = p["shape"].size() > 1;
    CHECK(p["dtype"] == (is_weight ? "bf16" : "f32"));
    (is_weight ? weights : others) += n;
    least += 64;  // lines that a parameter may leave open, in elements
  }
  const auto bytes = [&](const char* part) { return memory[part].get<double>(); };
  CHECK(memory["low_parameters"] == 0);
  CHECK(bytes("parameters") >= 2 * weights + 4 * others);
  CHECK(bytes("parameters") <= 2 * weights + 4 * (others + least));
  const double all = bytes("parameters") + bytes("gradients") + bytes("optimizer");
  CHECK(all >= 14 * weights + 16 * others);
  CHECK(all <= 14 * weights + 16 * (others + least));
  CHECK(with_master["low_parameters"].get<double>() > 0);
  // No more than with a master: no weight is widened as a whole.
  CHECK(memory["activations"] == with_master["activations"]);
}

TEST_CASE("an update too small for the nearest bf16 moves weights on average") {
  // Each step takes 2^-13 of a weight, a 32nd of the way to the number below 1.
  const Run run(learner(kRounded,
                        "type = \"sgd\"\nlearning_rate = 1.1102230246251565e-16\n"
                        "weight_decay = 1099511627776.0\n"));
  const std::vector<uint16_t> ones(kHeadSize, 0x3f80);
  host::check(plait_session_write(run.session(), kHead, ones.data(), kHeadSize * 2));
  constexpr int kSteps = 64;
  run.losses(kSteps);
  double mean = 0;
  for (const uint16_t bits : read_weights(run, kHead, kHeadSize))
    mean += static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16)) / kHeadSize;
  CHECK(std::abs(mean - std::pow(1 - 0x1p-13, kSteps)) < 6e-4);
}

TEST_CASE("a run without a master goes on from its checkpoint as if it had not ended") {
  const TempFolder folder;
  for (const char* optimizer : {"", "type = \"muon\"\nlearning_rate = 1e-2\n"}) {
    CAPTURE(optimizer);
    const std::string toml = learner(kRounded, optimizer),
                      path = folder / (*optimizer ? "muon" : "adamw");
    const Run whole(toml), first(toml);
    const auto expected = whole.losses(12);
    auto found = first.losses(5);
    host::check(plait_session_save(first.session(), path.c_str()));
    const Run second(toml);
    host::check(plait_session_load(second.session(), path.c_str()));
    const auto rest = second.losses(7);
    found.insert(found.end(), rest.begin(), rest.end());
    CHECK(found == expected);
    CHECK(read_weights(second, kHead, kHeadSize) == read_weights(whole, kHead, kHeadSize));
  }
}

TEST_CASE("checkpoints with and without a master are read by each other") {
  const TempFolder folder;
  for (const char* other : {"compute = \"bf16\"", "compute = \"f32\""}) {
    CAPTURE(other);
    const std::string wide_path = folder / (std::string("wide") + std::to_string(other[11])),
                      narrow_path = folder / (std::string("narrow") + std::to_string(other[11]));
    const Run wide(learner(other));
    wide.losses(10);
    host::check(plait_session_save(wide.session(), wide_path.c_str()));
    const Run narrow(learner(kRounded));
    host::check(plait_session_load(narrow.session(), wide_path.c_str()));
    const auto masters = wide.read(kHead, kHeadSize);
    const auto weights = read_weights(narrow, kHead, kHeadSize);
    for (size_t i = 0; i < kHeadSize; ++i) CHECK(weights[i] == plait::kit::to_bf16(masters[i]));
    const auto a = wide.losses(5), b = narrow.losses(5);
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 0.05);
    host::check(plait_session_save(narrow.session(), narrow_path.c_str()));
    const Run back(learner(other));
    host::check(plait_session_load(back.session(), narrow_path.c_str()));
    const auto after = read_weights(narrow, kHead, kHeadSize);
    const auto exact = back.read(kHead, kHeadSize);
    for (size_t i = 0; i < kHeadSize; ++i) CHECK(exact[i] == plait::kit::from_bf16(after[i]));
  }
}

TEST_CASE("weights without a master are refused with any type but bf16") {
  for (const char* compute : {"f32", "f64", "f16"}) {
    const host::Failure f = host::failure_of(
        [&] { Run(learner("compute = \"" + std::string(compute) + "\"\nmaster = false")); });
    CAPTURE(f.text);
    CHECK(f.code == PLAIT_ERR_CONFIG);
    CHECK(f.text.find("precision.master") != std::string::npos);
    CHECK(f.text.find("is false with compute = \"" + std::string(compute)) != std::string::npos);
    CHECK(f.text.find("set compute = \"bf16\", or leave out master") != std::string::npos);
  }
}

namespace {

constexpr const char* kSplit = "compute = \"bf16\"\nsplit_master = true";
constexpr const char* kWhole = "compute = \"bf16\"";

// Parameters that products read, with their numbers of elements.
std::vector<std::pair<std::string, size_t>> weights_of(const Run& run) {
  plait_text* text = nullptr;
  host::check(plait_plan_describe(run.plan(), &text));
  std::vector<std::pair<std::string, size_t>> all;
  const auto plan = nlohmann::json::parse(host::take(text));
  for (const auto& p : plan["parameters"]) {
    size_t n = 1;
    for (const auto& d : p["shape"]) n *= d.get<size_t>();
    if (p["shape"].size() > 1) all.emplace_back(p["name"].get<std::string>(), n);
  }
  return all;
}

// Halfway between two bf16 copies of the two layouts may differ: such weights move to the next f32.
bool move_halves(std::vector<float>& weights) {
  bool moved = false;
  for (float& x : weights)
    if ((std::bit_cast<uint32_t>(x) & 0xffffu) == 0x8000u) {
      x = std::nextafter(x, 0.0f);
      moved = true;
    }
  return moved;
}

// Both make the same steps, to the bit.
void check_same_steps(const Run& split, const Run& whole, int steps) {
  const auto all = weights_of(split);
  REQUIRE(!all.empty());
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    for (const auto& [name, n] : all) {
      std::vector<float> weights = whole.read(name, n);
      REQUIRE(split.read(name, n) == weights);
      if (!move_halves(weights)) continue;
      for (const Run* run : {&split, &whole})
        host::check(
            plait_session_write(run->session(), name.c_str(), weights.data(), n * sizeof(float)));
    }
    REQUIRE(split.step().loss == whole.step().loss);
  }
}

}  // namespace

TEST_CASE("a split master takes four bytes with its copy, and no others appear in the plan") {
  const auto split = memory_of(Run(learner(kSplit))), whole = memory_of(Run(learner(kWhole)));
  const auto bytes = [](const nlohmann::json& memory, const char* part) {
    return memory[part].get<double>();
  };
  CHECK(split["low_parameters"] == 0);
  CHECK(bytes(whole, "low_parameters") > 0);
  CHECK(bytes(split, "parameters") == bytes(whole, "parameters"));
  for (const char* same : {"gradients", "optimizer", "activations"})
    CHECK(split[same] == whole[same]);
}

TEST_CASE("a split master makes the steps of one that is not, to the bit") {
  for (const char* optimizer : {"", "type = \"muon\"\nlearning_rate = 1e-2\n"}) {
    CAPTURE(optimizer);
    const Run split(learner(kSplit, optimizer)), whole(learner(kWhole, optimizer));
    check_same_steps(split, whole, 20);
  }
}

TEST_CASE("checkpoints of split masters and of others are the same, and each resumes the other") {
  const TempFolder folder;
  const std::string saved = folder / "split", other = folder / "whole";
  const Run split(learner(kSplit)), whole(learner(kWhole));
  split.losses(5);
  host::check(plait_session_save(split.session(), saved.c_str()));
  host::check(plait_session_load(whole.session(), saved.c_str()));
  check_same_steps(split, whole, 10);
  host::check(plait_session_save(whole.session(), other.c_str()));
  const Run again(learner(kSplit));
  host::check(plait_session_load(again.session(), other.c_str()));
  check_same_steps(again, whole, 5);
}

TEST_CASE("a host reads and writes a split weight to the bit, and has no view of it") {
  const Run run(learner(kSplit));
  std::vector<float> weights(kHeadSize);
  for (size_t i = 0; i < kHeadSize; ++i)  // all kinds of lower halves
    weights[i] = std::bit_cast<float>(0x3d000000u + static_cast<uint32_t>(i) * 0x6b43u);
  const auto before = predict(run);
  host::check(plait_session_write(run.session(), kHead, weights.data(), kHeadSize * sizeof(float)));
  CHECK(run.read(kHead, kHeadSize) == weights);
  CHECK(greatest_difference(predict(run), before) > 0.1);
  plait_dl_managed* view = nullptr;
  const host::Failure f =
      host::failure_of([&] { host::check(plait_session_view(run.session(), kHead, &view)); });
  CHECK(f.code == PLAIT_ERR_UNIMPLEMENTED);
  CHECK(f.text.find("precision.split_master") != std::string::npos);
  // A gain lies as before.
  host::check(plait_session_view(run.session(), "model.norm.gain", &view));
  view->deleter(view);
}

TEST_CASE("masters are not split with any type but bf16, nor where there are none") {
  for (const char* precision : {"compute = \"f32\"", "compute = \"f64\"", "compute = \"f16\"",
                                "compute = \"bf16\"\nmaster = false"}) {
    CAPTURE(precision);
    const host::Failure f =
        host::failure_of([&] { Run(learner(std::string(precision) + "\nsplit_master = true")); });
    CAPTURE(f.text);
    CHECK(f.code == PLAIT_ERR_CONFIG);
    CHECK(f.text.find("precision.split_master") != std::string::npos);
    CHECK(f.text.find("is true with") != std::string::npos);
    CHECK(f.text.find("leave out") != std::string::npos);
  }
}

TEST_SUITE_END();
