// Adapters of a running session, one by one: listed, loaded, reset and saved; and of checkpoints:
// listed, added and removed.
#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "tests/unit/host/host.hpp"

using host::Run;
using nlohmann::json;

namespace {

constexpr char kPoems[] =
    "[[model.adapters]]\ntype = \"lora\"\nname = \"poems\"\nmatch = [\"model.linear*.weight\"]\n"
    "rank = 2\n";
constexpr char kCode[] =
    "[[model.adapters]]\ntype = \"dora\"\nname = \"code\"\nmatch = [\"model.linear1.weight\"]\n"
    "rank = 3\n";
const std::string kBoth = std::string(kPoems) + kCode;

std::string experiment(const std::string& adapters, const std::string& more = "") {
  return "[run]\nsteps = 8\nseed = 5\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\n"
         "samples = 60\nshape = [13]\nclasses = 5\n[model]\n" +
         more +
         "[[model.layers]]\ntype = \"linear\"\nout = 11\n[[model.layers]]\ntype = \"relu\"\n" +
         "[[model.layers]]\ntype = \"linear\"\nout = 5\n" + adapters +
         "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"adamw\"\nlearning_rate = 0.05\n";
}

using Values = std::map<std::string, std::vector<float>>;

// All parameters of an adapter; "": of the model.
Values values_of(const Run& run, const std::string& adapter) {
  plait_text* text = nullptr;
  host::check(plait_session_describe(run.session(), &text));
  const json described = json::parse(host::take(text));
  Values all;
  for (const json& p : described.at("parameters")) {
    const std::string name = p.at("name");
    const bool of_any = name.find(".poems.") != name.npos || name.find(".code.") != name.npos;
    if (adapter.empty() ? of_any : name.find("." + adapter + ".") == name.npos) continue;
    size_t n = 1;
    for (const size_t extent : p.at("shape")) n *= extent;
    all[name] = run.read(name, n);
  }
  REQUIRE(!all.empty());
  return all;
}

void load(const Run& run, const char* name, const std::string& path, const char* from = nullptr) {
  plait_adapter_source source{};
  source.struct_size = sizeof source;
  source.path = path.c_str();
  source.from = from;
  host::check(plait_session_load_adapter(run.session(), nullptr, name, &source));
}
std::string refusal(const Run& run, const char* name, const std::string& path,
                    const char* from = nullptr) {
  const auto failure = host::failure_of([&] { load(run, name, path, from); });
  CHECK(failure.code != PLAIT_OK);
  return failure.text;
}
void save(const Run& run, const char* name, const std::string& path) {
  host::check(plait_session_save_adapter(run.session(), nullptr, name, path.c_str()));
}
bool says(const std::string& text, const char* part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

json adapters_of(const Run& run, const std::string& place) {
  plait_text* text = nullptr;
  host::check(plait_checkpoint_adapters(run.engine(), place.c_str(), &text));
  return json::parse(host::take(text)).at("checkpoints").at(0);
}

}  // namespace

TEST_SUITE_BEGIN("adapter_sessions");

TEST_CASE("the adapters of a session are listed") {
  const Run run(experiment(kBoth));
  plait_text* text = nullptr;
  host::check(plait_session_adapters(run.session(), &text));
  const json all = json::parse(host::take(text)).at("adapters");
  REQUIRE(all.size() == 2);
  const int64_t poems = 2 * (13 + 11) + 2 * (11 + 5);
  CHECK(all[0].at("name") == "poems");
  CHECK(all[0].at("number") == 0);
  CHECK(all[0].at("parameters") == poems);
  CHECK(all[0].at("trained") == poems);
  CHECK(all[0].at("bytes") == 4 * poems);
  CHECK(all[0].at("entries")[0].at("options").at("rank") == 2);
  CHECK(all[0].at("entries")[0].at("targets") ==
        json{"model.linear1.weight", "model.linear2.weight"});
  CHECK(all[1].at("model") == "model");
  CHECK(all[1].at("entries")[0].at("type") == "dora");
}

TEST_CASE("an adapter is loaded, and nothing else changes") {
  const host::TempFolder folder;
  const Run from(experiment(kBoth)), to(experiment(kBoth), "", PLAIT_RESUME_NEVER, {"run.seed=6"});
  from.losses(4);
  to.losses(3);
  save(from, "poems", folder / "poems");
  host::check(plait_session_save(from.session(), (folder / "whole").c_str()));
  const Values poems = values_of(from, "poems");
  for (const char* source : {"poems", "whole"}) {
    CAPTURE(source);
    host::check(plait_session_reset_adapter(to.session(), "model", "poems"));
    const Values model = values_of(to, ""), code = values_of(to, "code");
    load(to, "poems", folder / source);
    CHECK(values_of(to, "poems") == poems);
    CHECK(values_of(to, "code") == code);
    CHECK(values_of(to, "") == model);
  }
  to.losses(1);
  CHECK(values_of(to, "poems") != poems);
  // A file of weights, and another name.
  const Run other(experiment(std::string(kPoems) +
                             "[[model.adapters]]\ntype = \"lora\"\nname = "
                             "\"code\"\nmatch = [\"model.linear*.weight\"]\nrank = 2\n"));
  load(other, "code", folder / "poems");
  load(other, "poems", folder / "whole", "poems");
  const Values renamed = values_of(other, "code");
  for (const auto& [name, values] : values_of(other, "poems")) {
    CHECK(values == poems.at(name));
    std::string as_code = name;
    as_code.replace(as_code.find("poems"), 5, "code");
    CHECK(values == renamed.at(as_code));
  }
}

TEST_CASE("a reset adapter is as it began, with new states of the optimizer") {
  for (const std::string& adapters : {std::string(kPoems), std::string(kCode)}) {
    CAPTURE(adapters);
    const char* name = adapters == kPoems ? "poems" : "code";
    const Run run(experiment(adapters)), fresh(experiment(adapters));
    const Values begin = values_of(run, name);
    run.losses(3);
    CHECK(values_of(run, name) != begin);
    host::check(plait_session_reset_adapter(run.session(), nullptr, name));
    CHECK(values_of(run, name) == begin);
    // States are saved; before the first step they have their initial values.
    const host::TempFolder folder;
    host::check(plait_session_save(run.session(), (folder / "a").c_str()));
    host::check(plait_session_save(fresh.session(), (folder / "b").c_str()));
    const auto states = [&](const std::string& at) {
      for (const auto& step : std::filesystem::directory_iterator(at)) {
        if (!step.is_directory()) continue;
        std::ifstream file(step.path() / "optimizer.safetensors", std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
      }
      return std::string();
    };
    CHECK(!states(folder / "a").empty());
    CHECK(states(folder / "a") == states(folder / "b"));
  }
}

TEST_CASE("an adapter that was saved alone is a checkpoint beside its base") {
  const host::TempFolder folder;
  const Run base(experiment(""));
  base.losses(2);
  host::check(plait_session_save(base.session(), (folder / "base").c_str()));
  const std::string beside = "load = \"" + (folder / "base") + "\"\n";
  const Run run(experiment(kBoth, beside));
  run.losses(2);
  save(run, "code", folder / "code");
  const json listed = adapters_of(run, folder / "code");
  REQUIRE(listed.at("adapters").size() == 1);
  CHECK(listed.at("adapters")[0].at("name") == "code");
  CHECK(listed.at("adapters")[0].at("entries")[0].at("options").at("rank") == "3");
  CHECK(listed.at("bases")[0].at("model") == "model");
  const Run alone(experiment(kCode, beside));
  host::check(plait_session_load_parameters(alone.session(), (folder / "code").c_str()));
  CHECK(values_of(alone, "code") == values_of(run, "code"));
  // Beside other weights it is refused, and the session is as it was.
  const Run elsewhere(experiment(""), "", PLAIT_RESUME_NEVER, {"run.seed=9"});
  host::check(plait_session_save(elsewhere.session(), (folder / "other").c_str()));
  const Run other(experiment(kCode, "load = \"" + (folder / "other") + "\"\n"));
  const Values before = values_of(other, "code");
  says(refusal(other, "code", folder / "code"), "other weights; set model.load to those");
  CHECK(values_of(other, "code") == before);
  CHECK(std::isfinite(other.losses(1)[0]));
}

TEST_CASE("what does not fit an adapter is said, and changes nothing") {
  const host::TempFolder folder;
  const Run run(experiment(kBoth));
  run.losses(1);
  save(run, "poems", folder / "poems");
  host::check(plait_session_save(run.session(), (folder / "whole").c_str()));
  const Values poems = values_of(run, "poems"), code = values_of(run, "code");
  says(refusal(run, "poem", folder / "poems"),
       "no adapter 'poem' (did you mean 'poems'?); there "
       "are: poems, code");
  says(refusal(run, "poems", folder / "nowhere"), "which does not exist");
  says(refusal(run, "poems", folder / "whole", "verses"), "has no adapter 'verses'; there are: ");
  says(refusal(run, "code", folder / "poems"), "is lora, and 'code' (model.adapters[1]) is dora");
  const auto with = [&](std::string entry, const char* was, const char* is) {
    entry.replace(entry.find(was), std::string(was).size(), is);
    return experiment(entry);
  };
  const Run wide(with(kPoems, "rank = 2", "rank = 4"));
  says(refusal(wide, "poems", folder / "poems"), "as parameter 'model.linear1.weight.poems.a' has");
  const Run narrow(with(kPoems, "linear*", "linear1"));
  says(refusal(narrow, "poems", folder / "poems"), "let its `match` name 'model.linear2.weight'");
  save(narrow, "poems", folder / "narrow");
  says(refusal(run, "poems", folder / "narrow"), "has no tensor 'model.linear2.weight.poems.a'");
  host::check(plait_session_merge(run.session(), 0));
  says(refusal(run, "poems", folder / "poems"), "plait_session_unmerge()");
  host::check(plait_session_unmerge(run.session()));
  CHECK(values_of(run, "poems") == poems);
  CHECK(values_of(run, "code") == code);
  const Run none(experiment(""));
  says(refusal(none, "poems", folder / "poems"), "the experiment has no adapters");
}

TEST_CASE("an adapter is added to a checkpoint and taken out of it") {
  const host::TempFolder folder;
  const auto saved = [&](const char* adapter, const char* to, int steps, const char* seed) {
    auto run = std::make_unique<Run>(experiment(adapter), folder / to, PLAIT_RESUME_NEVER,
                                     std::vector<const char*>{seed});
    run->losses(steps);
    host::check(plait_session_save(run->session(), nullptr));
    return run;
  };
  const auto of_poems = saved(kPoems, "poems", 3, "run.seed=5"),
             of_code = saved(kCode, "code", 2, "run.seed=5");
  const Run &poems = *of_poems, &code = *of_code;
  const auto add = [&](const std::string& from, const char* name, const std::string& other,
                       const std::string& out) {
    plait_text* text = nullptr;
    host::check(plait_checkpoint_add_adapter(poems.engine(), (folder / from).c_str(), nullptr, name,
                                             (folder / other).c_str(), (folder / out).c_str(),
                                             &text));
    return json::parse(host::take(text));
  };
  const auto remove = [&](const std::string& from, const char* name, const std::string& out) {
    plait_text* text = nullptr;
    host::check(plait_checkpoint_remove_adapter(poems.engine(), (folder / from).c_str(), "model",
                                                name, (folder / out).c_str(), &text));
    plait_text_free(text);
  };
  CHECK(add("poems", "code", "code", "both/step-0000000003").at("step") == 3);
  // It resumes in an experiment with both.
  const Run both(experiment(kBoth));
  host::check(plait_session_load(both.session(), (folder / "both").c_str()));
  CHECK(values_of(both, "poems") == values_of(poems, "poems"));
  CHECK(values_of(both, "code") == values_of(code, "code"));
  both.losses(1);
  const json listed = adapters_of(both, folder / "both");
  REQUIRE(listed.at("adapters").size() == 2);
  CHECK(listed.at("adapters")[1].at("parameters") == 3 * (13 + 11) + 11);
  CHECK(listed.at("adapters")[1].at("targets") == json{"model.linear1.weight"});
  std::ifstream written(folder / "both/step-0000000003/run.toml");
  const std::string toml(std::istreambuf_iterator<char>(written), {});
  CHECK(toml.find("name = \"code\"") != toml.npos);
  // Without the first one, it is the other one's.
  remove("both", "poems", "back/step-0000000003");
  const Run alone(experiment(kCode));
  host::check(plait_session_load(alone.session(), (folder / "back").c_str()));
  CHECK(values_of(alone, "code") == values_of(code, "code"));
  // What cannot be done.
  const auto refused = [&](const std::function<void()>& f) { return host::failure_of(f).text; };
  says(refused([&] { add("both", "code", "code", "x"); }), "has an adapter 'code' already");
  says(refused([&] { add("poems", "x", "both", "x"); }),
       "has no adapter 'x'; there are: poems, code");
  says(refused([&] { remove("poems", "code", "x"); }), "has no adapter 'code'; there are: poems");
  says(refused([&] { add("poems", "code", "code", "both"); }), "exists; remove it");
  says(refused([&] { add("poems", "a.b", "code", "x"); }), "is no name of an adapter");
  const auto other = saved(kCode, "other", 1, "run.seed=8");
  says(refused([&] { add("poems", "code", "other", "x"); }), "has other values; an adapter");
  CHECK(!std::filesystem::exists(folder / "x"));
}

TEST_CASE("tensors of the model are not an adapter's whose name a layer has") {
  const host::TempFolder folder;
  const std::string nested =
      "[run]\nsteps = 8\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\nsamples = 60\n"
      "shape = [13]\nclasses = 5\n[model]\ntrain = [\"*\"]\n[[model.layers]]\ntype = \"block\"\n"
      "name = \"h\"\nlayers = [{type = \"block\", name = \"attn\", layers = [{type = \"linear\", "
      "name = \"q\", out = 5}]}]\n[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = "
      "\"adamw\"\nlearning_rate = 0.05\n";
  for (const std::string name : {"attn", "q", "weight"}) {
    CAPTURE(name);
    const std::string adapter = "[[model.adapters]]\ntype = \"lora\"\nname = \"" + name +
                                "\"\nmatch = [\"model.h.attn.q.weight\"]\nrank = 2\n";
    const std::string at = folder / name;
    const Run run(nested + adapter, at);
    run.losses(2);
    host::check(plait_session_save(run.session(), nullptr));
    const json listed = adapters_of(run, at).at("adapters").at(0);
    CHECK(listed.at("parameters") == 2 * (13 + 5));
    CHECK(listed.at("targets") == json{"model.h.attn.q.weight"});
    plait_text* text = nullptr;
    const std::string out = folder / (name + "-out") + "/step-0000000002";
    host::check(plait_checkpoint_remove_adapter(run.engine(), at.c_str(), nullptr, name.c_str(),
                                                out.c_str(), &text));
    plait_text_free(text);
    // All of the model is there, with its states.
    const Run alone(nested);
    host::check(plait_session_load(alone.session(), (folder / (name + "-out")).c_str()));
    CHECK(alone.read("model.h.attn.q.weight", 65) == run.read("model.h.attn.q.weight", 65));
  }
}

namespace {

// Samples take one of the adapters "poems" and "code".
std::string by_sample() {
  std::string toml = experiment(
      kBoth.substr(0, kBoth.find("dora")) + "lora" + kBoth.substr(kBoth.find("dora") + 4),
      "adapter_field = \"adapter\"\n");
  const std::string one = "type = \"synthetic\"\nsamples = 60\nshape = [13]\nclasses = 5\n";
  const std::string part =
      "{type = \"synthetic\", samples = 60, shape = [13], classes = 5, first = ";
  return toml.replace(
      toml.find(one), one.size(),
      "type = \"blend\"\npart_field = \"adapter\"\nparts = [" + part + "0}, " + part + "60}]\n");
}

// "updates.model.NAME" of the newest checkpoint; -1: none.
int64_t updates_in(const std::string& place, const std::string& name) {
  for (const auto& file : std::filesystem::recursive_directory_iterator(place)) {
    if (file.path().filename() != "MANIFEST.json") continue;
    std::ifstream in(file.path());
    std::string text(std::istreambuf_iterator<char>(in), {});
    std::erase(text, '\\');
    const std::string key = "\"updates.model." + name + "\":";
    const size_t at = text.find(key);
    return at == text.npos ? -1 : std::stoll(text.substr(at + key.size()));
  }
  return -2;
}

}  // namespace

TEST_CASE("states that begin anew have seen no update") {
  const host::TempFolder folder;
  const Run run(by_sample(), folder / "run");
  run.losses(5);
  save(run, "poems", folder / "poems");
  host::check(plait_session_save(run.session(), (folder / "a").c_str()));
  CHECK(updates_in(folder / "a", "poems") == 5);
  host::check(plait_session_reset_adapter(run.session(), nullptr, "poems"));
  load(run, "code", folder / "a", "code");
  host::check(plait_session_save(run.session(), (folder / "b").c_str()));
  CHECK(updates_in(folder / "b", "poems") == 0);
  CHECK(updates_in(folder / "b", "code") == 0);
  // The first update of AdamW changes a value by the learning rate; one that is taken for a later
  // one by less.
  const Values before = values_of(run, "poems");
  run.losses(1);
  double most = 0;
  for (const auto& [name, values] : values_of(run, "poems"))
    for (size_t i = 0; i < values.size(); ++i)
      if (name.ends_with(".b"))
        most = std::max(most, std::abs(double(values[i]) - double(before.at(name)[i])));
  CHECK(most == doctest::Approx(0.05).epsilon(0.01));
}

TEST_CASE("the updates of an adapter come with it to another checkpoint") {
  const host::TempFolder folder;
  const Run run(by_sample(), folder / "run");
  run.losses(3);
  host::check(plait_session_save(run.session(), (folder / "both").c_str()));
  plait_text* text = nullptr;
  const std::string out = folder / "less/step-0000000003", again = folder / "again/step-0000000003";
  host::check(plait_checkpoint_remove_adapter(run.engine(), (folder / "both").c_str(), nullptr,
                                              "code", out.c_str(), &text));
  plait_text_free(text);
  CHECK(updates_in(folder / "less", "code") == -1);
  CHECK(updates_in(folder / "less", "poems") == 3);
  host::check(plait_checkpoint_add_adapter(run.engine(), out.c_str(), nullptr, "code",
                                           (folder / "both").c_str(), again.c_str(), &text));
  plait_text_free(text);
  CHECK(updates_in(folder / "again", "code") == 3);
  const Run other(by_sample());
  host::check(plait_session_load(other.session(), (folder / "again").c_str()));
  CHECK(other.losses(2) == run.losses(2));
}

TEST_CASE("a checkpoint that is loaded ends what a final merge changed") {
  const host::TempFolder folder;
  const Run run(experiment(kPoems));
  run.losses(2);
  host::check(plait_session_save(run.session(), (folder / "whole").c_str()));
  host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
  says(host::failure_of([&] { save(run, "poems", folder / "x"); }).text, "a merge has changed");
  host::check(plait_session_load(run.session(), (folder / "whole").c_str()));
  save(run, "poems", folder / "poems");
}

TEST_CASE("behind a final merge the weights of model.load may be loaded again") {
  const host::TempFolder folder;
  const Run base(experiment(""));
  host::check(plait_session_save(base.session(), (folder / "base").c_str()));
  const std::string load = "load = \"" + (folder / "base") + "\"\n";
  int n = 0;
  for (const auto call : {plait_session_load, plait_session_load_parameters}) {
    const Run run(experiment(kPoems, load));
    run.losses(2);
    const std::string whole = folder / ("whole" + std::to_string(n)),
                      merged = folder / ("merged" + std::to_string(n));
    host::check(plait_session_save(run.session(), whole.c_str()));
    host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
    host::check(plait_session_save(run.session(), merged.c_str()));
    const auto refused = [&] {
      says(host::failure_of([&] { save(run, "poems", folder / "x"); }).text,
           "was given other values since the session began");
    };
    refused();
    host::check(call(run.session(), whole.c_str()));
    save(run, "poems", folder / ("poems" + std::to_string(n++)));
    // Values that model.load does not have, and its own once more.
    host::check(call(run.session(), merged.c_str()));
    refused();
    host::check(call(run.session(), whole.c_str()));
    save(run, "poems", folder / ("poems" + std::to_string(n++)));
    std::vector<float> weight = run.read("model.linear1.weight", 143);
    weight[7] += 1;
    host::check(plait_session_write(run.session(), "model.linear1.weight", weight.data(),
                                    weight.size() * sizeof(float)));
    refused();
    host::check(call(run.session(), whole.c_str()));
    save(run, "poems", folder / ("poems" + std::to_string(n++)));
    // A write while adapters are merged for a while: model.load gave what was there before.
    const Run other(experiment(kPoems, load));
    other.losses(2);
    host::check(plait_session_merge(other.session(), 0));
    host::check(plait_session_write(other.session(), "model.linear1.weight", weight.data(),
                                    weight.size() * sizeof(float)));
    host::check(plait_session_unmerge(other.session()));
    host::check(call(other.session(), whole.c_str()));
    save(other, "poems", folder / ("poems" + std::to_string(n++)));
  }
}

TEST_CASE("what is left of an experiment without an adapter can be read") {
  const host::TempFolder folder;
  const Run run(by_sample() + "[checkpoint]\nbest = \"loss.code\"\n[data.eval]\ntype = " +
                    "\"blend\"\npart_field = \"adapter\"\nparts = [{type = \"synthetic\", " +
                    "samples = 12, shape = [13], classes = 5}]\n",
                folder / "run");
  run.losses(1);
  host::check(plait_session_save(run.session(), (folder / "both").c_str()));
  save(run, "poems", folder / "poems");
  plait_text* text = nullptr;
  const std::string out = folder / "less/step-0000000001";
  host::check(plait_checkpoint_remove_adapter(run.engine(), (folder / "both").c_str(), nullptr,
                                              "code", out.c_str(), &text));
  plait_text_free(text);
  for (const std::string& place : {folder / "less", folder / "poems"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(place)) {
      if (file.path().filename() != "run.toml") continue;
      CAPTURE(file.path().string());
      std::ifstream in(file.path());
      const std::string toml(std::istreambuf_iterator<char>(in), {});
      CHECK(toml.find("loss.code") == toml.npos);
      const Run opened(toml);  // throws where it is no experiment
    }
  says(host::failure_of([&] {
         host::check(plait_checkpoint_remove_adapter(run.engine(), (folder / "both").c_str(),
                                                     nullptr, "co*", out.c_str(), &text));
       }).text,
       "'co*' is no name of an adapter");
}

TEST_CASE("an adapter is not saved beside weights that model.load does not have") {
  const host::TempFolder folder;
  const Run base(experiment(""));
  host::check(plait_session_save(base.session(), (folder / "base").c_str()));
  const std::string load = "load = \"" + (folder / "base") + "\"\n";
  const auto refused = [&](const Run& run) {
    const std::string text = host::failure_of([&] { save(run, "poems", folder / "x"); }).text;
    says(text, "'model.linear1.weight' was given other values since the session began");
    says(text, "model.load does not name the weights");
  };
  const Run run(experiment(kPoems, load));
  run.losses(2);
  host::check(plait_session_save(run.session(), (folder / "whole").c_str()));
  host::check(plait_session_load_parameters(run.session(), (folder / "whole").c_str()));
  save(run, "poems", folder / "poems");  // the checkpoint has the same weights
  std::vector<float> weight = run.read("model.linear1.weight", 143);
  weight[7] += 1;
  host::check(plait_session_write(run.session(), "model.linear1.weight", weight.data(),
                                  weight.size() * sizeof(float)));
  refused(run);
  host::check(plait_session_save(run.session(), (folder / "other").c_str()));
  for (const auto call : {plait_session_load, plait_session_load_parameters}) {
    const Run again(experiment(kPoems, load));
    host::check(call(again.session(), (folder / "other").c_str()));
    refused(again);
  }
}

TEST_CASE("an adapter of several entries is a checkpoint of its own") {
  const host::TempFolder folder;
  std::string toml = by_sample();
  const std::string second =
      "[[model.adapters]]\ntype = \"ia3\"\nname = \"code\"\nmatch = [\"model.linear2.weight\"]\n";
  toml.insert(toml.find("[loss]"), second);
  const Run run(toml);
  run.losses(3);
  save(run, "code", folder / "code");
  std::string found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "code"))
    if (file.path().filename() == "run.toml") found = file.path().string();
  std::ifstream in(found);
  const Run alone(std::string(std::istreambuf_iterator<char>(in), {}));
  load(alone, "code", folder / "code");
  CHECK(values_of(alone, "code") == values_of(run, "code"));
}

TEST_CASE("an adapter is not saved alone where parameters of the model are trained beside it") {
  const host::TempFolder folder;
  const Run run(experiment(kPoems, "train = [\"model.linear2.bias\"]\n"));
  const std::string text = host::failure_of([&] { save(run, "poems", folder / "x"); }).text;
  says(text, "'model.linear2.bias' is trained beside it (model.train)");
  says(text, "plait_session_save()");
}

TEST_SUITE_END();
