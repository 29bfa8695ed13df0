// Generators.
#include <plait/generate.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/generate/generator.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

// The structs as ABI 1 has them, up to their last member.
constexpr size_t kGeneratorOptionsV1 = offsetof(plait_generator_options, tokenizer) + sizeof(void*),
                 kSamplingV1 = offsetof(plait_sampling, seed) + sizeof(uint64_t),
                 kPromptV1 = offsetof(plait_prompt, chat_template) + sizeof(void*);

}  // namespace

struct plait_generator {
  CallGuard guard;
  std::shared_ptr<EngineState> engine;
  std::shared_ptr<SessionState> session;
  std::unique_ptr<tokenizer::Tokenizer> own;  // of the experiment
  std::unique_ptr<generate::Generator> generator;
  config::GenerateConfig config;
  const config::ModelConfig* model = nullptr;  // of the session's plan
  std::vector<int32_t> end_ids;                // unless a prompt has its own
  // Reused by each token.
  std::vector<int32_t> best_ids;
  std::vector<double> best_scores;
  ~plait_generator() { session->generating = false; }
};

namespace {

// A call on a generator is a call on its session, too.
class GeneratorCall {
 public:
  GeneratorCall(plait_generator& g, const char* function)
      : own_(g, function, "generator"), session_(g.session), function_(function) {
    session_->guard.begin(function, "session", session_->handle, CallGuard::Nested::kRefused);
    watched_.emplace(session_->mark.get());
  }
  GeneratorCall(const GeneratorCall&) = delete;
  GeneratorCall& operator=(const GeneratorCall&) = delete;
  ~GeneratorCall() {
    watched_.reset();
    if (session_->guard.end(function_)) delete session_->handle;  // closed meanwhile
  }

 private:
  ApiCall<plait_generator> own_;
  const std::shared_ptr<SessionState> session_;
  const char* function_;
  std::optional<WatchedThread> watched_;
};

std::vector<int32_t> default_ends(const config::GenerateConfig& config,
                                  const tokenizer::Tokenizer* tokenizer) {
  std::vector<int32_t> ids(config.end.begin(), config.end.end());
  if (ids.empty() && tokenizer)
    for (const plait_special_token& s : tokenizer->specials())
      if (s.role == PLAIT_TOKEN_END) ids.push_back(s.id);
  return ids;
}

generate::Sampling sampling_of(const plait_generator& g, const plait_sampling* given) {
  const config::GenerateConfig& c = g.config;
  if (!given)
    return {c.temperature,
            c.top_k,
            c.top_p,
            c.min_p,
            c.repetition_penalty,
            static_cast<uint64_t>(c.seed)};
  const auto s = read_options(given, kSamplingV1, "plait_sampling");
  return {s.temperature,
          s.top_k,
          s.top_p == 0 ? 1 : s.top_p,
          s.min_p,
          s.repetition_penalty == 0 ? 1 : s.repetition_penalty,
          s.seed};
}

const tokenizer::Tokenizer& tokenizer_of(const plait_generator& g, const char* what) {
  if (const tokenizer::Tokenizer* t = g.generator->tokenizer()) return *t;
  fail_invalid(std::string("[generate] ") + what +
               " needs a tokenizer: [tokenizer] in the experiment, plait generate --tokenizer, or "
               "the host's option `tokenizer` of the generator");
}

// The template of a conversation; nullptr: the prompt is none.
const char* template_of(const plait_generator& g, const plait_prompt& p) {
  if (!p.messages) return nullptr;
  if (p.chat_template) return p.chat_template;
  if (g.config.chat_template.empty())
    fail_invalid(
        "[generate] a conversation needs a chat template: generate.chat_template in the "
        "experiment, plait generate --template NAME, or the host's `chat_template` of the prompt");
  return g.config.chat_template.c_str();
}

// What the prompt has as ids, then what it has as text or conversation.
std::vector<int32_t> ids_of(const plait_generator& g, const plait_prompt& p) {
  const char* format = template_of(g, p);
  std::vector<int32_t> ids;
  if (p.n_ids > 0 || !(format || p.text)) {
    if (p.n_ids > 0) require(p.ids, "plait_prompt.ids");
    g.generator->check_length(p.n_ids);  // before they are read
    ids.assign(p.ids, p.ids + p.n_ids);
  }
  const auto append = [&](const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  };
  kit::InvalidBytes invalid;
  if (format) {
    append(chat_ids(tokenizer_of(g, "a conversation"), format, p.messages, p.n_messages,
                    PLAIT_CHAT_GENERATE, invalid));
  } else if (p.text) {
    const std::string_view text =
        p.size == PLAIT_NTS ? std::string_view(p.text) : std::string_view(p.text, p.size);
    append(tokenizer_of(g, "a prompt of text")
               .encode(text,
                       (p.plain ? PLAIT_ENCODE_PLAIN : 0) | (p.unwrapped ? 0 : PLAIT_ENCODE_WRAP),
                       false, invalid));
  }
  return ids;
}

// The number of the adapter with this name; -1 for NULL and "base".
int32_t adapter_of(const plait_generator& g, const char* name) {
  if (!name) return -1;
  const config::ModelConfig& model = *g.model;
  const std::vector<std::string> names = config::adapter_names(model);
  if (model.adapter_field.empty())
    fail_config(std::string("[generate] the adapter of the prompt is '") + printable(name) +
                "', and every " + "sequence takes all adapters of '" + model.name + "'" +
                (names.empty() ? ", which has none" : ": " + join(names)) + "; set " + model.path +
                ".adapter_field in the experiment, so that each takes one");
  const std::optional<int64_t> number = config::adapter_number(model, name);
  if (!number)
    fail_not_found(std::string("[generate] '") + model.name + "' has no adapter '" +
                   printable(name) + "'" + did_you_mean(nearest(std::string(name), names)) +
                   "; there are: " + join(names) + "; and \"" + config::kNoAdapter +
                   "\" for the model alone");
  return static_cast<int32_t>(*number);
}

generate::Prompt prompt_of(const plait_generator& g, const plait_prompt& p) {
  generate::Prompt to;
  to.ids = ids_of(g, p);
  to.sampling = sampling_of(g, p.sampling);
  to.max_tokens = p.max_tokens ? p.max_tokens : g.config.max_tokens;
  to.min_tokens = p.min_tokens ? p.min_tokens : g.config.min_tokens;
  to.end = p.end_ids ? std::vector<int32_t>(p.end_ids, p.end_ids + p.n_end_ids) : g.end_ids;
  if (const char* format = template_of(g, p); format && !p.end_ids)
    for (const int32_t id : chat_turn_ends(*g.generator->tokenizer(), format)) to.end.push_back(id);
  if (p.stop)
    for (uint64_t i = 0; i < p.n_stop; ++i) {
      require(p.stop[i], "plait_prompt.stop[i]");
      to.stop.emplace_back(p.stop[i]);
    }
  else
    to.stop = g.config.stop;
  to.log_probabilities = p.log_probabilities != 0;
  to.best = p.best;
  to.adapter = adapter_of(g, p.adapter);
  return to;
}

uint32_t report(plait_generator& g, const generate::Token& t, plait_token_callback call,
                void* user) {
  plait_token c{};
  c.struct_size = sizeof c;
  c.sequence = t.sequence;
  c.index = t.index;
  c.id = t.id;
  c.finish = static_cast<uint32_t>(t.finish);
  c.text = t.text.empty() ? "" : t.text.data();
  c.size = t.text.size();
  c.log_probability = t.log_probability;
  g.best_ids.clear();
  g.best_scores.clear();
  for (const generate::ScoredToken& b : t.best) {
    g.best_ids.push_back(b.id);
    g.best_scores.push_back(b.score);
  }
  c.best_ids = g.best_ids.data();
  c.best_log_probabilities = g.best_scores.data();
  c.n_best = g.best_ids.size();
  c.n_reused = t.reused;
  return call(user, &c);
}

// Another tokenizer than the model's gives ids that mean something else, or nothing.
void check_vocabulary(const tokenizer::Tokenizer& t, const plan::Generation& plan) {
  if (t.info().vocabulary > plan.vocabulary)
    fail_config("[capi] the tokenizer has " + std::to_string(t.info().vocabulary) +
                " ids, the model '" + plan.model + "' " + std::to_string(plan.vocabulary) +
                "; use the tokenizer that the model was trained with");
}

}  // namespace

extern "C" {

plait_error* plait_generator_open(plait_session* session, const plait_generator_options* options,
                                  plait_generator** out) {
  return guard_c([&] {
    require(session, "session");
    require(out, "out");
    const ApiCall call(*session, "plait_generator_open", "session");
    const auto o = read_options(options, kGeneratorOptionsV1, "plait_generator_options");
    SessionState& state = *session->state;
    session::TokenRunner& runner = state.session->token_runner();
    if (state.generating)
      fail(PLAIT_ERR_STATE,
           "[capi] the session has a generator already; close it first, or add sequences to it");
    auto g = std::make_unique<plait_generator>();
    g->engine = session->engine;
    g->session = session->state;
    const config::Experiment& experiment = state.session->plan().experiment;
    g->config = experiment.generate;
    g->model = experiment.model(runner.plan().model);
    if (o.tokenizer) o.tokenizer->engine->check_own("plait_generator_open", "tokenizer");
    const tokenizer::Tokenizer* tokenizer = o.tokenizer ? &o.tokenizer->tokenizer : nullptr;
    if (!tokenizer && experiment.tokenizer) {
      g->own = std::make_unique<tokenizer::Tokenizer>(*experiment.tokenizer,
                                                      shared_registry(session->engine));
      tokenizer = g->own.get();
    }
    if (tokenizer) check_vocabulary(*tokenizer, runner.plan());
    g->end_ids = default_ends(g->config, tokenizer);
    g->generator = std::make_unique<generate::Generator>(runner, tokenizer,
                                                         experiment.generate.prefix_caching);
    state.generating = true;
    *out = g.release();
  });
}

plait_error* plait_generator_add(plait_generator* generator, const plait_prompt* prompt,
                                 uint64_t* sequence) {
  return guard_c([&] {
    require(generator, "generator");
    require(prompt, "prompt");
    const GeneratorCall call(*generator, "plait_generator_add");
    const auto p = read_options(prompt, kPromptV1, "plait_prompt");
    const uint64_t number = generator->generator->add(prompt_of(*generator, p));
    if (sequence) *sequence = number;
  });
}

plait_error* plait_generator_step(plait_generator* generator, plait_token_callback on_token,
                                  void* user, uint64_t* left) {
  return guard_c([&] {
    require(generator, "generator");
    const GeneratorCall call(*generator, "plait_generator_step");
    const auto each = [&](const generate::Token& t) {
      return !on_token || report(*generator, t, on_token, user) == 0;
    };
    const size_t n = generator->generator->step(std::ref(each));  // a copy would be allocated
    if (left) *left = n;
  });
}

plait_error* plait_generator_cancel(plait_generator* generator, uint64_t sequence) {
  return guard_c([&] {
    require(generator, "generator");
    const GeneratorCall call(*generator, "plait_generator_cancel");
    generator->generator->cancel(sequence);
  });
}

void plait_generator_close(plait_generator* generator) {
  if (!generator || generator->guard.is_foreign()) return;
  if (generator->guard.close()) delete generator;
}

}  // extern "C"
