// Convention 4 of base.h: on error every output is untouched, and only the error must be freed. For
// every fallible function of the host: the list is compared with the headers.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include <plait/adapters.h>
#include <plait/data.h>
#include <plait/generate.h>
#include <plait/replay.h>
#include <plait/view.h>

#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

constexpr unsigned char kPoison = 0x5A;

// The output arguments of a call, filled with poison.
class Output {
 public:
  Output() { std::memset(area_, kPoison, sizeof area_); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(area_);
  }
  // A result whose struct_size is that of the complete struct.
  plait_step_result* result() {
    auto* r = as<plait_step_result>();
    r->struct_size = sizeof *r;
    told_ = sizeof r->struct_size;
    return r;
  }
  bool untouched() const {
    return std::all_of(area_ + told_, area_ + sizeof area_,
                       [](unsigned char c) { return c == kPoison; });
  }

 private:
  alignas(64) unsigned char area_[1024];
  size_t told_ = 0;  // bytes written by the test itself
};

struct Call {
  const char* function;
  const char* why;  // why the call fails
  std::function<plait_error*(Output&)> make;
};

void check_all(const std::vector<Call>& calls, std::set<std::string>& seen) {
  for (const Call& call : calls) {
    CAPTURE(call.function);
    CAPTURE(call.why);
    Output out;
    plait_error* error = call.make(out);
    CHECK(error != nullptr);
    CHECK(out.untouched());
    plait_error_free(error);
    seen.insert(call.function);
  }
}

std::vector<Call> of_engines(plait_engine* engine) {
  static const char* const kMissing[] = {"/nonexistent/plugin.so"};
  static plait_engine_options named{}, small_struct{};
  named.struct_size = sizeof named;
  named.plugin_paths = kMissing;
  named.n_plugin_paths = 1;
  small_struct.struct_size = 8;
  const auto n = PLAIT_NTS;
  return {
      {"plait_engine_open", "a plugin that was named is missing",
       [](Output& o) { return plait_engine_open(&named, o.as<plait_engine*>()); }},
      {"plait_engine_open", "options too small",
       [](Output& o) { return plait_engine_open(&small_struct, o.as<plait_engine*>()); }},
      {"plait_engine_load", "no such file",
       [=](Output&) { return plait_engine_load(engine, "/nonexistent.so", n); }},
      {"plait_engine_devices", "no engine",
       [](Output& o) { return plait_engine_devices(nullptr, o.as<plait_text*>()); }},
      {"plait_engine_ops", "no engine",
       [](Output& o) { return plait_engine_ops(nullptr, o.as<plait_text*>()); }},
      {"plait_engine_describe", "no engine",
       [](Output& o) { return plait_engine_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_plugin_inspect", "no such file",
       [=](Output& o) { return plait_plugin_inspect("/nonexistent.so", n, o.as<plait_text*>()); }},
      {"plait_checkpoint_export", "no such checkpoint",
       [=](Output& o) {
         return plait_checkpoint_export(engine, "/nonexistent", "/nonexistent/weights", nullptr,
                                        o.as<plait_text*>());
       }},
      {"plait_checkpoint_adapters", "no such place",
       [=](Output& o) {
         return plait_checkpoint_adapters(engine, "/nonexistent", o.as<plait_text*>());
       }},
      {"plait_checkpoint_add_adapter", "no such checkpoint",
       [=](Output& o) {
         return plait_checkpoint_add_adapter(engine, "/nonexistent", nullptr, "a", "/nonexistent",
                                             "/nonexistent/out", o.as<plait_text*>());
       }},
      {"plait_checkpoint_remove_adapter", "no such checkpoint",
       [=](Output& o) {
         return plait_checkpoint_remove_adapter(engine, "/nonexistent", nullptr, "a",
                                                "/nonexistent/out", o.as<plait_text*>());
       }},
      {"plait_model_import", "no such folder",
       [=](Output& o) {
         return plait_model_import(engine, "type = \"hf\"", n, "/nonexistent", "/nonexistent/out",
                                   o.as<plait_text*>());
       }},
      {"plait_experiment_parse", "no TOML",
       [=](Output& o) {
         return plait_experiment_parse(engine, "[run", n, "t", nullptr, o.as<plait_experiment*>());
       }},
      {"plait_experiment_parse", "an unknown key",
       [=](Output& o) {
         return plait_experiment_parse(engine, (small() + "[nope]\n").c_str(), n, "t", nullptr,
                                       o.as<plait_experiment*>());
       }},
      {"plait_experiment_read", "no such file",
       [=](Output& o) {
         return plait_experiment_read(engine, "/nonexistent/x.toml", n, nullptr,
                                      o.as<plait_experiment*>());
       }},
      {"plait_experiment_check", "no path",
       [=](Output& o) {
         return plait_experiment_check(engine, nullptr, 0, nullptr, o.as<plait_text*>());
       }},
      {"plait_experiment_bind", "no experiment",
       [](Output& o) { return plait_experiment_bind(nullptr, o.as<plait_text*>()); }},
      {"plait_experiment_describe", "no experiment",
       [](Output& o) { return plait_experiment_describe(nullptr, o.as<plait_text*>()); }},
  };
}

std::vector<Call> of_plans(plait_experiment* fine, plait_experiment* bad, plait_plan* plan) {
  static plait_job_options outside{};
  outside.struct_size = sizeof outside;
  outside.rank = 5;
  outside.size = 2;
  static plait_job* two = nullptr;
  plait_job_options o{};
  o.struct_size = sizeof o;
  o.size = o.local_size = 2;
  plait_job_close(two);
  host::check(plait_job_open(&o, &two));
  return {
      {"plait_job_open", "no such rank",
       [](Output& o) { return plait_job_open(&outside, o.as<plait_job*>()); }},
      {"plait_job_describe", "no job",
       [](Output& o) { return plait_job_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_job_fail", "no text", [](Output&) { return plait_job_fail(two, nullptr, 0); }},
      {"plait_plan_make", "no experiment",
       [](Output& o) { return plait_plan_make(nullptr, o.as<plait_plan*>()); }},
      {"plait_plan_make", "shapes that do not fit, found by tracing",
       [=](Output& o) { return plait_plan_make(bad, o.as<plait_plan*>()); }},
      {"plait_plan_make_for", "a job of more ranks than the topology has",
       [=](Output& o) { return plait_plan_make_for(fine, two, o.as<plait_plan*>()); }},
      {"plait_plan_every_rank", "shapes that do not fit, found by tracing",
       [=](Output& o) { return plait_plan_every_rank(bad, o.as<plait_text*>()); }},
      {"plait_plan_replay", "a text that is no profile",
       [=](Output& o) {
         return plait_plan_replay(fine, "{}", PLAIT_NTS, o.as<plait_text*>(), nullptr);
       }},
      {"plait_plan_describe", "no plan",
       [](Output& o) { return plait_plan_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_plan_ir", "no such program",
       [=](Output& o) { return plait_plan_ir(plan, "nothing", PLAIT_NTS, o.as<plait_text*>()); }},
      {"plait_plan_picture", "no pipeline",
       [=](Output& o) { return plait_plan_picture(plan, o.as<plait_text*>()); }},
  };
}

std::vector<Call> of_sessions(plait_session* s, plait_plan* plan) {
  static plait_session_options no_folder{};
  no_folder.struct_size = sizeof no_folder;
  no_folder.run_dir = "/proc/nonexistent/run";
  static plait_feed unknown{};
  unknown.struct_size = sizeof unknown;
  static float sample[16] = {};
  static int64_t shape[] = {1, 16};
  static plait_dl_tensor tensor{sample, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  static plait_feed x{};
  x.struct_size = sizeof x;
  x.field = "x";
  x.tensor = &tensor;
  return {
      {"plait_session_open", "no plan",
       [](Output& o) { return plait_session_open(nullptr, nullptr, o.as<plait_session*>()); }},
      {"plait_session_open", "a folder that nobody can make",
       [=](Output& o) { return plait_session_open(plan, &no_folder, o.as<plait_session*>()); }},
      {"plait_session_run", "no session",
       [](Output& o) { return plait_session_run(nullptr, o.result()); }},
      {"plait_session_step", "a result too small",
       [=](Output& o) {
         o.result()->struct_size = 8;
         return plait_session_step(s, nullptr, 0, o.as<plait_step_result>());
       }},
      {"plait_session_step", "one feed, no array",
       [=](Output& o) { return plait_session_step(s, nullptr, 1, o.result()); }},
      {"plait_session_step", "a feed without a field",
       [=](Output& o) { return plait_session_step(s, &unknown, 1, o.result()); }},
      {"plait_session_evaluate", "no such dataset",
       [=](Output& o) { return plait_session_evaluate(s, "nope", o.as<plait_text*>()); }},
      {"plait_session_profile", "nothing to profile, as a size is missing",
       [=](Output& o) {
         static const plait_profile_options small_struct{};
         return plait_session_profile(s, &small_struct, o.as<plait_text*>(), nullptr);
       }},
      {"plait_session_predict", "no such value",
       [=](Output& o) { return plait_session_predict(s, &x, 1, "nope", o.as<float>(), 40); }},
      {"plait_session_predict", "room for one number too few",
       [=](Output& o) { return plait_session_predict(s, &x, 1, "output", o.as<float>(), 36); }},
      {"plait_session_predict_all", "the second value does not exist",
       [=](Output& o) {
         const plait_prediction values[] = {{"output", o.as<float>(), 40},
                                            {"nope", o.as<float>(), 40}};
         return plait_session_predict_all(s, &x, 1, values, 2);
       }},
      {"plait_session_any_rank", "neither 0 nor 1",
       [=](Output& o) { return plait_session_any_rank(s, 2, o.as<uint32_t>()); }},
      {"plait_session_save", "a folder that nobody can make",
       [=](Output&) { return plait_session_save(s, "/proc/nonexistent/checkpoint"); }},
      {"plait_session_load", "no such folder",
       [=](Output&) { return plait_session_load(s, "/nonexistent/checkpoint"); }},
      {"plait_session_load_parameters", "no such folder",
       [=](Output&) { return plait_session_load_parameters(s, "/nonexistent/checkpoint"); }},
      {"plait_session_merge", "no adapters", [=](Output&) { return plait_session_merge(s, 0); }},
      {"plait_session_merge_adapter", "no adapters",
       [=](Output&) { return plait_session_merge_adapter(s, nullptr, "poems", 0); }},
      {"plait_session_unmerge", "nothing is merged",
       [=](Output&) { return plait_session_unmerge(s); }},
      {"plait_session_adapters", "no session",
       [](Output& o) { return plait_session_adapters(nullptr, o.as<plait_text*>()); }},
      {"plait_session_load_adapter", "no adapters",
       [=](Output&) {
         plait_adapter_source source{};
         source.struct_size = sizeof source;
         source.path = "/nonexistent";
         return plait_session_load_adapter(s, nullptr, "nope", &source);
       }},
      {"plait_session_reset_adapter", "no adapters",
       [=](Output&) { return plait_session_reset_adapter(s, nullptr, "nope"); }},
      {"plait_session_save_adapter", "no adapters",
       [=](Output&) { return plait_session_save_adapter(s, nullptr, "nope", "/tmp/nope"); }},
      {"plait_session_save_model", "a folder that nobody can make",
       [=](Output&) { return plait_session_save_model(s, "/proc/nonexistent/checkpoint"); }},
      {"plait_session_describe", "no session",
       [](Output& o) { return plait_session_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_session_read", "no such parameter",
       [=](Output& o) { return plait_session_read(s, "nope", o.as<float>(), 64); }},
      {"plait_session_read", "room for one number too few",
       [=](Output& o) { return plait_session_read(s, "model.linear1.bias", o.as<float>(), 60); }},
      {"plait_session_write", "a number too few",
       [=](Output& o) { return plait_session_write(s, "model.linear1.bias", o.as<float>(), 60); }},
      {"plait_session_view", "no such parameter",
       [=](Output& o) { return plait_session_view(s, "nope", o.as<plait_dl_managed*>()); }},
      {"plait_session_view_of", "no such parameter",
       [=](Output& o) {
         return plait_session_view_of(s, "nope", nullptr, o.as<plait_dl_managed*>());
       }},
      {"plait_session_view_of", "a flag that is not known",
       [=](Output& o) {
         plait_view_options v{};
         v.struct_size = sizeof v;
         v.flags = 2;
         return plait_session_view_of(s, "model.linear1.bias", &v, o.as<plait_dl_managed*>());
       }},
      {"plait_session_wait_stream", "a device without streams",
       [=](Output& o) { return plait_session_wait_stream(s, o.as<char>()); }},
  };
}

std::vector<Call> of_tokenizers(plait_engine* engine, plait_tokenizer* t) {
  static constexpr int32_t kFar[] = {1000};
  return {
      {"plait_tokenizer_open", "no such type",
       [=](Output& o) {
         return plait_tokenizer_open(engine, "type = \"nope\"", PLAIT_NTS, nullptr,
                                     o.as<plait_tokenizer*>());
       }},
      {"plait_tokenizer_describe", "no tokenizer",
       [](Output& o) { return plait_tokenizer_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_tokenizer_encode", "no text",
       [=](Output& o) { return plait_tokenizer_encode(t, nullptr, 4, 0, o.as<plait_tokens*>()); }},
      {"plait_tokenizer_decode", "no such id",
       [=](Output& o) { return plait_tokenizer_decode(t, kFar, 1, 0, o.as<plait_text*>()); }},
  };
}

std::vector<Call> of_datasets(plait_engine* engine, plait_experiment* fine,
                              const plait_tokenizer* t) {
  static const plait_chat_message kNobody{"nobody", "hello", 5};
  return {
      {"plait_chat_templates", "no place for them",
       [](Output&) { return plait_chat_templates(nullptr); }},
      {"plait_chat_render", "no such template",
       [](Output& o) { return plait_chat_render("nope", &kNobody, 1, 0, o.as<plait_text*>()); }},
      {"plait_chat_encode", "no such role",
       [=](Output& o) {
         return plait_chat_encode(t, "chatml", &kNobody, 1, 0, o.as<plait_tokens*>());
       }},
      {"plait_dataset_open", "no such dataset",
       [=](Output& o) { return plait_dataset_open(fine, "nope", o.as<plait_dataset*>()); }},
      {"plait_dataset_parse", "no such type",
       [=](Output& o) {
         return plait_dataset_parse(engine, "type = \"nope\"", PLAIT_NTS, nullptr,
                                    o.as<plait_dataset*>());
       }},
      {"plait_dataset_describe", "no dataset",
       [](Output& o) { return plait_dataset_describe(nullptr, o.as<plait_text*>()); }},
      {"plait_dataset_read", "no such sample",
       [=](Output& o) {
         plait_dataset* d = nullptr;
         host::check(plait_dataset_open(fine, "train", &d));
         plait_error* e = plait_dataset_read(d, -1, 0, o.as<char>(), 4);
         plait_dataset_close(d);
         return e;
       }},
  };
}

std::vector<Call> of_generators(plait_session* no_generator, plait_generator* g) {
  static plait_prompt empty{};
  empty.struct_size = sizeof empty;
  return {
      {"plait_generator_open", "the plan does not generate",
       [=](Output& o) {
         return plait_generator_open(no_generator, nullptr, o.as<plait_generator*>());
       }},
      {"plait_generator_add", "an empty prompt",
       [=](Output& o) { return plait_generator_add(g, &empty, o.as<uint64_t>()); }},
      {"plait_generator_step", "no generator",
       [](Output& o) { return plait_generator_step(nullptr, nullptr, nullptr, o.as<uint64_t>()); }},
      {"plait_generator_cancel", "no generator",
       [](Output&) { return plait_generator_cancel(nullptr, 0); }},
  };
}

// A model that generates.
std::string generating() {
  return "[batch]\nglobal = 1\n[generate]\nonly = true\nlength = 4\n[model]\nlayers = [{type = "
         "\"embedding\", vocabulary = 3, width = 4}, {type = \"attention\", heads = 1}]\n[loss]\n"
         "type = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\n";
}

// The functions of the host's headers that return an error.
std::set<std::string> fallible() {
  std::stringstream text;
  for (const char* header : {"engine.h", "session.h", "models.h", "encode.h", "data.h",
                             "generate.h", "view.h", "adapters.h", "replay.h"})
    text << std::ifstream(PLAIT_SOURCE_FOLDER "/abi/plait/" + std::string(header)).rdbuf();
  const std::string all = text.str();
  const std::string before = "plait_error *PLAIT_CALL ";
  std::set<std::string> names;
  for (size_t at = 0; (at = all.find(before, at)) != std::string::npos;) {
    at += before.size();
    const std::string name = all.substr(at, all.find('(', at) - at);
    if (name != "plait_error_cause") names.insert(name);  // returns an error as its value
  }
  return names;
}

plait_experiment* parse(plait_engine* engine, const std::string& toml) {
  plait_experiment* x = nullptr;
  host::check(plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x));
  return x;
}

}  // namespace

TEST_CASE("on error every output of every function is untouched") {
  plait_engine* engine = host::new_engine();
  plait_experiment* fine = parse(engine, small());
  plait_experiment* bad =
      parse(engine, small("", "[[model.layers]]\ntype = \"reshape\"\nshape = [7]\n"));
  const Run run(small());
  std::set<std::string> seen;
  check_all(of_engines(engine), seen);
  check_all(of_plans(fine, bad, run.plan()), seen);
  check_all(of_sessions(run.session(), run.plan()), seen);
  plait_tokenizer* tokenizer = nullptr;
  host::check(plait_tokenizer_open(engine, "type = \"bytes\"", PLAIT_NTS, nullptr, &tokenizer));
  check_all(of_tokenizers(engine, tokenizer), seen);
  check_all(of_datasets(engine, fine, tokenizer), seen);
  const Run generates(generating());
  plait_generator* generator = nullptr;
  host::check(plait_generator_open(generates.session(), nullptr, &generator));
  check_all(of_generators(run.session(), generator), seen);
  plait_generator_close(generator);
  plait_tokenizer_close(tokenizer);
  CHECK(run.step().step == 1);  // the refused calls had no effect
  CHECK(seen == fallible());
  plait_experiment_close(bad);
  plait_experiment_close(fine);
  plait_engine_close(engine);
}

TEST_CASE("a run that is stopped leaves its result untouched") {
  const Run run(small());
  Output out;
  plait_session_cancel(run.session());
  CHECK(host::failure_of([&] {
          host::check(plait_session_run(run.session(), out.result()));
        }).code == PLAIT_ERR_CANCELLED);
  CHECK(out.untouched());
}
