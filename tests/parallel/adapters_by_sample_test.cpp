// Several adapters at once, each for samples of its own: as if each were alone, on every kind of
// grid.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <plait/adapters.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kTexts = 40, kLength = 12;

// A safetensors file of texts: of numbers that a rule makes of the place.
class Tensors {
 public:
  template <class F>
  void add(const std::string& name, const std::vector<int>& dims, F&& number) {
    int n = 1;
    for (const int d : dims) n *= d;
    const size_t begin = bytes_.size();
    for (int i = 0; i < n; ++i) {
      const int32_t v = number(i);
      bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
    header_[name] = {{"dtype", "I32"}, {"shape", dims}, {"data_offsets", {begin, bytes_.size()}}};
  }
  void write(const std::string& path) const {
    const std::string header = header_.dump();
    const uint64_t n = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&n), sizeof n);
    file << header << bytes_;
  }

 private:
  nlohmann::json header_;
  std::string bytes_;
};

// numbers: of the adapters of texts 0, 1, ..., over and over.
std::vector<std::string> data(const Folder& folder, const std::string& name,
                              const std::vector<int>& numbers, const std::string& of = "train",
                              int texts = kTexts) {
  Tensors file;
  file.add("ids", {texts, kLength}, [](int i) { return (i * i + 7 * i) % 61; });
  file.add("next", {texts, kLength}, [](int i) { return (3 * i * i + i + i / kLength) % 64; });
  file.add("adapter", {texts},
           [&](int i) { return numbers[static_cast<size_t>(i) % numbers.size()]; });
  const std::string path = folder / (name + ".safetensors");
  file.write(path);
  return {"data." + of + "={type = \"safetensors\", path = \"" + path +
          "\", input = [\"ids\", \"adapter\"], target = [\"next\"], shuffle = false}"};
}

// Two structures of one method, and others beside them; what an adapter has of a target is one
// entry.
const std::vector<std::pair<std::vector<std::string>, std::string>> kEntries{
    {{"poems", "code"},
     "type = \"lora\"\nmatch = [\"*.attn.*.weight\", \"*.mlp.*.weight\"]\n"
     "exclude = [\"*.attn.k.weight\", \"*.mlp.gate.weight\", \"*.mlp.up.weight\"]\n"
     "rank = 3\nalpha = 6\ndropout = 0.2\n"},
    {{"chat"},
     "type = \"lora\"\nmatch = [\"*.attn.*.weight\", \"*.mlp.down.weight\"]\n"
     "exclude = [\"*.attn.k.weight\", \"*.attn.v.weight\"]\nrank = 5\ndropout = 0.1\n"},
    {{"poems", "code", "chat"}, "type = \"ia3\"\nmatch = [\"*.attn.k.weight\"]\n"},
    {{"chat"}, "type = \"ia3\"\nmatch = [\"*.mlp.up.weight\"]\non = \"input\"\n"},
    {{"poems", "chat"}, "type = \"bottleneck\"\nmatch = [\"model.norm\"]\nwidth = 6\n"},
    {{"poems", "code"},
     "type = \"token_rows\"\nmatch = [\"model.ids.weight\", \"model.head.weight\"]\n"
     "ids = [9, 10, 11, 3, 40]\n"},
    {{"chat"}, "type = \"lora\"\nmatch = [\"model.ids.weight\"]\nrank = 2\n"},
    {{"chat"}, "type = \"dora\"\nmatch = [\"*.mlp.gate.weight\"]\nrank = 2\n"},
    {{"poems"}, "type = \"pissa\"\nmatch = [\"*.mlp.gate.weight\"]\nrank = 2\n"},
    {{"code"}, "type = \"soft_prompt\"\nmatch = [\"model.ids\"]\nn_tokens = 2\n"},
    {{"code"}, "type = \"prefix\"\nmatch = [\"*.mlp.gate.weight\"]\nn_tokens = 2\n"},
    {{"chat"}, "type = \"vera\"\nmatch = [\"model.head.weight\"]\nrank = 8\n"},
    {{"poems", "code"},
     "type = \"adalora\"\nmatch = [\"*.mlp.up.weight\"]\n"
     "init_rank = 4\ntarget_rank = 3\ntinit = 1\ntfinal = 32\n"},
    {{"chat"},
     "type = \"adalora\"\nmatch = [\"*.attn.v.weight\"]\n"
     "init_rank = 3\ntarget_rank = 2\ntfinal = 30\ndelta_t = 2\n"},
};
const std::vector<std::string> kNames{"poems", "code", "chat"};

// The entries that these adapters have.
std::string adapters_of(const std::vector<std::string>& names) {
  std::string toml;
  for (const auto& [all, entry] : kEntries) {
    std::string own;
    for (const std::string& name : all)
      if (std::count(names.begin(), names.end(), name)) own += "\"" + name + "\", ";
    if (!own.empty()) toml += "[[model.adapters]]\nnames = [" + own + "]\n" + entry;
  }
  return toml;
}

JobSpec job(const std::string& toml, std::vector<std::string> overrides,
            const std::string& compute = "f64") {
  overrides.insert(overrides.end(), {"batch.eval=8", "run.steps=40", "precision.compute=" + compute,
                                     "optimizer.clip_grad_norm=0"});
  return {toml, std::move(overrides), {}, {}};
}
std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
const std::vector<std::string> kBySample{"model.adapter_field=adapter"};

bool is_of(const std::string& parameter, const std::string& adapter) {
  return parameter.find("." + adapter + ".") != std::string::npos;
}
// VeRA's matrices stay as they are drawn, and what PiSSA subtracts stays as it begins.
bool is_trained(const std::string& parameter) {
  const bool vera = parameter.find("model.head.weight.chat.") != std::string::npos;
  if (parameter.ends_with(".initial_a") || parameter.ends_with(".minus_initial_b")) return false;
  return (is_of(parameter, "poems") || is_of(parameter, "code") || is_of(parameter, "chat")) &&
         !(vera && (parameter.ends_with(".a") || parameter.ends_with(".project")));
}

void check_near(const std::vector<double>& got, const std::vector<double>& expected,
                double tolerance) {
  REQUIRE(got.size() == expected.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(got[i] - expected[i]));
  }
  CHECK(difference <= tolerance * largest);
}

// The parameters of one adapter.
void check_adapter(const Outcome& got, const Outcome& expected, const std::string& adapter,
                   double tolerance) {
  size_t n = 0;
  for (const auto& [name, values] : expected.weights) {
    if (!is_of(name, adapter)) continue;
    CAPTURE(name);
    CHECK(got.initial.at(name) == expected.initial.at(name));
    check_near(got.weights.at(name), values, tolerance);
    ++n;
  }
  CHECK(n > 0);
}

void check_only_adapters_change(const Outcome& o) {
  for (const auto& [name, before] : o.initial) {
    CAPTURE(name);
    CHECK((o.weights.at(name) == before) == !is_trained(name));
  }
}

// A GPT-2 has biases, and its table is also its head.
const std::string kBiases =
    "[[model.adapters]]\nnames = [\"chat\", \"code\"]\ntype = \"bitfit\"\n"
    "match = [\"*.attn.*.weight\", \"*.mlp.*.weight\"]\n"
    "[[model.adapters]]\nnames = [\"poems\"]\ntype = \"lora\"\n"
    "match = [\"model.ids.weight\", \"model.head.weight\"]\n";

// A mix of all three and of samples of the base alone, several of them in each batch.
const std::vector<int> kMix{0, 1, 2, -1, 1, 2, 0, 1};

void check_grids(const Folder& folder, const std::string& model, const std::string& compute,
                 double tolerance, int steps, const std::vector<std::string>& overrides = {}) {
  const JobSpec joint = job(
      model, data(folder, "mix", kMix) + data(folder, "mix", kMix, "eval") + kBySample + overrides,
      compute);
  const Outcome expected = alone(joint, steps);
  check_only_adapters_change(expected);
  for (const Layout& layout : few_layouts()) {
    CAPTURE(layout.text());
    const auto got = run(on(joint, layout), layout.ranks(), train(steps));
    for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    for (const Outcome& o : got) check_equal(o, got[0]);
    CHECK(got[0].initial == expected.initial);
    check_metrics(got[0], expected, tolerance);
    check_only_adapters_change(got[0]);
    CHECK(got[0].arena == got[0].planned);
  }
}

}  // namespace

TEST_SUITE("adapters_by_sample") {
  // One adapter that all samples take is what it is without adapter_field, method by method.
  TEST_CASE("by sample is by model where all samples take one adapter") {
    const Folder folder;
    const auto all = data(folder, "one", {0}) + data(folder, "one", {0}, "eval");
    const auto check = [&](const std::string& toml) {
      CAPTURE(toml);
      const Outcome got = alone(job(toml, all + kBySample), 4);
      check_same({got}, alone(job(toml, all), 4), 1e-11);
    };
    for (const auto& [names, entry] : kEntries)
      check(llama_model(folder) + "[[model.adapters]]\nname = \"" + names[0] + "\"\n" + entry);
    // The bias of keys is left out: its gradient is 0 but for rounding.
    check(gpt2_model(folder) +
          "[[model.adapters]]\ntype = \"bitfit\"\nmatch = [\"*.weight\"]\n"
          "exclude = [\"*.attn.k.weight\"]\n");
  }
  TEST_CASE("three adapters at once learn what each learns alone") {
    const Folder folder;
    for (const auto& [compute, tolerance] : {std::pair{"f64", 1e-12}, std::pair{"f32", 1e-5}}) {
      CAPTURE(compute);
      const Outcome joint = alone(
          job(llama_model(folder) + adapters_of(kNames),
              data(folder, "mix", kMix) + data(folder, "mix", kMix, "eval") + kBySample, compute),
          8);
      for (size_t k = 0; k < kNames.size(); ++k) {
        // The same samples; those without the adapter are the base's.
        std::vector<int> own;
        for (const int i : kMix) own.push_back(i == static_cast<int>(k) ? 0 : -1);
        const auto samples = data(folder, "own", own) + data(folder, "own", own, "eval");
        const Outcome one = alone(
            job(llama_model(folder) + adapters_of({kNames[k]}), samples + kBySample, compute), 8);
        check_adapter(joint, one, kNames[k], tolerance);
      }
    }
  }
  TEST_CASE("an adapter without samples stays, and samples without an adapter see the base") {
    const Folder folder;
    const std::vector<std::string> plain{"optimizer.type=sgd", "~optimizer.beta2",
                                         "optimizer.weight_decay=0"};
    const auto all = data(folder, "one", {1, -1}) + data(folder, "none", {-1}, "eval");
    const Outcome got =
        alone(job(llama_model(folder) + adapters_of(kNames), all + kBySample + plain), 4);
    for (const auto& [name, before] : got.initial) {
      CAPTURE(name);
      CHECK((got.weights.at(name) == before) == !(is_trained(name) && is_of(name, "code")));
    }
    const Outcome base = alone(job(llama_model(folder), all + plain), 0);
    CHECK(nlohmann::json::parse(got.evaluation).at("loss") ==
          nlohmann::json::parse(base.evaluation).at("loss"));
  }
  TEST_CASE("the ranks of an adapter that few steps train are those that it has alone") {
    const Folder folder;
    constexpr int kSteps = 14;
    const std::string toml = llama_model(folder) +
                             "[[model.adapters]]\nname = \"code\"\ntype = \"adalora\"\n"
                             "match = [\"*.attn.*.weight\"]\ninit_rank = 4\ntarget_rank = 2\n"
                             "tfinal = 3\ndelta_t = 2\n";
    const std::vector<std::string> plain{"optimizer.schedule={type=\"constant\"}",
                                         "run.steps=" + std::to_string(2 * kSteps)};
    // Every other batch is the adapter's, always the same; alone it has that one.
    std::vector<int> turns(2 * kGlobalBatch, 0);
    std::fill(turns.begin() + kGlobalBatch, turns.end(), -1);
    const auto by_turns = data(folder, "turns", turns, "train", 2 * kGlobalBatch) +
                          data(folder, "turns", turns, "eval", 2 * kGlobalBatch);
    const auto own = data(folder, "alone", {0}, "train", kGlobalBatch) +
                     data(folder, "alone", {0}, "eval", kGlobalBatch);
    const auto outcome = [&](const std::vector<std::string>& samples, int steps,
                             const std::vector<std::string>& more) {
      JobSpec job_spec = job(toml, samples + kBySample + plain);
      job_spec.overrides.insert(job_spec.overrides.end(), more.begin(), more.end());
      return alone(job_spec, steps);
    };
    const auto gone = [](const Outcome& o) {
      size_t n = 0;
      for (const auto& [name, values] : o.weights)
        if (name.ends_with(".code.e"))
          n += static_cast<size_t>(std::count(values.begin(), values.end(), 0.0));
      return n;
    };
    const std::string its_steps = "model.adapters[0].steps=" + std::to_string(kSteps);
    const Outcome expected = outcome(own, kSteps, {"run.steps=" + std::to_string(kSteps)});
    const Outcome got = outcome(by_turns, 2 * kSteps, {its_steps});
    check_adapter(got, expected, "code", 1e-12);
    CHECK(gone(expected) > 0);
    CHECK(gone(got) == gone(expected));
    CHECK(gone(outcome(by_turns, 2 * kSteps, {})) < gone(expected));
  }
  TEST_CASE("the same on every grid") {
    const Folder folder;
    const std::string model = llama_model(folder) + adapters_of(kNames);
    check_grids(folder, model, "f64", 1e-11, 6);
    check_grids(folder, gpt2_model(folder) + kBiases, "f64", 1e-11, 6);
    check_grids(folder, model, "f32", 1e-5, 6);
  }
  TEST_CASE("in 16 bits, and beside weights of 8 and 4 bits") {
    const Folder folder;
    check_grids(folder, llama_model(folder) + adapters_of(kNames), "bf16", 2e-2, 4);
    const JobSpec numbers =
        job(llama_model(folder) + adapters_of(kNames),
            data(folder, "mix", kMix) + data(folder, "mix", kMix, "eval") + kBySample);
    for (const char* frozen : {"compute", "int8", "nf4"}) {
      CAPTURE(frozen);
      JobSpec job_spec = numbers;
      job_spec.overrides.push_back(std::string("precision.frozen=") + frozen);
      if (frozen == std::string("compute"))
        job_spec.overrides.emplace_back("precision.compute=bf16");
      const Outcome o = alone(job_spec, 4);
      check_only_adapters_change(o);
      CHECK(o.arena == o.planned);
    }
  }
  TEST_CASE("what is wrong is said") {
    const Folder folder;
    const auto error_of = [&](const std::string& toml, const std::vector<std::string>& overrides) {
      return run(job(toml, overrides), 1, train(2))[0].error;
    };
    const auto check = [](const std::string& error, const std::string& part) {
      CAPTURE(error);
      CHECK(error.find(part) != std::string::npos);
    };
    const auto mix = data(folder, "mix", kMix) + data(folder, "mix", kMix, "eval");
    const std::string toml = llama_model(folder) + adapters_of(kNames);
    check(error_of(toml, mix + std::vector<std::string>{"model.adapter_field=adaptor"}),
          "[data.train] has no field 'adaptor' (did you mean 'adapter'?); it has: ids, adapter, "
          "next; expected an integer for each sample, the number of the adapter that it takes: 0 "
          "(poems), 1 (code), 2 (chat), or -1 for none");
    check(error_of(toml, mix + std::vector<std::string>{"model.adapter_field=ids"}),
          "field 'ids' of [data.train] is i32 (12), expected one integer for each sample");
    check(error_of(llama_model(folder), mix + kBySample),
          "names a field of adapters' numbers, and the model has no adapters");
    check(error_of(toml + "[[model.adapters]]\ntype = \"ia3\"\nname = \"code\"\n"
                          "match = [\"*.attn.k.weight\"]\n",
                   mix + kBySample),
          "adapter 'code' has two entries that change 'model.h0.attn.k.weight', "
          "model.adapters[2] (");
    check(
        error_of(toml, data(folder, "far", {0, 3}) + data(folder, "mix", kMix, "eval") + kBySample),
        "field 'adapter' is 3 in");
    check(
        error_of(toml, data(folder, "far", {0, 3}) + data(folder, "mix", kMix, "eval") + kBySample),
        "expected the number of an adapter of 'model': 0 (poems), 1 (code), 2 (chat), or -1 for "
        "none; correct the data");
    const auto refused =
        run(job(toml, mix + kBySample), 1,
            [](uint32_t, plait::Session& session, Outcome&) { plait::merge(session); });
    check(refused[0].error, "[session] merge: each sample of 'model' takes an adapter of its own");
  }
}
