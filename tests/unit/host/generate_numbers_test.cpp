// The numbers behind generated tokens: of every family against its own uncached logits and the
// library's ids, in 16 bits, and with weights of 8.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/host/families.hpp"
#include "tests/unit/host/generating.hpp"

using host::beginning;
using host::Drawn;
using host::Generator;
using host::greedy;
using host::kOnly;
using host::Run;
using host::stories;
using plait::test::GoldenFile;

namespace {

constexpr size_t kLength = 24, kIds = 96;  // of the families' golden texts

// What a model says of the tokens of a text behind its first `prompt`, all computed at once.
struct WholeText {
  std::vector<int32_t> likeliest;
  std::vector<double> log_probabilities;  // of the text's own tokens
};
WholeText whole_text(const Run& run, std::vector<int32_t> ids, size_t prompt) {
  REQUIRE(ids.size() == kLength);
  int64_t shape[2] = {1, kLength};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &x};
  std::vector<float> logits(kLength * kIds);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                    logits.size() * sizeof(float)));
  WholeText whole;
  for (size_t t = prompt; t < kLength; ++t) {
    const auto row = logits.begin() + static_cast<long>((t - 1) * kIds);
    whole.likeliest.push_back(static_cast<int32_t>(std::max_element(row, row + kIds) - row));
    double sum = 0;
    for (auto v = row; v != row + kIds; ++v) sum += std::exp(double{*v});
    whole.log_probabilities.push_back(double{row[ids[t]]} - std::log(sum));
  }
  return whole;
}

// The first token behind each prompt with its log-probability.
std::map<size_t, Drawn> first_tokens(const Run& run, const std::vector<size_t>& prompts) {
  Generator g(run);
  plait_prompt p = greedy(1);
  p.log_probabilities = 1;
  std::map<size_t, uint64_t> added;
  for (const size_t n : prompts) added[n] = g.add(beginning(n), p);
  g.finish();
  std::map<size_t, Drawn> all;
  for (const auto& [n, sequence] : added) all[n] = g.of(sequence);
  return all;
}

std::string described(plait_plan* plan) {
  plait_text* text = nullptr;
  host::check(plait_plan_describe(plan, &text));
  const std::unique_ptr<plait_text, decltype(&plait_text_free)> owner(text, plait_text_free);
  return {plait_text_data(text), plait_text_size(text)};
}

}  // namespace

TEST_SUITE_BEGIN("generate");

TEST_CASE("int8 weights: log-probabilities near those of f32, on every device") {
  const std::vector<size_t> prompts{1, 2, 9, 33, 70, 128, 200};
  const auto exact = first_tokens(Run(stories(kOnly)), prompts);
  for (const std::string device : {"cpu", "reference"})
    for (const std::string slots : {"1", "3", "6"})
      for (const std::string compute : {"f32", "bf16"}) {
        if (device == "reference" && (slots != "3" || compute != "f32")) continue;  // slow
        CAPTURE(device);
        CAPTURE(slots);
        CAPTURE(compute);
        const Run run(stories(kOnly + "weights = \"int8\"\nslots = " + slots + "\n") +
                      "[run]\ndevice = \"" + device + "\"\n[precision]\ncompute = \"" + compute +
                      "\"\n");
        double most = 0;
        for (const auto& of_prompt : first_tokens(run, prompts)) {
          const auto n = of_prompt.first;
          const auto& drawn = of_prompt.second;
          CAPTURE(n);
          CHECK(drawn.ids == exact.at(n).ids);
          most = std::max(
              most, std::abs(drawn.log_probabilities.at(0) - exact.at(n).log_probabilities.at(0)));
        }
        CHECK(most < 0.1);
        CHECK(most > 1e-4);  // they are rounded
        const nlohmann::json memory = nlohmann::json::parse(described(run.plan())).at("memory");
        // 36 bytes for 32 numbers; 172 columns have 6 blocks.
        const double down = 5 * 64 * (172 + 6 * 4),
                     others =
                         36.0 / 32 * (512 * 64 + 5 * (2 * 64 * 64 + 2 * 32 * 64 + 2 * 172 * 64));
        CHECK(memory.at("int8_weights").get<double>() ==
              doctest::Approx(down + others).epsilon(0.01));
        CHECK(memory.at("low_parameters") == 0);
      }
}

TEST_CASE("products in 16 bits: log-probabilities near f32, on every device") {
  const std::vector<size_t> prompts{1, 9, 70};
  const auto exact = first_tokens(Run(stories(kOnly)), prompts);
  for (const std::string device : {"cpu", "reference"})
    for (const std::string precision :
         {"compute = \"bf16\"", "compute = \"f16\"", "compute = \"bf16\"\nmaster = false",
          "compute = \"bf16\"\nfrozen = \"compute\""}) {
      CAPTURE(device);
      CAPTURE(precision);
      const Run run(stories(kOnly) + "[run]\ndevice = \"" + device + "\"\n[precision]\n" +
                    precision + "\n");
      for (const auto& [n, drawn] : first_tokens(run, prompts)) {
        CAPTURE(n);
        CHECK(drawn.ids == exact.at(n).ids);
        const double off =
            std::abs(drawn.log_probabilities.at(0) - exact.at(n).log_probabilities.at(0));
        CHECK(off < 0.1);
        CHECK(off > 1e-7);  // they are rounded
      }
    }
}

TEST_CASE("int8 weights follow steps") {
  const GoldenFile golden("families.safetensors");
  const host::Family llama = host::families()[1];
  const std::string toml = host::experiment(llama, golden.path(), "cpu", "f32");
  const Run exact(toml + "[generate]\nslots = 1\n"),
      run(toml + "[generate]\nslots = 1\nweights = \"int8\"\n");
  Generator g(exact), h(run);
  plait_prompt p = greedy(1);
  p.log_probabilities = 1;
  std::vector<double> seen;
  for (int i = 0; i < 4; ++i) {
    const uint64_t a = g.add({1, 2, 3}, p), b = h.add({1, 2, 3}, p);
    g.finish();
    h.finish();
    const double expected = g.of(a).log_probabilities.at(0);
    if (g.of(a).ids == h.of(b).ids)
      CHECK(h.of(b).log_probabilities.at(0) == doctest::Approx(expected).epsilon(0.02));
    seen.push_back(h.of(b).log_probabilities.at(0));
    for (int k = 0; k < 3; ++k) CHECK(run.step().loss == exact.step().loss);
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("int8 weights follow what was written through a view that has ended") {
  const GoldenFile golden("families.safetensors");
  const Run run(host::experiment(host::families()[1], golden.path(), "cpu", "f32") +
                "[generate]\nslots = 1\nweights = \"int8\"\n");
  Generator g(run);
  plait_prompt p = greedy(1);
  p.log_probabilities = 1;
  const auto next = [&] {
    const uint64_t s = g.add({1, 2, 3}, p);
    g.finish();
    return g.of(s).log_probabilities.at(0);
  };
  const double before = next();
  plait_dl_managed* view = nullptr;
  host::check(plait_session_view(run.session(), "model.head.weight", &view));
  CHECK(next() == before);
  auto* weights = static_cast<float*>(view->tensor.data);
  for (int i = 0; i < 96 * 32; ++i) weights[i] *= 2;
  view->deleter(view);
  const double after = next();
  CHECK(std::abs(after - before) > 1e-3);
  CHECK(next() == after);
}

TEST_CASE("every family: cached logits are those of the whole text, beyond its window, too") {
  const GoldenFile golden("families.safetensors");
  constexpr size_t kPrompt = 8;
  for (const host::Family& family : host::families())
    for (const std::string device : {"reference", "cpu"}) {
      const std::string name = family.name;
      CAPTURE(name);
      CAPTURE(device);
      const Run run(host::experiment(family, golden.path(), device, "f32") +
                    "[generate]\nslots = 2\nchunk = 3\n");
      std::vector<int32_t> ids;
      for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
      ids.resize(kPrompt);
      Generator g(run);
      plait_prompt p = greedy();
      p.log_probabilities = 1;
      const uint64_t s = g.add(ids, p);
      g.finish();
      const Drawn& drawn = g.of(s);
      REQUIRE(drawn.ids.size() == kLength - kPrompt);
      ids.insert(ids.end(), drawn.ids.begin(), drawn.ids.end());
      const WholeText whole = whole_text(run, ids, kPrompt);
      CHECK(whole.likeliest == drawn.ids);
      for (size_t t = 0; t < drawn.ids.size(); ++t)
        CHECK(drawn.log_probabilities[t] ==
              doctest::Approx(whole.log_probabilities[t]).epsilon(1e-5));
    }
}

// A text of at most 16 tokens has the short divisors, whatever is cached, and a longer one the long
// ones. All 24 tokens at once have those that the limits 24 and 23 say.
TEST_CASE(
    "longrope: cached log-probabilities are those of the whole text on both sides of its limit") {
  const GoldenFile golden("families.safetensors");
  constexpr size_t kPrompt = 8, kLimit = 16;
  const auto model = [](size_t limit) {
    return host::Family{
        "phi3", "",
        R"({type = "decoder_block", name = "h", repeat = 2, )" + host::kLlama +
            R"(, rope_scaling = "longrope", rope_factor = 4.0, rope_attention = 1.25, )"
            R"(rope_short = [1.0, 1.25, 1.5, 1.75], rope_long = [1.5, 3.0, 5.0, 8.0], )"
            R"(rope_original = )" +
            std::to_string(limit) + "},",
        R"({type = "rms_norm", name = "norm", eps = 1e-4},)", ""};
  };
  for (const std::string device : {"reference", "cpu"}) {
    CAPTURE(device);
    const auto whole = [&](size_t limit, const std::vector<int32_t>& ids) {
      const Run run(host::experiment(model(limit), golden.path(), device, "f32"));
      return whole_text(run, ids, kPrompt);
    };
    const Run run(host::experiment(model(kLimit), golden.path(), device, "f32") +
                  "[generate]\nslots = 2\nchunk = 3\n");
    std::vector<int32_t> ids;
    for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
    ids.resize(kPrompt);
    Generator g(run);
    plait_prompt p = greedy();
    p.log_probabilities = 1;
    const uint64_t s = g.add(ids, p);
    g.finish();
    const Drawn& drawn = g.of(s);
    REQUIRE(drawn.ids.size() == kLength - kPrompt);
    ids.insert(ids.end(), drawn.ids.begin(), drawn.ids.end());
    const WholeText shorter = whole(kLength, ids), longer = whole(kLength - 1, ids);
    for (size_t i = 0; i < drawn.ids.size(); ++i) {
      const size_t n_before = kPrompt + i;
      CAPTURE(n_before);
      const bool is_long = n_before > kLimit;
      const WholeText &expected = is_long ? longer : shorter, &other = is_long ? shorter : longer;
      CHECK(drawn.ids[i] == expected.likeliest[i]);
      CHECK(drawn.log_probabilities[i] ==
            doctest::Approx(expected.log_probabilities[i]).epsilon(1e-5));
      CHECK(std::abs(drawn.log_probabilities[i] - other.log_probabilities[i]) > 1e-3);
    }
  }
}

// tests/golden/golden_greedy.py: in float64, the two greatest logits are never closer than 0.01.
// With longrope the first two sequences get longer than the length at which angles change.
TEST_CASE("every family: greedy ids are the library's, of prompts of 8, 1 and 40 ids at once") {
  const GoldenFile weights("families.safetensors");
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/greedy.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const host::Family& family : host::all_families())
    for (const std::string device : {"reference", "cpu"}) {
      const std::string name = family.name;
      CAPTURE(name);
      CAPTURE(device);
      const Run run(host::experiment(family, weights.path(), device, "f32") +
                    "[generate]\nonly = true\nlength = 64\nslots = 3\nchunk = 3\n");
      Generator g(run);
      std::vector<uint64_t> added;
      const nlohmann::json& cases = golden.at(name);
      REQUIRE(cases.size() == 3);
      for (const auto& one : cases)
        added.push_back(g.add(one["prompt"].get<std::vector<int32_t>>(),
                              greedy(static_cast<int64_t>(one["ids"].size()))));
      g.finish();
      for (size_t i = 0; i < added.size(); ++i) {
        CAPTURE(cases[i]["prompt"].size());
        CHECK(g.of(added[i]).ids == cases[i]["ids"].get<std::vector<int32_t>>());
      }
    }
}

// The reference is the same program without a cache; both round to 16 bits at the same places, but
// sum in another order, so a logit may differ by some units in the last place of its terms.
TEST_CASE("16 bits: cached logits are near those of the whole text, and near those of f32") {
  const GoldenFile golden("families.safetensors");
  constexpr size_t kPrompt = 8;
  std::vector<int32_t> ids;
  for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
  ids.resize(kPrompt);
  for (const host::Family& family : host::families()) {
    const std::string name = family.name;
    CAPTURE(name);
    const std::pair<std::string, double> kTypes[] = {{"bf16", 0x1p-4}, {"f16", 0x1p-7}};
    for (const auto& one : kTypes)
      for (const std::string cache : {"compute", "f32"}) {
        const std::string& type = one.first;
        const double tolerance = one.second;
        CAPTURE(type);
        CAPTURE(cache);
        const Run run(host::experiment(family, golden.path(), "cpu", type.c_str()) +
                      "[generate]\nslots = 2\nchunk = 3\ncache = \"" + cache + "\"\n");
        Generator g(run);
        plait_prompt p = greedy();
        p.log_probabilities = 1;
        const uint64_t s = g.add(ids, p);
        g.finish();
        std::vector<int32_t> text = ids;
        const Drawn& drawn = g.of(s);
        REQUIRE(drawn.ids.size() == kLength - kPrompt);
        text.insert(text.end(), drawn.ids.begin(), drawn.ids.end());
        for (const std::string& whole : {type, std::string("f32")}) {
          const Run other(host::experiment(family, golden.path(), "cpu", whole.c_str()));
          const WholeText expected = whole_text(other, text, kPrompt);
          for (size_t t = 0; t < drawn.ids.size(); ++t)
            CHECK(std::abs(drawn.log_probabilities[t] - expected.log_probabilities[t]) < tolerance);
        }
      }
  }
}

TEST_SUITE_END();
