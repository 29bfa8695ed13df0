// Generation through the C ABI: a trained Llama's story, every family against its own uncached
// logits, and what a host can get wrong.
#include <plait/generate.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/host/families.hpp"
#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using plait::test::GoldenFile;

namespace {

struct Drawn {
  std::vector<int32_t> ids;
  std::vector<double> log_probabilities;
  std::string text;
  uint32_t finish = PLAIT_FINISH_NONE;
  int64_t reused = 0;
};

class Generator {
 public:
  explicit Generator(const Run& run, const plait_tokenizer* tokenizer = nullptr) {
    plait_generator_options o{sizeof o, tokenizer};
    plait_generator* g = nullptr;
    host::check(plait_generator_open(run.session(), &o, &g));
    generator_.reset(g);
  }
  plait_generator* get() const { return generator_.get(); }
  uint64_t add(plait_prompt p) {
    p.struct_size = sizeof p;
    uint64_t sequence = 0;
    host::check(plait_generator_add(get(), &p, &sequence));
    return sequence;
  }
  uint64_t add(const std::vector<int32_t>& ids, plait_prompt p = {}) {
    p.ids = ids.data();
    p.n_ids = ids.size();
    return add(p);
  }
  uint64_t step() {
    uint64_t left = 0;
    host::check(plait_generator_step(get(), on_token, this, &left));
    return left;
  }
  void finish() {
    while (step() > 0) {
    }
  }
  const Drawn& of(uint64_t sequence) const { return drawn_.at(sequence); }
  uint64_t end_after = 0;  // tokens, by the callback; 0: never

 private:
  static uint32_t on_token(void* user, const plait_token* t) {
    auto& self = *static_cast<Generator*>(user);
    Drawn& d = self.drawn_[t->sequence];
    CHECK(d.finish == PLAIT_FINISH_NONE);
    if (t->id >= 0) {
      CHECK(t->index == static_cast<int64_t>(d.ids.size()));
      d.ids.push_back(t->id);
      d.log_probabilities.push_back(t->log_probability);
    }
    d.text.append(t->text ? t->text : "", t->size);
    d.finish = t->finish;
    d.reused = t->n_reused;
    return self.end_after > 0 && d.ids.size() >= self.end_after ? 1 : 0;
  }
  std::unique_ptr<plait_generator, decltype(&plait_generator_close)> generator_{
      nullptr, plait_generator_close};
  std::map<uint64_t, Drawn> drawn_;
};

const plait_sampling kGreedy{sizeof(plait_sampling), 0, 0, 0, 0, 0, 0};

// The trained Llama of tests/golden/stories260k; `generate`: lines of [generate].
std::string stories(const std::string& generate) {
  static const GoldenFile weights("stories260k/model.safetensors");
  return R"([batch]
global = 1
[generate]
)" + generate +
         R"(
[model]
load = ")" +
         weights.path() +
         R"("
load_names = ["model.h*.attn_norm.gain=model.layers.*.input_layernorm.weight",
 "model.h*.attn.q.weight=model.layers.*.self_attn.q_proj.weight",
 "model.h*.attn.k.weight=model.layers.*.self_attn.k_proj.weight",
 "model.h*.attn.v.weight=model.layers.*.self_attn.v_proj.weight",
 "model.h*.attn.out.weight=model.layers.*.self_attn.o_proj.weight",
 "model.h*.mlp_norm.gain=model.layers.*.post_attention_layernorm.weight",
 "model.h*.mlp.gate.weight=model.layers.*.mlp.gate_proj.weight",
 "model.h*.mlp.up.weight=model.layers.*.mlp.up_proj.weight",
 "model.h*.mlp.down.weight=model.layers.*.mlp.down_proj.weight",
 "model.embed.weight=model.embed_tokens.weight", "model.norm.gain=model.norm.weight"]
layers = [{type = "embedding", name = "embed", vocabulary = 512, width = 64},
 {type = "decoder_block", name = "h", repeat = 5, heads = 8, kv_heads = 4, ffn = 172, )"
         R"(norm = "rms_norm", mlp = "swiglu", rope = "half"},
 {type = "rms_norm", name = "norm"},
 {type = "linear", name = "head", out = 512, bias = false, tie = {weight = "model.embed.weight"}}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
)";
}
const std::string kOnly = "only = true\nlength = 257\n";

std::vector<int32_t> story() {
  static const GoldenFile file("stories260k/reference.safetensors");
  std::vector<int32_t> ids;
  for (const double id : file.values("greedy_ids")) ids.push_back(static_cast<int32_t>(id));
  return ids;
}
std::vector<int32_t> beginning(size_t n) {
  const std::vector<int32_t> all = story();
  return {all.begin(), all.begin() + static_cast<long>(n)};
}
std::vector<int32_t> rest(size_t n, size_t count = 1000) {
  const std::vector<int32_t> all = story();
  return {all.begin() + static_cast<long>(n),
          all.begin() + static_cast<long>(std::min(all.size(), n + count))};
}

plait_prompt greedy(int64_t max_tokens = 0) {
  plait_prompt p{};
  p.sampling = &kGreedy;
  p.max_tokens = max_tokens;
  return p;
}

std::vector<int32_t> told(const std::string& toml, size_t prompt) {
  const Run run(toml);
  Generator g(run);
  const uint64_t s = g.add(beginning(prompt), greedy());
  g.finish();
  CHECK(g.of(s).finish == PLAIT_FINISH_LENGTH);
  return g.of(s).ids;
}

}  // namespace

TEST_SUITE_BEGIN("generate");

TEST_CASE("a trained Llama tells its story token by token, whatever the chunks of its prompt") {
  for (const std::string device : {"cpu", "reference"}) {
    CAPTURE(device);
    const std::string toml = stories(kOnly) + "[run]\ndevice = \"" + device + "\"\n";
    CHECK(told(toml, 1) == rest(1));
    if (device == "reference") continue;  // slow
    for (const char* chunk : {"1", "7", "64", "128"}) {
      CAPTURE(chunk);
      CHECK(told(stories(kOnly + "chunk = " + chunk + "\n"), 65) == rest(65));
    }
  }
}

TEST_CASE("sequences side by side: each as if alone, more of them than slots") {
  const Run run(stories(kOnly + "slots = 3\nchunk = 16\n"));
  Generator g(run);
  const std::vector<size_t> prompts{1, 8, 40, 2, 100, 17, 33};
  std::vector<uint64_t> added;
  for (const size_t n : prompts) added.push_back(g.add(beginning(n), greedy(20)));
  g.finish();
  for (size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    CHECK(g.of(added[i]).ids == rest(prompts[i], 20));
    CHECK(g.of(added[i]).finish == PLAIT_FINISH_LENGTH);
  }
  // Also after sequences that were cut off.
  const uint64_t dropped = g.add(beginning(50), greedy());
  g.step();
  host::check(plait_generator_cancel(g.get(), dropped));
  const uint64_t last = g.add(beginning(5), greedy(10));
  g.finish();
  CHECK(g.of(dropped).finish == PLAIT_FINISH_CANCELLED);
  CHECK(g.of(last).ids == rest(5, 10));
}

TEST_CASE("what is drawn depends on seed, sequence and place alone") {
  const auto drawn = [](const std::string& slots, size_t others, uint64_t seed) {
    const Run run(stories(kOnly + slots));
    Generator g(run);
    plait_sampling s{sizeof s, 0.8, 0.9, 0, 1.1, 40, seed};
    plait_prompt p = greedy(30);
    p.sampling = &s;
    const uint64_t first = g.add(beginning(3), p);
    for (size_t i = 0; i < others; ++i) g.add(beginning(10 + i), p);
    g.finish();
    return g.of(first).ids;
  };
  const std::vector<int32_t> alone = drawn("", 0, 1);
  CHECK(alone == drawn("slots = 4\nchunk = 2\n", 6, 1));
  CHECK(alone != drawn("", 0, 2));
}

TEST_CASE("train, generate and train on, in one session") {
  const GoldenFile golden("families.safetensors");
  const host::Family llama = host::families()[1];
  const std::string toml =
      host::experiment(llama, golden.path(), "cpu", "f32") + "[generate]\nslots = 2\n";
  std::vector<double> losses = Run(toml).losses(4), found;
  const Run run(toml);
  found.push_back(run.step().loss);
  Generator g(run);
  const uint64_t a = g.add({1, 2, 3}, greedy(5));
  g.finish();
  found.push_back(run.step().loss);
  found.push_back(run.step().loss);
  const uint64_t b = g.add({1, 2, 3}, greedy(5));
  g.finish();
  found.push_back(run.step().loss);
  CHECK(found == losses);
  CHECK(g.of(a).ids.size() == 5);
  CHECK(g.of(b).ids.size() == 5);
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
        for (const auto& [n, drawn] : first_tokens(run, prompts)) {
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

TEST_CASE("int8 weights follow steps and writes of the host") {
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

TEST_CASE("every family: cached logits are those of the whole text, beyond its window, too") {
  const GoldenFile golden("families.safetensors");
  constexpr int64_t kLength = 24, kPrompt = 8, kIds = 96;
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
      int64_t shape[2] = {1, kLength};
      plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
      const plait_feed feed{sizeof(plait_feed), "ids", &x};
      std::vector<float> logits(kLength * kIds);
      host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                        logits.size() * sizeof(float)));
      for (int64_t t = kPrompt - 1; t + 1 < kLength; ++t) {
        const auto row = logits.begin() + t * kIds;
        CHECK(std::max_element(row, row + kIds) - row == ids[static_cast<size_t>(t + 1)]);
        double sum = 0;
        for (auto v = row; v != row + kIds; ++v) sum += std::exp(double{*v});
        const double expected = double{row[ids[static_cast<size_t>(t + 1)]]} - std::log(sum);
        CHECK(drawn.log_probabilities[static_cast<size_t>(t + 1 - kPrompt)] ==
              doctest::Approx(expected).epsilon(1e-5));
      }
    }
}

// tests/golden/golden_greedy.py: in float64, the two greatest logits are never closer than 0.01.
TEST_CASE("every family: greedy ids are the library's, of prompts of 8, 1 and 40 ids at once") {
  const GoldenFile weights("families.safetensors");
  std::ifstream file(PLAIT_SOURCE_FOLDER "/tests/golden/greedy.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const host::Family& family : host::families())
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

TEST_CASE("end ids, fewest tokens, the callback") {
  const Run run(stories(kOnly));
  Generator g(run);
  const std::vector<int32_t> next = rest(4, 12);
  const int32_t end = next[5];
  const auto first = std::find(next.begin(), next.end(), end);
  plait_prompt p = greedy(12);
  p.end_ids = &end;
  p.n_end_ids = 1;
  uint64_t s = g.add(beginning(4), p);
  g.finish();
  CHECK(g.of(s).ids == std::vector<int32_t>(next.begin(), first + 1));
  CHECK(g.of(s).finish == PLAIT_FINISH_END);
  p.min_tokens = 12;  // as many as it may have: the end is never drawn
  s = g.add(beginning(4), p);
  g.finish();
  CHECK(g.of(s).ids.size() == 12);
  CHECK(std::find(g.of(s).ids.begin(), g.of(s).ids.end(), end) == g.of(s).ids.end());
  g.end_after = 3;
  s = g.add(beginning(4), greedy());
  g.finish();
  CHECK(g.of(s).ids == rest(4, 3));
  CHECK(g.of(s).finish == PLAIT_FINISH_CANCELLED);
}

TEST_CASE("text: whole characters only, stop texts across tokens") {
  const Run run(stories(kOnly));
  plait_tokenizer* t = nullptr;
  host::check(plait_tokenizer_open(run.engine(), "type = \"bytes\"", PLAIT_NTS, nullptr, &t));
  const std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)> owner(
      t, plait_tokenizer_close);
  Generator g(run, t);
  plait_sampling hot{sizeof hot, 3, 0, 0, 0, 0, 5};  // many bytes that are no UTF-8
  plait_prompt p{};
  p.text = "Once";
  p.size = PLAIT_NTS;
  p.sampling = &hot;
  p.max_tokens = 200;
  uint64_t s = g.add(p);
  g.finish();
  REQUIRE(g.of(s).ids.size() == 200);
  for (const int32_t id : g.of(s).ids) CHECK(id < 256);  // the tokenizer has no more
  // The same text as of all ids at once, made valid.
  plait_text* all = nullptr;
  host::check(plait_tokenizer_decode(t, g.of(s).ids.data(), 200, 0, &all));
  std::string whole(plait_text_data(all), plait_text_size(all)), valid;
  plait_text_free(all);
  plait_tokens* tokens = nullptr;  // bytes that are no UTF-8 are counted here
  host::check(plait_tokenizer_encode(t, g.of(s).text.data(), g.of(s).text.size(), 0, &tokens));
  CHECK(plait_tokens_replaced(tokens, nullptr) == 0);
  plait_tokens_free(tokens);
  // Characters that are whole in it are in the stream, in their order.
  size_t at = 0;
  for (const char c : whole)
    if (static_cast<unsigned char>(c) < 0x80) {
      at = g.of(s).text.find(c, at);
      REQUIRE(at != std::string::npos);
      ++at;
    }

  const std::string text = g.of(s).text, stop = text.substr(60, 5);
  const char* stops[] = {"no such text", stop.c_str()};
  p.stop = stops;
  p.n_stop = 2;
  plait_session_cancel(run.session());  // ends what is under way: nothing
  s = g.add(p);
  g.finish();
  CHECK(g.of(s).finish == PLAIT_FINISH_CANCELLED);
}

TEST_CASE("a stop text ends the text before it") {
  const Run run(stories(kOnly));
  plait_tokenizer* t = nullptr;
  host::check(plait_tokenizer_open(run.engine(), "type = \"bytes\"", PLAIT_NTS, nullptr, &t));
  const std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)> owner(
      t, plait_tokenizer_close);
  const auto told = [&](std::vector<const char*> stops) {
    Generator g(run, t);
    plait_prompt p = greedy(60);
    p.text = "ab";
    p.size = PLAIT_NTS;
    p.stop = stops.data();
    p.n_stop = stops.size();
    const uint64_t s = g.add(p);
    g.finish();
    return g.of(s);
  };
  const Drawn all = told({""});
  REQUIRE(all.text.size() > 20);
  CHECK(all.finish == PLAIT_FINISH_LENGTH);
  const std::string stop = all.text.substr(10, 4);
  const Drawn cut = told({stop.c_str()});
  CHECK(cut.finish == PLAIT_FINISH_STOP);
  CHECK(cut.text == all.text.substr(0, all.text.find(stop)));
  // One that never comes is held back and given at the end.
  const Drawn held = told({(all.text.substr(all.text.size() - 3) + "#").c_str()});
  CHECK(held.text == all.text);
}

TEST_CASE("a sequence that is cut off gives the text that was held back") {
  const Run run(stories(kOnly));
  plait_tokenizer* t = nullptr;
  host::check(plait_tokenizer_open(run.engine(), "type = \"bytes\"", PLAIT_NTS, nullptr, &t));
  const std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)> owner(
      t, plait_tokenizer_close);
  const auto told = [&](uint64_t end_after, const std::string& stop) {
    Generator g(run, t);
    g.end_after = end_after;
    plait_prompt p = greedy(40);
    p.text = "ab";
    p.size = PLAIT_NTS;
    const char* stops[] = {stop.c_str()};
    p.stop = stops;
    p.n_stop = 1;
    const uint64_t s = g.add(p);
    g.finish();
    return g.of(s);
  };
  const Drawn free = told(30, "");
  CHECK(free.finish == PLAIT_FINISH_CANCELLED);
  REQUIRE(free.text.size() > 10);
  const Drawn held = told(30, free.text.substr(free.text.size() - 3) + "#");
  CHECK(held.finish == PLAIT_FINISH_CANCELLED);
  CHECK(held.text == free.text);
}

// Its logits alone are not finite: the others go on with what they would have drawn.
TEST_CASE("a sequence that fails ends alone, and the step names it") {
  std::string toml = stories(kOnly + "slots = 3\n");
  const size_t tie = toml.find(", tie = {weight");
  toml.erase(tie, toml.find("}}]") + 1 - tie);
  const size_t load = toml.find("load = ");
  toml.erase(load, toml.find("layers = ") - load);
  const Run run(toml);
  std::vector<float> rows = run.read("model.embed.weight", 512 * 64);
  const auto told = [&](bool with_bad) {
    Generator g(run);
    const uint64_t a = g.add({1, 2}, greedy(6));
    const uint64_t bad = with_bad ? g.add({3, 500, 4}, greedy(6)) : a;
    const uint64_t b = g.add({5}, greedy(6));
    uint64_t left = 0;
    if (with_bad) {
      const host::Failure f = host::failure_of([&] { left = g.step(); });
      CHECK(f.code == PLAIT_ERR_NUMERIC);
      CHECK(f.text.find("sequence 1, token 0 after its prompt") != std::string::npos);
      CHECK(g.of(bad).finish == PLAIT_FINISH_FAILED);
      CHECK(g.of(bad).ids.empty());
      CHECK(g.of(a).ids.size() == 1);
    }
    g.finish();
    REQUIRE(std::find(g.of(a).ids.begin(), g.of(a).ids.end(), 500) == g.of(a).ids.end());
    return std::pair(g.of(a).ids, g.of(b).ids);
  };
  const auto alone = told(false);
  rows[500 * 64 + 3] = std::nanf("");
  host::check(plait_session_write(run.session(), "model.embed.weight", rows.data(),
                                  rows.size() * sizeof(float)));
  const auto beside = told(true);
  CHECK(beside.first == alone.first);
  CHECK(beside.second == alone.second);
  CHECK(beside.first.size() == 6);
}

// Neither data, nor a loss, nor an optimizer, nor another model is needed.
TEST_CASE("an experiment that generates names its model and its input, and no more") {
  const std::string writer = R"([models.writer]
layers = [{type = "embedding", name = "embed", vocabulary = 32, width = 16, from = ["words"]},
 {type = "decoder_block", name = "h", heads = 2, rope = "half"},
 {type = "linear", name = "head", out = 32}]
)";
  const std::string critic = R"([models.critic]
layers = [{type = "linear", name = "judge", out = 1, from = ["image"]}]
)";
  const std::string generate =
      "[generate]\nonly = true\nlength = 16\nmodel = \"writer\"\ninput = \"words\"\n";
  const auto told = [](const std::string& toml) {
    const Run run(toml);
    Generator g(run);
    const uint64_t s = g.add({1, 2, 3}, greedy());
    g.finish();
    return g.of(s).ids;
  };
  const std::vector<int32_t> alone = told(generate + writer);
  CHECK(alone.size() == 13);
  CHECK(told(generate + critic + writer) == alone);
  const host::Failure f = host::failure_of([&] { told(generate + critic + writer + "x = 1\n"); });
  CHECK(f.text.find("models.writer.x") != std::string::npos);
}

TEST_CASE("prefix caching: a prompt goes on where a slot is, unless parameters have changed") {
  const auto told = [](Generator& g, size_t prompt, size_t count) {
    const uint64_t s = g.add(beginning(prompt), greedy(static_cast<int64_t>(count)));
    g.finish();
    CHECK(g.of(s).ids == rest(prompt, count));
    return g.of(s).reused;
  };
  {
    const Run run(stories(kOnly + "chunk = 16\n"));
    Generator g(run);
    CHECK(told(g, 40, 20) == 0);
    CHECK(told(g, 80, 10) == 0);  // not asked for
  }
  const Run run(stories(kOnly + "chunk = 16\nslots = 2\nprefix_caching = true\n"));
  Generator g(run);
  CHECK(told(g, 40, 20) == 0);
  CHECK(told(g, 80, 10) == 59);  // 40 of the prompt, 19 that were drawn and read again
  CHECK(told(g, 30, 5) == 0);    // 29 would be reused, but 60 lost: the other slot is empty
  CHECK(told(g, 35, 3) == 34);   // the last token of a prompt is always computed
  // Parameters that have changed: by a write, with the same values.
  const auto changes = [&] {
    std::vector<float> gain = run.read("model.norm.gain", 64);
    host::check(plait_session_write(run.session(), "model.norm.gain", gain.data(),
                                    gain.size() * sizeof(float)));
  };
  changes();
  CHECK(told(g, 35, 3) == 0);
  CHECK(told(g, 36, 3) == 35);
  // One whose first tokens were cached before the change is not reused, although it ends after it.
  const uint64_t before = g.add(beginning(60), greedy(8));
  g.step();
  changes();
  const uint64_t after = g.add(beginning(10), greedy(1));
  g.finish();
  CHECK(g.of(before).ids.size() == 8);
  CHECK(g.of(after).reused == 0);
  CHECK(told(g, 62, 2) == 10);  // of the second
  // One that was cut off keeps what it has.
  const std::vector<int32_t> other{5, 6, 7, 8, 9, 10};
  g.end_after = 4;
  const uint64_t cut = g.add(other, greedy(20));
  g.finish();
  g.end_after = 0;
  std::vector<int32_t> longer = other;
  longer.insert(longer.end(), g.of(cut).ids.begin(), g.of(cut).ids.end());
  const uint64_t more = g.add(longer, greedy(3));
  g.finish();
  CHECK(g.of(more).reused == 9);
  // A host may write through a view at any time.
  plait_dl_managed* view = nullptr;
  host::check(plait_session_view(run.session(), "model.norm.gain", &view));
  CHECK(told(g, 62, 2) == 0);
  CHECK(told(g, 62, 2) == 0);
  view->deleter(view);
}

// The reference is the same program without a cache; both round to 16 bits at the same places, but
// sum in another order, so a logit may differ by some units in the last place of its terms.
TEST_CASE("16 bits: cached logits are near those of the whole text, and near those of f32") {
  const GoldenFile golden("families.safetensors");
  constexpr int64_t kLength = 24, kPrompt = 8, kIds = 96;
  std::vector<int32_t> ids;
  for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
  ids.resize(kPrompt);
  for (const host::Family& family : host::families()) {
    const std::string name = family.name;
    CAPTURE(name);
    const std::pair<std::string, double> kTypes[] = {{"bf16", 0x1p-4}, {"f16", 0x1p-7}};
    for (const auto& [type, tolerance] : kTypes)
      for (const std::string cache : {"compute", "f32"}) {
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
          int64_t shape[2] = {1, kLength};
          plait_dl_tensor x{text.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
          const plait_feed feed{sizeof(plait_feed), "ids", &x};
          std::vector<float> logits(kLength * kIds);
          host::check(plait_session_predict(other.session(), &feed, 1, "output", logits.data(),
                                            logits.size() * sizeof(float)));
          for (int64_t i = kPrompt - 1; i + 1 < kLength; ++i) {
            const auto row = logits.begin() + i * kIds;
            double sum = 0;
            for (auto v = row; v != row + kIds; ++v) sum += std::exp(double{*v});
            const double expected = double{row[text[static_cast<size_t>(i + 1)]]} - std::log(sum);
            CHECK(std::abs(drawn.log_probabilities[static_cast<size_t>(i + 1 - kPrompt)] -
                           expected) < tolerance);
          }
        }
      }
  }
}

TEST_CASE("what a host gets wrong is named") {
  const auto refused = [](const std::string& toml, auto&& use) {
    return host::failure_of([&] {
             const Run run(toml);
             use(run);
           })
        .text;
  };
  const auto contains = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto open = [](const Run& run) { const Generator g(run); };
  contains(refused(host::small(), open), "generate.slots is 0");
  contains(refused(host::small("[generate]\nslots = 1\n"), open), "has no field of token ids");
  contains(refused(stories("only = true"), open), "generate.length");
  contains(refused(stories("only = true\nlength = 1"), open), "leaves no room for a token");
  contains(refused(stories(kOnly + "end = [4294967299]\n"), open),
           "generate.end has the id 4294967299, expected ids of model 'model', 0 to 511");
  contains(refused(stories(kOnly), [](const Run& run) { run.step(); }),
           "the plan generates and nothing else");
  contains(refused(stories(kOnly), [](const Run& run) { const Generator one(run), two(run); }),
           "has a generator already");
  const auto adds = [&](const std::vector<int32_t>& ids, plait_prompt p = greedy()) {
    return refused(stories(kOnly), [&](const Run& run) { Generator(run).add(ids, p); });
  };
  contains(adds({}), "the prompt is empty");
  contains(adds({1, 512}), "token 1 of the prompt is 512, the model has ids 0 to 511");
  contains(adds(std::vector<int32_t>(257, 1)),
           "has 257 tokens, expected at most 256, one less than generate.length");
  plait_prompt p{};
  p.text = "Once";
  p.size = PLAIT_NTS;
  contains(refused(stories(kOnly), [&](const Run& run) { Generator(run).add(p); }),
           "plait_prompt.text needs a tokenizer");
  std::vector<int32_t> every(512);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<int32_t>(i);
  p = greedy();
  p.min_tokens = 1;
  p.end_ids = every.data();
  p.n_end_ids = every.size();
  contains(adds({1}, p), "all 512 ids are end ids, and min_tokens is 1");
  plait_sampling s = kGreedy;
  s.top_p = 1.5;
  p = {};
  p.sampling = &s;
  contains(adds({1}, p), "top_p is 1.5, expected a number above 0, at most 1");
}

TEST_CASE("ids that the model writes but cannot read are neither taken nor drawn") {
  for (const std::string slots : {"1", "2"}) {
    CAPTURE(slots);
    std::string toml = stories(kOnly + "slots = " + slots + "\n");
    toml.replace(toml.find("out = 512, bias = false, tie"), std::string::npos,
                 "out = 4000, bias = false}]\n[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype "
                 "= \"sgd\"\n");
    const Run run(
        toml.replace(toml.find("load = "), toml.find("layers = ") - toml.find("load = "), ""));
    Generator g(run);
    const plait_sampling hot{sizeof hot, 5, 0, 0, 0, 0, 3};
    plait_prompt p{};
    p.sampling = &hot;
    const uint64_t s = g.add({1}, p);
    g.finish();
    for (const int32_t id : g.of(s).ids) CHECK(id < 512);
    CHECK(host::failure_of([&] { g.add({600}, p); }).text.find("ids 0 to 511") !=
          std::string::npos);
  }
}

TEST_CASE("a generator outlives its session and says so") {
  plait_generator* g = nullptr;
  {
    const Run run(stories(kOnly));
    plait_generator_options o{sizeof o, nullptr};
    host::check(plait_generator_open(run.session(), &o, &g));
  }
  const host::Failure f =
      host::failure_of([&] { host::check(plait_generator_step(g, nullptr, nullptr, nullptr)); });
  CHECK(f.code == PLAIT_ERR_STATE);
  plait_generator_close(g);
}

TEST_SUITE_END();
