// Generation through the C ABI: a trained Llama's story, slots, ends, texts, and what a host can
// get wrong.
#include <cmath>

#include "tests/unit/host/families.hpp"
#include "tests/unit/host/generating.hpp"

using host::beginning;
using host::Drawn;
using host::Generator;
using host::greedy;
using host::kGreedy;
using host::kOnly;
using host::rest;
using host::Run;
using host::stories;
using plait::test::GoldenFile;

namespace {

std::vector<int32_t> told(const std::string& toml, size_t prompt) {
  const Run run(toml);
  Generator g(run);
  const uint64_t s = g.add(beginning(prompt), greedy());
  g.finish();
  CHECK(g.of(s).finish == PLAIT_FINISH_LENGTH);
  return g.of(s).ids;
}

std::unique_ptr<plait_tokenizer, decltype(&plait_tokenizer_close)> bytes_of(const Run& run) {
  plait_tokenizer* t = nullptr;
  host::check(plait_tokenizer_open(run.engine(), "type = \"bytes\"", PLAIT_NTS, nullptr, &t));
  return {t, plait_tokenizer_close};
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

// A sequence whose most likely tokens are wanted is drawn by the host, one beside it by the device.
TEST_CASE("host and device draw the same") {
  const auto drawn = [](const plait_sampling& s, uint64_t best) {
    const Run run(stories(kOnly + "slots = 3\n"));
    Generator g(run);
    plait_prompt p = greedy(60);
    p.sampling = &s;
    p.log_probabilities = 1;
    p.best = best;
    const uint64_t first = g.add(beginning(3), p);
    p.best = 0;
    g.add(beginning(9), p);
    g.finish();
    return g.of(first);
  };
  const plait_sampling hot{sizeof hot, 1.3, 0, 0, 0, 0, 5},
      cut{sizeof cut, 0.9, 0.85, 0.01, 0, 30, 6};
  for (const plait_sampling& s : {kGreedy, hot, cut}) {
    const Drawn by_device = drawn(s, 0), by_host = drawn(s, 2);
    REQUIRE(by_device.ids.size() == 60);
    CHECK(by_device.ids == by_host.ids);
    for (size_t i = 0; i < 60; ++i)
      CHECK(by_device.log_probabilities[i] ==
            doctest::Approx(by_host.log_probabilities[i]).epsilon(1e-6));
  }
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

TEST_CASE("weights of bf16 alone generate while they train, also as int8") {
  const GoldenFile golden("families.safetensors");
  const host::Family llama = host::families()[1];
  const std::string toml = host::experiment(llama, golden.path(), "cpu", "bf16");
  const std::vector<const char*> alone{"precision.master=false"};
  const std::vector<double> losses = Run(toml, "", PLAIT_RESUME_NEVER, alone).losses(2);
  for (const char* weights : {"generate.weights=compute", "generate.weights=int8"}) {
    CAPTURE(weights);
    const Run run(toml, "", PLAIT_RESUME_NEVER,
                  {"precision.master=false", "generate.slots=1", weights});
    Generator g(run);
    std::vector<double> found;
    std::vector<std::vector<double>> drawn;
    for (int round = 0; round < 2; ++round) {
      plait_prompt prompt = greedy(5);
      prompt.log_probabilities = 1;
      const uint64_t sequence = g.add({1, 2, 3}, prompt);
      g.finish();
      drawn.push_back(g.of(sequence).log_probabilities);
      REQUIRE(drawn.back().size() == 5);
      for (const double p : drawn.back()) CHECK(std::isfinite(p));
      found.push_back(run.step().loss);
    }
    CHECK(drawn[0] != drawn[1]);  // of the weights as they are, after a step
    CHECK(found == losses);
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
  const auto tokenizer = bytes_of(run);
  plait_tokenizer* t = tokenizer.get();
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

TEST_CASE("ids stand in front of a text") {
  const Run run(stories(kOnly));
  const auto tokenizer = bytes_of(run);
  plait_tokenizer* t = tokenizer.get();
  Generator g(run, t);
  const std::vector<int32_t> front{1, 30, 2};
  plait_prompt p = greedy(20);
  p.log_probabilities = 1;
  const uint64_t ids = g.add({1, 30, 2, 'a', 'b'}, p);
  p.text = "ab";
  p.size = PLAIT_NTS;
  const uint64_t without = g.add(p), both = g.add(front, p);
  g.finish();
  CHECK(g.of(both).ids == g.of(ids).ids);
  CHECK(g.of(both).log_probabilities == g.of(ids).log_probabilities);
  CHECK(g.of(both).log_probabilities != g.of(without).log_probabilities);
}

TEST_CASE("a stop text ends the text before it") {
  const Run run(stories(kOnly));
  const auto tokenizer = bytes_of(run);
  plait_tokenizer* t = tokenizer.get();
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
  const auto tokenizer = bytes_of(run);
  plait_tokenizer* t = tokenizer.get();
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

TEST_CASE("prefix caching: a prompt reuses what a slot has, unless parameters have changed") {
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

TEST_CASE("prefix caching: keys are reused on one side of the length at which angles change") {
  const GoldenFile golden("families.safetensors");
  const host::Family family = host::families_by_length()[0];  // beyond 24 tokens
  const std::string toml = host::experiment(family, golden.path(), "cpu", "f32") +
                           "[generate]\nonly = true\nlength = 64\nchunk = 5\n";
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 40; ++i) text.push_back(7 * i % 96);
  const auto prompt = [&](size_t n) {
    return std::vector<int32_t>(text.begin(), text.begin() + static_cast<long>(n));
  };
  const Run run(toml + "prefix_caching = true\n"), plain(toml);
  Generator g(run), fresh(plain);
  const auto reused = [&](size_t n, int64_t count) {
    CAPTURE(n);
    const uint64_t a = g.add(prompt(n), greedy(count)), b = fresh.add(prompt(n), greedy(count));
    g.finish();
    fresh.finish();
    CHECK(g.of(a).ids == fresh.of(b).ids);
    return g.of(a).reused;
  };
  CHECK(reused(20, 3) == 0);   // 22 tokens are cached, as short ones have them
  CHECK(reused(24, 1) == 20);  // the longest of the short
  CHECK(reused(25, 1) == 0);   // the shortest of the long
  CHECK(reused(30, 2) == 25);
  CHECK(reused(24, 2) == 0);  // 24 and a drawn one, which makes it long: all are cached anew
  CHECK(reused(26, 1) == 24);
}

// Sums of the weights of more logits would not fit in 64 bits.
TEST_CASE("a vocabulary that is too large to draw from is refused with the plan") {
  plait_engine* engine = host::new_engine();
  const auto planned = [&](int64_t vocabulary) {
    const std::string toml = R"([batch]
global = 1
[generate]
only = true
length = 4
[model]
layers = [{type = "embedding", vocabulary = 9, width = 1}, {type = "attention", heads = 1},
 {type = "linear", bias = false, out = )" +
                             std::to_string(vocabulary) + "}]\n";
    plait_experiment* x = nullptr;
    host::check(plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x));
    plait_plan* p = nullptr;
    const host::Failure f = host::failure_of([&] { host::check(plait_plan_make(x, &p)); });
    plait_plan_close(p);
    plait_experiment_close(x);
    return f.text;
  };
  CHECK(planned(16777215) == "no error");
  const std::string text = planned(16777216);
  CAPTURE(text);
  CHECK(text.find("f32 (1, 1, 16777216) for the next tokens, expected a vocabulary of at most "
                  "16777215") != std::string::npos);
  plait_engine_close(engine);
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
           "a prompt of text needs a tokenizer");
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
