// One adapter of several, merged by its name.
#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "tests/unit/host/host.hpp"

using host::Run;
using nlohmann::json;

namespace {

constexpr size_t kSamples = 6, kFeatures = 13, kClasses = 5;

std::string entry(const std::string& type, const std::string& name, const std::string& match,
                  const std::string& more = "") {
  return "[[model.adapters]]\ntype = \"" + type + "\"\nname = \"" + name + "\"\nmatch = [\"" +
         match + "\"]\n" + more;
}

std::string experiment(const std::string& adapters, bool by_sample = false) {
  const std::string data = "type = \"synthetic\", samples = 60, shape = [13], classes = 5";
  return "[run]\nsteps = 8\nseed = 5\n[batch]\nglobal = 6\n[data]\ntrain = " +
         (by_sample ? "{type = \"blend\", part_field = \"adapter\", parts = [{" + data + "}, {" +
                          data + ", first = 60}]}"
                    : "{" + data + "}") +
         "\n[model]\n" + (by_sample ? "adapter_field = \"adapter\"\n" : "") +
         "[[model.layers]]\ntype = \"linear\"\nout = 11\n[[model.layers]]\ntype = \"relu\"\n" +
         "[[model.layers]]\ntype = \"linear\"\nout = 5\nas = \"output\"\n" + adapters +
         "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"adamw\"\nlearning_rate = 0.05\n";
}

// What the model makes of six samples. adapter: the number that all of them carry.
std::vector<float> predict(const Run& run, const int32_t* adapter = nullptr) {
  std::vector<float> x(kSamples * kFeatures);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 17) / 8 - 1;
  int64_t x_shape[2] = {kSamples, kFeatures}, row_shape[1] = {kSamples};
  std::vector<int32_t> numbers(kSamples, adapter ? *adapter : 0);
  plait_dl_tensor dx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  plait_dl_tensor dn{numbers.data(), {1, 0}, 1, {0, 32, 1}, row_shape, nullptr, 0};
  const plait_feed feeds[] = {{sizeof(plait_feed), "x", &dx}, {sizeof(plait_feed), "adapter", &dn}};
  std::vector<float> out(kSamples * kClasses);
  host::check(plait_session_predict(run.session(), feeds, adapter ? 2 : 1, "output", out.data(),
                                    out.size() * sizeof(float)));
  return out;
}
std::vector<float> predict(const Run& run, int32_t adapter) { return predict(run, &adapter); }

// Equal up to rounding in f32.
bool near(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference <= 1e-5F * largest;
}

std::map<std::string, std::vector<float>> values_of(const Run& run) {
  plait_text* text = nullptr;
  host::check(plait_session_describe(run.session(), &text));
  std::map<std::string, std::vector<float>> all;
  for (const json& p : json::parse(host::take(text)).at("parameters")) {
    size_t n = 1;
    for (const size_t extent : p.at("shape")) n *= extent;
    all[p.at("name")] = run.read(p.at("name"), n);
  }
  return all;
}

void merge(const Run& run, const char* name, uint32_t flags = 0) {
  host::check(plait_session_merge_adapter(run.session(), nullptr, name, flags));
}
host::Failure refusal(const Run& run, const char* name, uint32_t flags = 0) {
  return host::failure_of([&] { merge(run, name, flags); });
}
bool says(const std::string& text, const char* part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

// "poems" has an entry for each weight, "code" one for both.
const std::string kBoth = entry("lora", "code", "model.linear*.weight", "rank = 2\n") +
                          entry("lora", "poems", "model.linear1.weight", "rank = 2\n") +
                          entry("dora", "poems", "model.linear2.weight", "rank = 3\n");

}  // namespace

TEST_SUITE_BEGIN("merge_adapter");

TEST_CASE("all entries of one adapter are merged, and the others go on") {
  const std::string first = entry("lora", "poems", "model.linear1.weight", "rank = 2\n") +
                            entry("lora", "poems", "model.linear2.weight", "rank = 3\n") +
                            entry("lora", "code", "model.linear*.weight", "rank = 2\n");
  const Run run(experiment(first));
  const auto initial = values_of(run);
  run.losses(4);
  const auto trained = values_of(run);
  const auto before = predict(run);
  merge(run, "poems");
  CHECK(near(predict(run), before));
  for (const auto& [name, values] : values_of(run)) {
    CAPTURE(name);
    if (name.find(".poems.") != name.npos) CHECK(values == initial.at(name));
    if (name.find(".code.") != name.npos || name.ends_with(".bias"))
      CHECK(values == trained.at(name));
    if (name.ends_with("linear1.weight") || name.ends_with("linear2.weight"))
      CHECK(values != trained.at(name));
  }
  CHECK(host::failure_of([&] { run.step(); }).code == PLAIT_ERR_STATE);
  CHECK(refusal(run, "code").code == PLAIT_ERR_STATE);
  host::check(plait_session_unmerge(run.session()));
  CHECK(values_of(run) == trained);
  CHECK(predict(run) == before);
  // For good: the other one is merged behind it, and all are trained on.
  merge(run, "poems", PLAIT_MERGE_FINAL);
  merge(run, "code", PLAIT_MERGE_FINAL);
  CHECK(near(predict(run), before));
  const auto merged = values_of(run);
  run.losses(1);
  for (const auto& [name, values] : values_of(run)) {
    CAPTURE(name);
    const bool of_model = name.find(".poems.") == name.npos && name.find(".code.") == name.npos;
    CHECK((values == merged.at(name)) == (of_model || name.ends_with(".a")));
  }
}

TEST_CASE("the model with one adapter merged is that adapter's model") {
  const host::TempFolder folder;
  const Run run(experiment(kBoth));
  run.losses(4);
  host::check(
      plait_session_save_adapter(run.session(), nullptr, "poems", (folder / "poems").c_str()));
  const Run alone(experiment(kBoth.substr(kBoth.find("[[", 2))));
  plait_adapter_source source{};
  source.struct_size = sizeof source;
  const std::string path = folder / "poems";
  source.path = path.c_str();
  host::check(plait_session_load_adapter(alone.session(), nullptr, "poems", &source));
  merge(run, "poems", PLAIT_MERGE_FINAL);
  host::check(plait_session_save_model(run.session(), (folder / "model").c_str()));
  const Run model(experiment(""));
  host::check(plait_session_load_parameters(model.session(), (folder / "model").c_str()));
  CHECK(near(predict(model), predict(alone)));
}

// The run.toml of the checkpoint there.
std::string saved_experiment(const std::string& place) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(place)) {
    if (file.path().filename() != "run.toml") continue;
    std::ifstream in(file.path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  return "";
}

TEST_CASE("a model or an adapter that is saved alone has an experiment of its own") {
  const host::TempFolder folder;
  const std::string groups =
      "[[optimizer.groups]]\nmatch = [\"*.poems.*\"]\nlearning_rate = 0.01\n"
      "[[optimizer.groups]]\nmatch = [\"*.code.*\"]\nlearning_rate = 0.02\n";
  const Run run(experiment(kBoth, true) + groups);
  host::check(
      plait_session_save_adapter(run.session(), nullptr, "code", (folder / "code").c_str()));
  const std::string code = saved_experiment(folder / "code");
  says(code, "name = \"code\"");
  says(code, "*.code.*");
  says(code, "steps = 8");
  merge(run, "poems", PLAIT_MERGE_FINAL);
  host::check(plait_session_save_model(run.session(), (folder / "model").c_str()));
  const std::string model = saved_experiment(folder / "model");
  says(model, "steps = 8");
  for (const char* left : {"poems", "*.code.*", "name = \"code\"", "adapter_field = \"adapter\""}) {
    CAPTURE(left);
    CHECK(model.find(left) == model.npos);
  }
  CHECK(code.find("poems") == code.npos);
  for (const std::string& toml : {code, model}) CHECK(std::isfinite(Run(toml).losses(1)[0]));
}

TEST_CASE("checkpoints without frozen weights are not for a model that a merge has changed") {
  const host::TempFolder folder;
  const auto refused = [](const Run& run, const std::function<plait_error*(plait_session*)>& call) {
    const host::Failure f = host::failure_of([&] { host::check(call(run.session())); });
    return f.code == PLAIT_ERR_STATE && says(f.text, "a merge has changed frozen weights");
  };
  const std::string base = folder / "base";
  host::check(plait_session_save(Run(experiment("")).session(), base.c_str()));
  for (const bool whole : {true, false}) {
    CAPTURE(whole);
    const std::string load_base = "model.load=" + base;
    const Run run(experiment(kBoth), "", PLAIT_RESUME_NEVER,
                  {load_base.c_str(), whole ? "checkpoint.save=all" : "checkpoint.save=trained"});
    const std::string place = folder / (whole ? "whole" : "trained"), before = place + "/before";
    const auto save = [&](plait_session* s) { return plait_session_save(s, place.c_str()); };
    const auto load = [&](plait_session* s) { return plait_session_load(s, before.c_str()); };
    host::check(plait_session_save(run.session(), before.c_str()));
    // What a kept merge has changed is put back by a load.
    merge(run, "poems");
    host::check(load(run.session()));
    host::check(save(run.session()));
    merge(run, "poems", PLAIT_MERGE_FINAL);
    if (whole) {
      host::check(save(run.session()));
      host::check(load(run.session()));
      continue;
    }
    CHECK(refused(run, save));
    CHECK(refused(run, load));
    CHECK(refused(run, [](plait_session* s) { return plait_session_run(s, nullptr); }));
    host::check(plait_session_save_model(run.session(), (folder / "model").c_str()));
  }
}

TEST_CASE("where fields stood for the data, the experiment that is saved has the data") {
  const host::TempFolder folder;
  const Run run(experiment(kBoth), "", PLAIT_RESUME_NEVER,
                {"run.epochs=3", "run.steps=30",
                 "data.train.fields=[\"x: input f32 [13]\", \"label: target i32 []\"]"});
  merge(run, "poems", PLAIT_MERGE_FINAL);
  host::check(plait_session_save_model(run.session(), (folder / "model").c_str()));
  const std::string toml = saved_experiment(folder / "model");
  says(toml, "epochs = 3");
  CHECK(toml.find("x: input f32 [13]") == toml.npos);
  CHECK(toml.find("steps = 30") == toml.npos);
  CHECK(std::isfinite(Run(toml).losses(1)[0]));
}

TEST_CASE("where samples choose, all of them take the one that is merged") {
  const Run run(experiment(kBoth, true));
  run.losses(5);
  const auto trained = values_of(run);
  const auto base = predict(run, -1), code = predict(run, 0), poems = predict(run, 1);
  CHECK(!near(code, poems));
  for (const bool first : {true, false}) {
    merge(run, first ? "code" : "poems");
    for (const int32_t number : {-1, 0, 1}) CHECK(near(predict(run, number), first ? code : poems));
    host::check(plait_session_unmerge(run.session()));
    CHECK(values_of(run) == trained);
    CHECK(predict(run, -1) == base);
  }
  const auto all = host::failure_of([&] { host::check(plait_session_merge(run.session(), 0)); });
  CHECK(all.code == PLAIT_ERR_CONFIG);
  says(all.text, "merge one of them: plait merge --adapter NAME");
  merge(run, "poems", PLAIT_MERGE_FINAL);
  run.losses(2);
}

TEST_CASE("what cannot be merged is said, and changes nothing") {
  const Run run(experiment(kBoth + entry("bottleneck", "narrow", "model.linear1", "width = 2\n")));
  run.losses(2);
  const auto before = values_of(run);
  const auto unknown = refusal(run, "poem");
  CHECK(unknown.code == PLAIT_ERR_NOT_FOUND);
  says(unknown.text, "has no adapter 'poem' (did you mean 'poems'?); there are: code, poems, nar");
  CHECK(refusal(run, "poems", 2).code == PLAIT_ERR_INVALID);
  const auto narrow = refusal(run, "narrow");
  CHECK(narrow.code == PLAIT_ERR_CONFIG);
  says(narrow.text, "adapter 'narrow' (model.adapters[3]): method 'bottleneck' cannot be merged");
  CHECK(values_of(run) == before);
  // The only adapter is merged by its name as well.
  const Run one(experiment(entry("lora", "poems", "*.weight")));
  one.losses(2);
  const auto with = predict(one);
  merge(one, "poems");
  CHECK(near(predict(one), with));
}

TEST_SUITE_END();
