// A trained Llama (tests/golden/stories260k): logits, gradients, 20 steps of two optimizers, and
// the story that it tells, against PyTorch in float64.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using plait::test::GoldenFile;

namespace {

const GoldenFile& reference() {
  static const GoldenFile file("stories260k/reference.safetensors");
  return file;
}

// Names of this library and of Hugging Face's, as load_names takes them.
using Names = std::vector<std::pair<std::string, std::string>>;
const Names kInBlock{{"attn_norm.gain", "input_layernorm.weight"},
                     {"attn.q.weight", "self_attn.q_proj.weight"},
                     {"attn.k.weight", "self_attn.k_proj.weight"},
                     {"attn.v.weight", "self_attn.v_proj.weight"},
                     {"attn.out.weight", "self_attn.o_proj.weight"},
                     {"mlp_norm.gain", "post_attention_layernorm.weight"},
                     {"mlp.gate.weight", "mlp.gate_proj.weight"},
                     {"mlp.up.weight", "mlp.up_proj.weight"},
                     {"mlp.down.weight", "mlp.down_proj.weight"}};
const Names kOutside{{"embed.weight", "embed_tokens.weight"}, {"norm.gain", "norm.weight"}};

const std::string kEntry =
    R"({type = "decoder_block", name = "h", repeat = 5, heads = 8, kv_heads = 4, ffn = 172,)"
    R"( norm = "rms_norm", mlp = "swiglu", rope = "half"})";
// The same from its parts.
const std::string kParts = R"({type = "block", name = "h", repeat = 5, layers = [
  {type = "rms_norm", name = "attn_norm"},
  {type = "attention", name = "attn", heads = 8, kv_heads = 4, rope = "half"},
  {type = "add", from = ["input", "attn"], as = ["x"]},
  {type = "rms_norm", name = "mlp_norm"},
  {type = "mlp", name = "mlp", mlp = "swiglu", ffn = 172},
  {type = "add", from = ["x", "mlp"]}]})";

// The samples of the reference, or those of a file of (1,256).
struct Samples {
  std::string path = reference().path(), input = "train_x", target = "train_y";
};

std::string experiment(const std::string& blocks, const std::string& device,
                       const std::string& compute, const std::string& optimizer,
                       const Samples& samples = {}) {
  static const GoldenFile weights("stories260k/model.safetensors");
  std::string names;
  for (const auto& [ours, theirs] : kInBlock)
    names += "\"model.h*." + ours + "=model.layers.*." + theirs + "\", ";
  for (const auto& [ours, theirs] : kOutside)
    names += "\"model." + ours + "=model." + theirs + "\", ";
  return "[run]\ndevice = \"" + device + "\"\n[precision]\ncompute = \"" + compute +
         "\"\n[batch]\nglobal = 2\n[optimizer]\n" + optimizer +
         "\n[loss]\ntype = \"cross_entropy\"\n[data.train]\ntype = \"safetensors\"\npath = \"" +
         samples.path + "\"\ninput = [\"" + samples.input + "\"]\ntarget = [\"" + samples.target +
         "\"]\n" + "[model]\nload = \"" + weights.path() + "\"\nload_names = [" + names + "]\n" +
         "layers = [{type = \"embedding\", name = \"embed\", vocabulary = 512, width = 64},\n" +
         blocks + ",\n{type = \"rms_norm\", name = \"norm\"},\n" +
         R"({type = "linear", name = "head", out = 512, bias = false, )" +
         R"(tie = {weight = "model.embed.weight"}}])" + "\n";
}

const std::string kSgd = "type = \"sgd\"\nlearning_rate = 0.01";
const std::string kAdamw =
    "type = \"adamw\"\nlearning_rate = 1e-3\nbeta1 = 0.9\nbeta2 = 0.99\nweight_decay = 0.01";

// The story as one sample: tokens and those that follow.
class Story {
 public:
  Story() {
    std::ofstream file(samples_.path, std::ios::binary);
    const std::string header =
        R"({"ids":{"dtype":"I32","shape":[1,256],"data_offsets":[0,1024]},)"
        R"("next":{"dtype":"I32","shape":[1,256],"data_offsets":[1024,2048]}})";
    const uint64_t size = header.size();
    file.write(reinterpret_cast<const char*>(&size), sizeof size) << header;
    for (const std::vector<int32_t>& part : {ids(), next()})
      file.write(reinterpret_cast<const char*>(part.data()), 1024);
  }
  const Samples& samples() const { return samples_; }
  std::vector<int32_t> ids() const { return {all_.begin(), all_.end() - 1}; }
  std::vector<int32_t> next() const { return {all_.begin() + 1, all_.end()}; }

  // (256,512)
  template <class T>
  std::vector<T> logits(const Run& run) const {
    std::vector<int32_t> x = ids();
    int64_t shape[2] = {1, 256};
    plait_dl_tensor tensor{x.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
    const plait_feed feed{sizeof(plait_feed), "ids", &tensor};
    std::vector<T> found(x.size() * 512);
    host::check(plait_session_predict(run.session(), &feed, 1, "output", found.data(),
                                      found.size() * sizeof(T)));
    return found;
  }

 private:
  static std::vector<int32_t> read() {
    std::vector<int32_t> ids;
    for (const double id : reference().values("greedy_ids"))
      ids.push_back(static_cast<int32_t>(id));
    return ids;
  }
  const host::TempFolder folder_;
  const Samples samples_{folder_ / "story.safetensors", "ids", "next"};
  const std::vector<int32_t> all_ = read();
};

template <class T>
double difference(const std::vector<T>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
  return worst;
}

// The loss before each of 20 steps and after the last.
void check_losses(const std::string& toml, const std::string& of, double tolerance) {
  const std::vector<double> found = Run(toml).losses(21);
  const double off = difference(found, reference().values(of));
  CAPTURE(of);
  CAPTURE(off);
  CHECK(off <= tolerance);
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("a trained Llama has its gradients, as one entry and from its parts") {
  Names all;
  for (const auto& [ours, theirs] : kOutside)
    all.emplace_back("model." + ours, "grad.model." + theirs);
  for (int i = 0; i < 5; ++i)
    for (const auto& [ours, theirs] : kInBlock)
      all.emplace_back("model.h" + std::to_string(i) + "." + ours,
                       "grad.model.layers." + std::to_string(i) + "." + theirs);
  for (const std::string& blocks : {kEntry, kParts})
    for (const std::string device : {"reference", "cpu"}) {
      CAPTURE(blocks);
      CAPTURE(device);
      const Run run(experiment(blocks, device, "f64", kSgd));
      const auto parameter = [&](const std::string& name, size_t n) {
        std::vector<double> values(n);
        host::check(
            plait_session_read(run.session(), name.c_str(), values.data(), n * sizeof(double)));
        return values;
      };
      std::vector<std::vector<double>> before;
      for (const auto& [ours, theirs] : all)
        before.push_back(parameter(ours, reference().values(theirs).size()));
      run.step();  // subtracts a hundredth of the gradient
      for (size_t p = 0; p < all.size(); ++p) {
        const std::vector<double> expected = reference().values(all[p].second);
        std::vector<double> gradient = parameter(all[p].first, expected.size());
        for (size_t i = 0; i < gradient.size(); ++i)
          gradient[i] = (before[p][i] - gradient[i]) / 0.01;
        const std::string& name = all[p].first;
        CAPTURE(name);
        double greatest = 0;
        for (const double g : expected) greatest = std::max(greatest, std::abs(g));
        CHECK(difference(gradient, expected) <= 1e-6 * greatest);
      }
    }
}

TEST_CASE("a trained Llama trains on as in PyTorch: 20 steps of SGD and of AdamW") {
  for (const std::string& blocks : {kEntry, kParts}) {
    // Tables of cos and sin are f32.
    check_losses(experiment(blocks, "cpu", "f64", kSgd), "sgd_losses", 1e-7);
    check_losses(experiment(blocks, "cpu", "f64", kAdamw), "adamw_losses", 3e-7);
    check_losses(experiment(blocks, "cpu", "f32", kSgd), "sgd_losses", 2e-6);
    check_losses(experiment(blocks, "cpu", "f32", kAdamw), "adamw_losses", 1e-5);
  }
}

TEST_CASE("a trained Llama tells its story: each of 256 tokens is the likeliest") {
  const Story story;
  std::vector<double> expected = reference().values("logits");  // of the first 64 tokens
  for (const std::string& blocks : {kEntry, kParts})
    for (const std::string device : {"reference", "cpu"}) {
      CAPTURE(blocks);
      CAPTURE(device);
      const Run exact(experiment(blocks, device, "f64", kSgd, story.samples()));
      std::vector<double> all = story.logits<double>(exact);
      all.resize(expected.size());
      // Of the largest logit, 22, as f32 has it; tables of cos and sin are f32, too.
      CHECK(difference(all, expected) < 5e-6);

      const Run run(experiment(blocks, device, "f32", kSgd, story.samples()));
      const std::vector<float> found = story.logits<float>(run);
      std::vector<int32_t> likeliest;
      for (auto row = found.begin(); row != found.end(); row += 512)
        likeliest.push_back(static_cast<int32_t>(std::max_element(row, row + 512) - row));
      CHECK(likeliest == story.next());
    }
}

TEST_SUITE_END();
