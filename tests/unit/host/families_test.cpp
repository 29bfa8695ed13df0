// Transformers of every family against Hugging Face's library in float64
// (tests/golden/golden_families.py): loss, logits, and the gradient of every parameter.
#include <cmath>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using plait::test::GoldenFile;

namespace {

struct Family {
  const char* name;
  std::string embedding, blocks, norm, head;
};

const std::string kTied = R"(, tie = {weight = "model.embed.weight"})";
const std::string kRms =
    R"(norm = "rms_norm", eps = 1e-4, ffn = 48, rope = "half", rope_theta = 500.0)";
const std::string kLlama = "heads = 4, kv_heads = 2, mlp = \"swiglu\", " + kRms;
const std::string kGemma =
    R"(heads = 4, kv_heads = 2, head_dim = 16, ffn = 48, mlp = "geglu_tanh", norm = "rms_norm", )"
    R"(eps = 1e-4, unit_offset = true, norm_at = "both", rope = "half", )"
    R"(attn_scale = 0.2041241452319315)";  // 1/sqrt(24)
const std::string kGemmaScale = ", scale = 5.656854249492381";

std::vector<Family> families() {
  const auto blocks = [](const std::string& options) {
    return R"({type = "decoder_block", name = "h", repeat = 2, )" + options + "},";
  };
  const auto pair = [](const std::string& first, const std::string& second) {
    return R"({type = "decoder_block", name = "h0", )" + first + "}," +
           R"({type = "decoder_block", name = "h1", )" + second + "},";
  };
  const std::string rms = R"({type = "rms_norm", name = "norm", eps = 1e-4},)";
  const std::string gemma_norm =
      R"({type = "rms_norm", name = "norm", eps = 1e-4, unit_offset = true},)";
  return {
      {"gpt2", "",
       R"({type = "positions", name = "positions", length = 64},)" +
           blocks("heads = 4, bias = true, eps = 1e-4"),
       R"({type = "layer_norm", name = "norm", eps = 1e-4},)", kTied},
      {"llama", "",
       blocks(kLlama + R"(, rope_scaling = "llama3", rope_factor = 8.0, rope_original = 16)"), rms,
       ""},
      {"mistral", "", blocks(kLlama + ", head_dim = 16, window = 8"), rms, ""},
      {"qwen2", "", blocks(kLlama + ", qkv_bias = true"), rms, kTied},
      {"qwen3", "", blocks(kLlama + R"(, head_dim = 16, qk_norm = "head")"), rms, ""},
      {"gemma2", kGemmaScale,
       pair(kGemma + ", rope_theta = 500.0, softcap = 2.0, window = 8",
            kGemma + ", rope_theta = 500.0, softcap = 2.0"),
       gemma_norm, kTied + "}, {type = \"softcap\", cap = 5.0"},
      {"gemma3", kGemmaScale,
       pair(kGemma + R"(, rope_theta = 500.0, qk_norm = "head", window = 8)",
            kGemma + R"(, rope_theta = 5000.0, qk_norm = "head")"),
       gemma_norm, kTied},
      {"phi3", "", blocks(kLlama + ", rope_share = 0.5"), rms, ""},
      {"olmo2", "", blocks(kLlama + R"(, norm_at = "post", qk_norm = "all")"), rms, ""},
  };
}

std::string experiment(const Family& f, const std::string& file, const std::string& device,
                       const char* compute) {
  return "[run]\ndevice = \"" + device + "\"\n[precision]\ncompute = \"" + compute +
         "\"\n[batch]\nglobal = 2\n[optimizer]\ntype = \"sgd\"\nlearning_rate = 1.0\n" +
         "[loss]\ntype = \"cross_entropy\"\n[data.train]\ntype = \"safetensors\"\npath = \"" +
         file + "\"\ninput = [\"ids\"]\ntarget = [\"labels\"]\n[model]\nload = \"" + file +
         "\"\nload_names = [\"model.*=" + f.name + "/*\"]\n" +
         "layers = [{type = \"embedding\", name = \"embed\", vocabulary = 96, width = 32" +
         f.embedding + "}," + f.blocks + f.norm +
         R"({type = "linear", name = "head", out = 96, bias = false)" + f.head + "}]\n";
}

double greatest(const std::vector<double>& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::abs(x));
  return most;
}

// Elements of `found` differ from `expected` by at most tolerance times the greatest of them.
// Biases of keys have no gradient but rounding.
void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  CHECK(worst <= tolerance * std::max(greatest(expected), 1e-6));
}

std::vector<double> predict(const Run& run, const GoldenFile& golden) {
  std::vector<int32_t> ids;
  for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
  int64_t shape[2] = {2, 24};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &x};
  std::vector<double> logits(2 * 24 * 96);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                    logits.size() * sizeof(double)));
  return logits;
}

std::vector<double> parameter(const Run& run, const std::string& name, size_t n) {
  std::vector<double> values(n);
  host::check(plait_session_read(run.session(), ("model." + name).c_str(), values.data(),
                                 n * sizeof(double)));
  return values;
}

}  // namespace

TEST_CASE("every family has the loss, logits and gradients of the library") {
  const GoldenFile golden("families.safetensors");
  for (const Family& family : families())
    for (const std::string device : {"reference", "cpu"}) {
      const std::string name = family.name;
      CAPTURE(name);
      CAPTURE(device);
      const Run run(experiment(family, golden.path(), device, "f64"));
      // The library's tables of cos and sin are f32, rounded elsewhere by one unit at times.
      check_close(predict(run, golden), golden.values(name + ".logits"), 1e-6);
      CHECK(run.step().loss == doctest::Approx(golden.values(name + ".loss")[0]).epsilon(1e-7));
      for (const std::string& p : golden.names(name + "/")) {
        CAPTURE(p);
        const auto before = golden.values(name + "/" + p);
        auto gradient = parameter(run, p, before.size());  // one step at rate 1 subtracts it
        for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = before[i] - gradient[i];
        check_close(gradient, golden.values(name + ".grad/" + p), 2e-6);
      }
    }
}

TEST_CASE("what cannot be built names the layer, the option and the way out") {
  const GoldenFile golden("families.safetensors");
  const std::string toml = experiment(families()[1], golden.path(), "reference", "f32");
  const auto refusal = [&](const char* override_) {
    return host::failure_of([&] { const Run run(toml, "", PLAIT_RESUME_NEVER, {override_}); }).text;
  };
  const std::pair<const char*, const char*> cases[] = {
      {"model.layers[1].kv_heads=3", "heads is 4 and kv_heads 3, expected a divisor of heads"},
      {"model.layers[1].heads=6", "heads is 6, expected a divisor of the width, 32"},
      {"model.layers[1].rope_share=0.1", "rope_share selects 0 of 8 channels"},
      {"model.layers[1].rope_original=0", "which needs rope_original, the length of the training"},
      {"model.layers[1].rope_scaling=\"longrope\"", "has 0 numbers in `factors`, expected 4"},
      {"model.layers[1].parallel=\"row\"", "expected string: \"none\" | \"heads\", found \"row\""},
      {"model.layers[0].type=\"positions\"", "unknown key 'vocabulary'"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const std::string found = refusal(one.first);
    CAPTURE(found);
    CHECK(found.find(one.second) != std::string::npos);
    CHECK(found.find("model.layers[") != std::string::npos);
  }
}

TEST_CASE("weights are dropped in training and in no evaluation") {
  const GoldenFile golden("families.safetensors");
  const std::string toml = experiment(families()[1], golden.path(), "cpu", "f64");
  const Run plain(toml),
      dropping(toml, "", PLAIT_RESUME_NEVER, {"model.layers[1].attention_dropout=0.3"});
  CHECK(predict(plain, golden) == predict(dropping, golden));
  CHECK(plain.step().loss != dropping.step().loss);
}
