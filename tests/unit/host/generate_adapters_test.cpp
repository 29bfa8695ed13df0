// Generation with an adapter per sequence (model.adapter_field).
#include <plait/adapters.h>

#include <cmath>

#include "tests/unit/host/generating.hpp"

using host::beginning;
using host::Drawn;
using host::Generator;
using host::greedy;
using host::kOnly;
using host::rest;
using host::Run;
using host::stories;

namespace {

constexpr int kLayers = 5, kWidth = 64, kRank = 3;
constexpr size_t kPrompt = 9, kTokens = 24;

std::string entry(const std::string& name, const std::string& type = "lora") {
  return "[[model.adapters]]\ntype = \"" + type + "\"\nname = \"" + name +
         "\"\nmatch = [\"model.h*.attn.q.weight\", \"model.h*.mlp.down.weight\"]\n" +
         (type == "lora" ? "rank = " + std::to_string(kRank) + "\n" : "");
}
// All adapters at once, or one for all sequences.
std::string by_sample(const std::string& generate = "slots = 4\n") {
  std::string toml = stories(kOnly + generate);
  const std::string model = "[model]\n";
  toml.insert(toml.find(model) + model.size(), "adapter_field = \"adapter\"\n");
  return toml + entry("poems") + entry("code") + entry("scale", "ia3");
}
std::string alone(const std::string& name, const std::string& type = "lora") {
  return stories(kOnly) + entry(name, type);
}

void write(const Run& run, const std::string& parameter, size_t n, double around, int salt) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(
        around + 0.25 * std::sin(static_cast<double>(i) * 1.37 + static_cast<double>(salt)));
  host::check(plait_session_write(run.session(), parameter.c_str(), values.data(),
                                  values.size() * sizeof(float)));
}
// Values that change what the model says.
void teach(const Run& run, const std::string& name) {
  const int salt = name == "poems" ? 1 : name == "code" ? 5 : 9;
  for (int h = 0; h < kLayers; ++h)
    for (const std::string target : {".attn.q.weight.", ".mlp.down.weight."}) {
      const std::string own = "model.h" + std::to_string(h) + target + name + ".";
      if (name == "scale")
        write(run, own + "factor", kWidth, 1, salt + h);
      else
        write(run, own + "b", static_cast<size_t>(kWidth) * kRank, 0, salt + h);
    }
}

plait_prompt with(const char* adapter) {
  plait_prompt p = greedy(kTokens);
  p.adapter = adapter;
  p.log_probabilities = 1;
  return p;
}
Drawn told(const Run& run, const char* adapter = nullptr) {
  Generator g(run);
  const uint64_t s = g.add(beginning(kPrompt), with(adapter));
  g.finish();
  return g.of(s);
}
void check_same(const Drawn& found, const Drawn& expected) {
  CHECK(found.ids == expected.ids);
  REQUIRE(found.log_probabilities.size() == expected.log_probabilities.size());
  for (size_t i = 0; i < found.log_probabilities.size(); ++i)
    CHECK(std::abs(found.log_probabilities[i] - expected.log_probabilities[i]) < 1e-5);
}
const char* const kNames[] = {"poems", "code", "scale"};

}  // namespace

TEST_SUITE_BEGIN("generate");

TEST_CASE("each sequence takes an adapter, side by side as alone") {
  const Run run(by_sample());
  std::vector<Drawn> expected{told(Run(stories(kOnly)))};
  CHECK(expected[0].ids == rest(kPrompt, kTokens));
  for (const char* name : kNames) {
    teach(run, name);
    const Run one(alone(name, name == std::string("scale") ? "ia3" : "lora"));
    teach(one, name);
    expected.push_back(told(one));
    for (size_t i = 0; i + 1 < expected.size(); ++i)
      CHECK(expected[i].log_probabilities != expected.back().log_probabilities);
  }
  check_same(told(run, "base"), expected[0]);
  Generator g(run);
  std::vector<uint64_t> sequences;
  // More of them than slots: a slot takes another adapter.
  for (int again = 0; again < 2; ++again)
    for (const char* name : {static_cast<const char*>(nullptr), kNames[0], kNames[1], kNames[2]})
      sequences.push_back(g.add(beginning(kPrompt), with(name)));
  g.finish();
  for (size_t i = 0; i < sequences.size(); ++i) {
    CAPTURE(i);
    check_same(g.of(sequences[i]), expected[i % 4]);
  }
}

// Virtual tokens lie at positions of a sequence, and each sequence has its own.
TEST_CASE("virtual tokens of several adapters, in several slots as one after the other") {
  constexpr int kVirtual = 4;
  const auto entry_of = [](const std::string& type, const std::string& name) {
    return "[[model.adapters]]\ntype = \"" + type + "\"\nname = \"" + name +
           "\"\nn_tokens = " + std::to_string(kVirtual) + "\ninit_std = 0.5\nmatch = " +
           (type == "prefix" ? "[\"model.h*.attn.k.weight\", \"model.h*.attn.v.weight\"]\n"
                             : "[\"model.embed.weight\"]\n");
  };
  std::vector<int32_t> prompt(kVirtual, 7);
  for (const int32_t id : beginning(kPrompt)) prompt.push_back(id);
  const auto drawn = [&](const Run& run, const char* adapter) {
    Generator g(run);
    const uint64_t s = g.add(prompt, with(adapter));
    g.finish();
    return g.of(s);
  };
  for (const std::string type : {"soft_prompt", "prefix"}) {
    CAPTURE(type);
    const auto experiment = [&](const std::string& generate) {
      std::string toml = stories(kOnly + generate);
      const std::string model = "[model]\n";
      toml.insert(toml.find(model) + model.size(), "adapter_field = \"adapter\"\n");
      return toml + entry_of(type, "poems") + entry_of(type, "code");
    };
    const Run run(experiment("slots = 3\nchunk = 5\n")), one_slot(experiment("slots = 1\n"));
    const char* const names[] = {nullptr, "poems", "code"};
    std::vector<Drawn> expected;
    for (const char* name : names) {
      CAPTURE(name);
      const Run alone(stories(kOnly) + (name ? entry_of(type, name) : ""));
      expected.push_back(drawn(alone, nullptr));
      check_same(drawn(one_slot, name), expected.back());
      for (size_t i = 0; i + 1 < expected.size(); ++i)
        CHECK(expected[i].log_probabilities != expected.back().log_probabilities);
    }
    Generator g(run);
    std::vector<uint64_t> sequences;
    for (int again = 0; again < 2; ++again)
      for (const char* name : names) sequences.push_back(g.add(prompt, with(name)));
    g.finish();
    for (size_t i = 0; i < sequences.size(); ++i) {
      CAPTURE(i);
      check_same(g.of(sequences[i]), expected[i % 3]);
    }
  }
}

TEST_CASE("what a slot has cached is reused by the same adapter only") {
  const Run run(by_sample("slots = 1\nprefix_caching = true\n")), plain(by_sample());
  for (const Run* one : {&run, &plain})
    for (const char* name : kNames) teach(*one, name);
  Generator g(run);
  const auto next = [&](const char* name) {
    const uint64_t s = g.add(beginning(kPrompt), with(name));
    g.finish();
    return g.of(s);
  };
  for (const char* name : {static_cast<const char*>(nullptr), kNames[0], kNames[1]}) {
    CAPTURE(name);
    const Drawn expected = told(plain, name);
    const Drawn first = next(name), second = next(name);
    CHECK(first.reused == 0);
    CHECK(second.reused == kPrompt - 1);
    check_same(first, expected);
    check_same(second, expected);
  }
}

TEST_CASE("an adapter that is loaded while a generator is open answers from then on") {
  const host::TempFolder folder;
  const Run run(by_sample("slots = 2\nprefix_caching = true\n")), one(alone("poems"));
  teach(one, "poems");
  host::check(
      plait_session_save_adapter(one.session(), nullptr, "poems", (folder / "poems").c_str()));
  const Drawn poems = told(one);
  Generator g(run);
  const auto next = [&](const char* name) {
    const uint64_t s = g.add(beginning(kPrompt), with(name));
    g.finish();
    return g.of(s);
  };
  CHECK(next("code").ids == rest(kPrompt, kTokens));  // it changes nothing yet
  plait_adapter_source source{};
  source.struct_size = sizeof source;
  const std::string path = folder / "poems";
  source.path = path.c_str();
  host::check(plait_session_load_adapter(run.session(), nullptr, "code", &source));
  check_same(next("code"), poems);
  CHECK(next("poems").ids == rest(kPrompt, kTokens));
  host::check(plait_session_reset_adapter(run.session(), nullptr, "code"));
  CHECK(next("code").ids == rest(kPrompt, kTokens));
}

TEST_CASE("an adapter that a prompt cannot take is said") {
  const Run run(by_sample()), one(alone("poems"));
  Generator g(run), of_one(one);
  const auto refused = [](const Generator& to, const char* name) {
    return host::failure_of([&] { const_cast<Generator&>(to).add(beginning(2), with(name)); });
  };
  CHECK(refused(g, "poem").code == PLAIT_ERR_NOT_FOUND);
  CHECK(refused(g, "poem").text.find("has no adapter 'poem' (did you mean 'poems'?); there are: "
                                     "poems, code, scale") != std::string::npos);
  CHECK(refused(of_one, "poems").code == PLAIT_ERR_CONFIG);
  CHECK(refused(of_one, "poems").text.find("set model.adapter_field") != std::string::npos);
}

TEST_SUITE_END();
