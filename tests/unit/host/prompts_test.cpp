// Virtual tokens compared with the peft library in float64 (tests/golden/golden_prompts.py):
// trained, and read by generation.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/unit/host/families.hpp"
#include "tests/unit/host/generating.hpp"

using host::Generator;
using host::Run;
using nlohmann::json;
using plait::test::GoldenFile;

namespace {

constexpr int64_t kVirtual = 4, kTokens = 20, kIds = 96;
constexpr int32_t kIgnored = -100;

const GoldenFile& golden() {
  static const GoldenFile file("prompts.safetensors");
  return file;
}

json attributes(const std::string& name) {
  for (const auto& [key, text] : golden().header().metadata)
    if (key == name) return json::parse(text);
  FAIL("no case ", name);
  return {};
}

std::string adapter_text(const json& adapter) {
  std::string text = "[[model.adapters]]\n";
  for (const auto& [key, value] : adapter.items()) text += key + " = " + value.dump() + "\n";
  return text;
}

// The tiny GPT-2 with an adapter and the golden optimizer.
std::string experiment(const std::string& adapter, const std::string& device, const char* compute) {
  static const GoldenFile families("families.safetensors");
  std::string toml =
      host::experiment(host::families()[0], families.path(), device, compute) + adapter;
  const std::string sgd = "type = \"sgd\"\nlearning_rate = 1.0\n";
  const json adamw = attributes("batch")["adamw"];
  return toml.replace(toml.find(sgd), sgd.size(),
                      "type = \"adamw\"\nlearning_rate = " + adamw["lr"].dump() + "\nbeta1 = " +
                          adamw["betas"][0].dump() + "\nbeta2 = " + adamw["betas"][1].dump() +
                          "\neps = " + adamw["eps"].dump() +
                          "\nweight_decay = " + adamw["weight_decay"].dump() + "\n");
}

// (2,24): placeholders in front of the values of the golden batch.
std::vector<int32_t> behind_placeholders(const std::string& name, int32_t placeholder) {
  const std::vector<double> values = golden().values("batch/" + name);
  std::vector<int32_t> all;
  for (int64_t sample = 0; sample < 2; ++sample) {
    all.insert(all.end(), kVirtual, placeholder);
    all.insert(all.end(), values.begin() + sample * kTokens,
               values.begin() + (sample + 1) * kTokens);
  }
  return all;
}

double step(const Run& run) {
  std::vector<int32_t> ids = behind_placeholders("ids", 5),
                       labels = behind_placeholders("labels", kIgnored);
  int64_t shape[2] = {2, kVirtual + kTokens};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0},
      y{labels.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feeds[] = {{sizeof(plait_feed), "ids", &x}, {sizeof(plait_feed), "labels", &y}};
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(run.session(), feeds, 2, &r));
  return r.loss;
}

// (2,24,96)
std::vector<double> predict(const Run& run, std::vector<int32_t> ids) {
  int64_t shape[2] = {2, kVirtual + kTokens};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &x};
  std::vector<double> logits(ids.size() * kIds);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                    logits.size() * sizeof(double)));
  return logits;
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("virtual tokens follow the peft library's prompt tuning and prefix tuning") {
  for (const std::string device : {"reference", "cpu"})
    for (const std::string name : {"soft_prompt", "prefix"}) {
      CAPTURE(device);
      CAPTURE(name);
      const json known = attributes(name);
      const Run run(experiment(adapter_text(known["adapter"]), device, "f64"));
      size_t n_parameters = 0;
      for (const std::string tensor : known["tensors"])
        if (tensor.starts_with("init.")) {
          const auto v = golden().values(name + "/" + tensor);
          host::check(plait_session_write(run.session(), tensor.substr(5).c_str(), v.data(),
                                          v.size() * sizeof(double)));
          ++n_parameters;
        }
      CHECK(n_parameters == (name == "prefix" ? 4 : 1));
      for (const double loss : golden().values(name + "/losses"))
        CHECK(step(run) == doctest::Approx(loss).epsilon(1e-11));
      for (const std::string tensor : known["tensors"])
        if (tensor.starts_with("final.")) {
          CAPTURE(tensor);
          const auto expected = golden().values(name + "/" + tensor);
          std::vector<double> v(expected.size());
          host::check(plait_session_read(run.session(), tensor.substr(6).c_str(), v.data(),
                                         v.size() * sizeof(double)));
          for (size_t i = 0; i < v.size(); ++i)
            CHECK(v[i] == doctest::Approx(expected[i]).epsilon(1e-10));
        }
      const auto expected = golden().values(name + "/logits"),
                 logits = predict(run, behind_placeholders("ids", 5));
      for (int64_t sample = 0; sample < 2; ++sample)
        for (int64_t i = 0; i < kTokens * kIds; ++i)
          CHECK(
              logits[static_cast<size_t>((sample * (kVirtual + kTokens) + kVirtual) * kIds + i)] ==
              doctest::Approx(expected[static_cast<size_t>(sample * kTokens * kIds + i)])
                  .epsilon(1e-10));
      // Whatever the placeholders are.
      const auto other = predict(run, behind_placeholders("ids", 71));
      CHECK(std::equal(other.begin() + kVirtual * kIds, other.begin() + 24 * kIds,
                       logits.begin() + kVirtual * kIds));
    }
}

TEST_CASE("generation reads virtual tokens at the placeholders that begin a prompt") {
  for (const std::string name : {"soft_prompt", "prefix"}) {
    CAPTURE(name);
    json adapter = attributes(name)["adapter"];
    adapter["init_std"] = 0.5;
    const Run run(experiment(adapter_text(adapter), "cpu", "f64") +
                  "[generate]\nlength = 24\nslots = 2\nchunk = 3\n");
    step(run);
    const std::vector<int32_t> prompt{0, 0, 0, 0, 17, 3, 50, 8};
    plait_prompt options{};
    options.sampling = &host::kGreedy;
    options.max_tokens = 12;
    Generator g(run);
    const uint64_t a = g.add(prompt, options), b = g.add({0, 0, 0, 0, 2}, options);
    g.finish();
    for (const uint64_t s : {a, b}) {
      std::vector<int32_t> all = s == a ? prompt : std::vector<int32_t>{0, 0, 0, 0, 2};
      const size_t begin = all.size();
      const std::vector<int32_t>& drawn = g.of(s).ids;
      REQUIRE(drawn.size() == 12);
      all.insert(all.end(), drawn.begin(), drawn.end());
      all.resize(48, 0);
      const auto logits = predict(run, all);
      for (size_t i = 0; i < drawn.size(); ++i) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>((begin + i - 1) * kIds);
        CHECK(std::max_element(row, row + kIds) - row == drawn[i]);
      }
    }
  }
}

TEST_CASE("a soft prompt begins with rows of the table") {
  const std::string with_ids =
      "[[model.adapters]]\ntype = \"soft_prompt\"\nmatch = [\"model.embed.weight\"]\n"
      "n_tokens = 5\ninit_ids = [7, 90]\n";
  const Run run(experiment(with_ids, "cpu", "f32"));
  const auto read = [&](const char* name, size_t n) {
    std::vector<float> v(n);
    host::check(plait_session_read(run.session(), name, v.data(), n * sizeof(float)));
    return v;
  };
  const auto table = read("model.embed.weight", 96 * 32),
             vectors = read("model.embed.weight.soft_prompt.vectors", 5 * 32);
  for (size_t i = 0; i < 5; ++i)
    CHECK(std::equal(vectors.begin() + static_cast<std::ptrdiff_t>(i * 32),
                     vectors.begin() + static_cast<std::ptrdiff_t>(i * 32 + 32),
                     table.begin() + (i % 2 == 0 ? 7 : 90) * 32));
}

TEST_CASE("virtual tokens that cannot be") {
  const auto problem = [](const std::string& entry) {
    const auto failure = host::failure_of(
        [&] { const Run run(experiment("[[model.adapters]]\n" + entry, "cpu", "f32")); });
    CHECK(failure.code == PLAIT_ERR_CONFIG);
    return failure.text;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(problem("type = \"soft_prompt\"\nmatch = [\"model.embed.weight\"]\nn_tokens = 25\n"),
           "fewer tokens than n_tokens, which is 25; set at test.toml:");
  contains(problem("type = \"soft_prompt\"\nmatch = [\"model.embed.weight\"]\ninit_ids = [96]\n"),
           "contain 96, and 'model.embed.weight' has the rows 0 to 95; set at test.toml:");
  contains(problem("type = \"soft_prompt\"\nmatch = [\"model.embed\"]\ninit_ids = [1]\n"),
           "let `match` name the table's weight");
}

TEST_SUITE_END();
