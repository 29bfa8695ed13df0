#include "engine/plan/generation.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"
#include "kit/draw_weight.hpp"

namespace plait::plan {
namespace {

// What a dataset of token ids has, where the experiment has no data.
constexpr const char* kUsualInput = "tokens";
constexpr const char* kUsualFields[] = {kPositionsField, "first"};

plait_field field(const char* name, int64_t tokens) {
  plait_field f{};
  f.name = name;
  f.role = PLAIT_FIELD_INPUT;
  f.shape = program::make_shape(PLAIT_I32, {tokens});
  return f;
}

config::Origin origin_of(const PlanDraft& plan, const char* key) {
  for (const auto& [path, set] : plan.experiment.sections)
    if (path == "generate") return set.origin(key);
  return plan.experiment.origin;
}

bool has_tokens(const plait_field& f) {
  return f.role == PLAIT_FIELD_INPUT && f.shape.ndim == 1 && !program::is_float(f.shape.dtype);
}

// The fields of [data.train], those that have a number for each token with `length` of them.
bool choose_fields_of(const Dataset& data, PlanDraft& plan, config::Problems& problems) {
  GenerationFields& to = plan.generation_fields;
  int64_t trained = 0;  // tokens of a sample
  for (const plait_field& f : data.fields())
    if (trained == 0 && has_tokens(f)) trained = f.shape.dims[0];
  if (trained == 0) {
    problems.add(origin_of(plan, "slots"), "generate.slots",
                 "[data.train] has no field of token ids, an integer for each token of a sample",
                 "generate with a model that reads token ids");
    return false;
  }
  int64_t& length = plan.generation.length;
  if (length == 0) length = trained;
  for (const plait_field& f : data.fields()) {
    const bool of_tokens = has_tokens(f) && f.shape.dims[0] == trained;
    if (of_tokens) to.names.emplace_back(f.name);
    to.fields.push_back(of_tokens ? field(f.name, length) : f);
  }
  return true;
}

bool choose_fields(PlanDraft& plan, config::Problems& problems) {
  GenerationFields& to = plan.generation_fields;
  int64_t& length = plan.generation.length;
  const Dataset* data = plan.dataset("train");
  if (data && !choose_fields_of(*data, plan, problems)) return false;
  if (length < 2) {
    problems.add(origin_of(plan, "length"), "generate.length",
                 length == 1 ? "1, which leaves no room for a token behind a prompt"
                             : "not given, and there is no [data.train] that tells how long "
                               "samples are",
                 "set it to the most tokens of a sequence, its prompt included");
    return false;
  }
  if (data) return true;
  const std::string& input = plan.experiment.generate.input;
  to.names.push_back(input.empty() ? kUsualInput : input);
  for (const char* name : kUsualFields)
    if (name != to.names[0]) to.names.emplace_back(name);
  for (const std::string& name : to.names) to.fields.push_back(field(name.c_str(), length));
  return true;
}

const std::string& adapter_field(const PlanDraft& plan) {
  return plan.experiment.model(plan.generation.model)->adapter_field;
}

// The number of the adapter that a sequence takes is fed beside its tokens, also where data lack
// it.
void add_adapter_field(PlanDraft& plan) {
  const std::string& name = adapter_field(plan);
  if (name.empty()) return;
  std::vector<plait_field>& all = plan.generation_fields.fields;
  std::erase_if(all, [&](const plait_field& f) { return name == f.name; });
  all.push_back(field(name.c_str(), 1));
  all.back().shape = program::make_shape(PLAIT_I32, {});
}

bool choose_model(PlanDraft& plan, config::Problems& problems) {
  const auto& models = plan.experiment.models;
  std::string& name = plan.generation.model;
  name = plan.experiment.generate.model;
  if (name.empty() && models.size() == 1) name = models[0].name;
  std::vector<std::string> names;
  for (const auto& m : models) names.push_back(m.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  problems.add(origin_of(plan, "model"), "generate.model",
               name.empty()
                   ? "there are several models"
                   : "there is no model '" + name + "'" + did_you_mean(nearest(name, names)),
               "name one of: " + join(names));
  return false;
}

// A feed without memory.
Feed template_feed(PlanDraft& plan, const std::string& name, int64_t samples) {
  Feed feed;
  feed.batch = samples;
  const int32_t segment = plan.storage.add(name, Category::kInputs, 0);
  feed.counter = plan.storage.allocate(segment, 16);
  feed.weight = plan.storage.allocate(segment, program::bytes_of(samples, data::kWeightType));
  return feed;
}

GenerationInputs make_inputs(PlanDraft& plan, int32_t segment, int64_t samples, int64_t tokens) {
  GenerationInputs in;
  in.samples = samples;
  in.tokens = tokens;
  const auto take = [&](int64_t n) {
    return plan.storage.allocate(segment, program::bytes_of(n, PLAIT_I32));
  };
  in.ids = take(samples * tokens);
  in.at = take(samples * tokens);
  in.positions = take(samples * tokens);
  in.slot = take(samples);
  in.lengths = take(samples);
  const bool by_sample = !adapter_field(plan).empty();
  if (by_sample) in.adapter = take(samples);
  const BufferRef last = by_sample ? in.adapter : in.lengths;
  in.bytes = last.offset - in.ids.offset + program::bytes_of(samples, PLAIT_I32);
  return in;
}

program::CacheInputs cache_inputs(const PlanDraft& plan, const GenerationInputs& in) {
  program::CacheInputs to;
  to.tokens = in.tokens;
  to.ids = in.ids;
  to.at = in.at;
  to.positions = in.positions;
  to.slot = in.slot;
  to.lengths = in.lengths;
  to.numbers = in.adapter;
  to.slots = plan.generation.slots;
  to.length = plan.generation.length;
  if (plan.experiment.generate.cache == "f32") to.cache_type = PLAIT_F32;
  return to;
}

StageView whole_view(program::Graph& g) {
  return {g, [](program::ValueId v, int32_t) { return v; },
          [](const ParameterUse& use) { return use.value; }, 0, false};
}

// Compiles what was written. It shares the caches of the program before; the first one makes them.
int32_t add_program(PlanDraft& plan, const char* name, TracedStep w) {
  std::vector<BufferRef>& caches = plan.generation.caches;
  const bool first = caches.empty();
  const int32_t segment = first ? plan.storage.add("kv cache", Category::kCache) : -1;
  size_t n = 0;
  program::place_caches(*w.graph, [&](const plait_shape& s) {
    if (first) caches.push_back(plan.storage.allocate(segment, program::bytes(s)));
    return caches.at(n++);
  });
  if (n == 0)
    fail_config("[generate] model '" + plan.generation.model +
                "' has no attention, so there is nothing to cache; generate.slots = 0");
  gather_parameter_uses(plan, w, whole_view(*w.graph));
  return plan.add(compile(name, std::move(w.graph), plan));
}

// The op that draws a token from each row of logits, if the device has a kernel for it: its inputs
// become the end of what decode is fed, and its results lie side by side.
void write_draw(PlanDraft& plan, program::Graph& to, program::ValueId logits) {
  Generation& g = plan.generation;
  const auto operands = [&](program::Graph& of, BufferRef settings, BufferRef numbers) {
    return std::vector<program::ValueId>{
        of.persistent("draw.settings",
                      program::make_shape(PLAIT_F32, {g.slots, 1, kit::kDrawSettings}), settings),
        of.persistent("draw.numbers",
                      program::make_shape(PLAIT_I32, {g.slots, 1, kit::kDrawNumbers}), numbers)};
  };
  program::Graph alone(to.registry(), to.float_type());
  const program::ValueId rows = alone.persistent("logits", to.shape(logits), {});
  const auto asked = operands(alone, {}, {});
  alone.apply("draw_tokens", {rows, asked[0], asked[1]});
  if (!has_kernel(plan, alone, alone.ops().back())) return;
  GenerationInputs& in = g.decode;
  const auto take = [&](int64_t each) {
    return plan.storage.allocate(in.ids.segment, program::bytes_of(g.slots * each, PLAIT_I32));
  };
  in.settings = take(kit::kDrawSettings);
  in.numbers = take(kit::kDrawNumbers);
  in.bytes =
      in.numbers.offset - in.ids.offset + program::bytes_of(g.slots * kit::kDrawNumbers, PLAIT_I32);
  const int32_t results = plan.storage.add("drawn tokens", Category::kResults);
  g.drawn = plan.storage.allocate(results, program::bytes_of(g.slots, PLAIT_I32));
  g.drawn_log_probabilities = plan.storage.allocate(results, program::bytes_of(g.slots, PLAIT_F32));
  const auto fed = operands(to, in.settings, in.numbers);
  const auto drawn = to.apply("draw_tokens", {logits, fed[0], fed[1]});
  to.bind(drawn[0], g.drawn);
  to.bind(drawn[1], g.drawn_log_probabilities);
}

void check_ends(const PlanDraft& plan) {
  const int64_t n = plan.generation.vocabulary;
  for (const int64_t id : plan.experiment.generate.end)
    if (id < 0 || id >= n)
      fail_config(
          strf("[generate] generate.end has the id %ld, expected ids of model '%s', 0 to %ld",
               static_cast<long>(id), plan.generation.model.c_str(), static_cast<long>(n - 1)));
}

}  // namespace

void choose_generation(PlanDraft& plan, config::Problems& problems) {
  const config::GenerateConfig& wanted = plan.experiment.generate;
  Generation& g = plan.generation;
  const int64_t slots = wanted.slots > 0 ? wanted.slots : wanted.only ? 1 : 0;
  if (slots == 0) return;
  g.length = wanted.length;
  if (plan.grid.pipeline() > 1)
    return problems.add(
        origin_of(plan, "slots"), "generate.slots",
        strf("%ld, with topology.pipeline = %d", static_cast<long>(slots), plan.grid.pipeline()),
        "generate on tensor ranks, or without a pipeline");
  if (!choose_model(plan, problems) || !choose_fields(plan, problems)) return;
  add_adapter_field(plan);
  g.slots = slots;
  plan.prefill_feed = template_feed(plan, "prefill", 1);
  plan.decode_feed = template_feed(plan, "decode", slots);
  const int32_t segment = plan.storage.add("generation inputs", Category::kInputs);
  g.prefill = make_inputs(plan, segment, 1, std::min(wanted.chunk, g.length));
  g.decode = make_inputs(plan, segment, slots, 1);
}

std::string tokens_field(const PlanDraft& plan, const Tracer& tracer) {
  const std::vector<std::string>& names = plan.generation_fields.names;
  const std::string& wanted = plan.experiment.generate.input;
  for (const std::string& name : names)
    if ((wanted.empty() ? name != kPositionsField : name == wanted) && tracer.field(name))
      return name;
  fail_config("[generate] model '" + plan.generation.model + "' reads no token ids from " +
              (wanted.empty() ? "the fields " + join(names) : "the field '" + wanted + "'") +
              "; set generate.input to the input of the model that takes them");
}

std::shared_ptr<const Tracer> trace_generation(PlanDraft& plan, int64_t samples,
                                               config::Problems* problems) {
  Feed& feed = samples == plan.generation.slots ? plan.decode_feed : plan.prefill_feed;
  const TraceSource source{&plan.generation_fields.fields, nullptr, "train"};
  auto tracer = std::make_shared<Tracer>(
      plan, feed, source, TraceMode::kGeneration, [](size_t, size_t) { return 0; }, problems);
  tracer->run();
  return tracer;
}

EntryPoint write_prefill(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  program::CacheInputs inputs = cache_inputs(plan, plan.generation.prefill);
  inputs.writes_only = true;
  TracedStep w = write_generation(plan, *from.traced.prefill, inputs,
                                  [&](Collective c) { return plan.add(std::move(c)); });
  EntryPoint entry{kPrefill, "a chunk of a prompt", {}};
  entry.launches = {{add_program(plan, kPrefill, std::move(w)), 0, -1, -1}};
  return entry;
}

EntryPoint write_decode(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  Generation& g = plan.generation;
  TracedStep w = write_generation(plan, *from.traced.decode, cache_inputs(plan, g.decode),
                                  [&](Collective c) { return plan.add(std::move(c)); });
  const program::ValueId logits = w.graph->as_type(w.outputs.at(0).second, PLAIT_F32);
  const plait_shape shape = w.graph->shape(logits);
  if (shape.ndim != 3)
    fail_config("[generate] the output of model '" + g.model + "' is " + program::text(shape) +
                " for the next tokens, expected (samples, tokens, vocabulary)");
  g.vocabulary = shape.dims[shape.ndim - 1];
  if (g.vocabulary > kit::kMostDrawn)
    fail_config("[generate] the output of model '" + g.model + "' is " + program::text(shape) +
                " for the next tokens, expected a vocabulary of at most " +
                std::to_string(kit::kMostDrawn));
  check_ends(plan);
  const int32_t segment = plan.storage.add("logits", Category::kResults);
  g.logits = plan.storage.allocate(segment, program::bytes(shape));
  write_draw(plan, *w.graph, w.graph->bind(logits, g.logits));
  const std::string tokens = tokens_field(plan, *from.traced.decode);
  for (const Field& f : plan.decode_feed.fields)
    if (f.name == tokens) g.ids = f.index_ranges;
  EntryPoint entry{kDecode, "a token of each sequence", {}};
  entry.launches = {{add_program(plan, kDecode, std::move(w)), 0, -1, -1}};
  return entry;
}

}  // namespace plait::plan
