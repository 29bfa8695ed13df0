// plait generate: continues prompts with a model, token by token.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <plait/generate.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/data/tokenizer_argument.hpp"
#include "bindings/cli/generate/answers.hpp"
#include "bindings/cli/generate/chat.hpp"
#include "bindings/cli/generate/prompts.hpp"
#include "bindings/cli/generate/sequences.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/item_toml.hpp"
#include "bindings/cli/one_rank.hpp"

namespace plait::cli {
namespace {

class Generation {
 public:
  Generation(Context& context, const GenerateArguments& arguments)
      : context_(context), arguments_(arguments) {}
  int run();

 private:
  std::vector<std::string> overrides(const Json& given) const;
  void check_length(const Json& given) const;
  void check_tokenizer(const Json& planned) const;
  void load(Session& session, const Json& values) const;

  Context& context_;
  const GenerateArguments& arguments_;
  Prompts prompts_;
};

// The keys that the options stand for; the experiment generates only, on one rank.
std::vector<std::string> Generation::overrides(const Json& given) const {
  std::vector<std::string> all = on_one_rank(given);
  const auto set = [&](const char* key, const std::string& value) {
    if (!value.empty()) all.push_back("generate." + std::string(key) + "=" + value);
  };
  set("max_tokens", arguments_.max_tokens);
  set("temperature", arguments_.temperature);
  set("top_k", arguments_.top_k);
  set("top_p", arguments_.top_p);
  set("min_p", arguments_.min_p);
  set("seed", arguments_.seed);
  constexpr size_t kSlots = 8;  // as many as read weights hardly slower than one
  const size_t n = std::min(prompts_.size(), kSlots);
  if (arguments_.slots.empty() && n > 1 && given.at("generate.slots").at("value") == 0)
    set("slots", std::to_string(n));
  else
    set("slots", arguments_.slots);
  set("length", arguments_.length);
  check_length(given);
  if (!arguments_.chat_template.empty()) set("chat_template", toml_value(arguments_.chat_template));
  if (!arguments_.stop.empty()) set("stop", toml_value(arguments_.stop));
  // Without data nothing else tells how long samples were.
  const auto data = given.find("data.train.length");
  if (arguments_.length.empty() && given.at("generate.length").at("value") == 0 &&
      data != given.end() && data->at("value").is_number_integer())
    set("length", std::to_string(data->at("value").get<int64_t>()));
  return all;
}

// Of samples without tokens nothing tells how long a sequence may be.
void Generation::check_length(const Json& given) const {
  if (!arguments_.length.empty() || given.at("generate.length").at("value") != 0) return;
  if (!given.contains("data.train.type") || given.contains("data.train.length")) return;
  throw CliError(kUsage,
                 "[generate] dataset '" + given["data.train.type"]["value"].get<std::string>() +
                     "' of [data.train] has no `length` of tokens; a model that reads token ids "
                     "needs --length N, the answers of another are computed by plait predict");
}

// Prompts are texts, which the model knows as ids.
void Generation::check_tokenizer(const Json& planned) const {
  const bool texts = !prompts_.texts.empty() || arguments_.chat;
  if (!texts || !arguments_.tokenizer.empty() || planned.contains("tokenizer.type")) return;
  throw CliError(kUsage,
                 "[generate] a text needs a tokenizer, and the experiment has no "
                 "[tokenizer]; give --tokenizer T, or token ids: --ids 1,52,7");
}

// The parameters of a checkpoint or of the run that FILE is; else those that the experiment names.
void Generation::load(Session& session, const Json& values) const {
  const std::string checkpoint = checkpoint_of(arguments_.file, arguments_.checkpoint);
  if (!checkpoint.empty()) return session.load_parameters(checkpoint);
  const auto model = values.at("generate.model").at("value").get<std::string>();
  for (const auto& [key, value] : values.items()) {
    const bool is_load =
        key == "model.load" || (key.starts_with("models.") && key.ends_with(".load") &&
                                (model.empty() || key == "models." + model + ".load"));
    if (is_load && !value.at("value").get<std::string>().empty()) return;
  }
  throw CliError(kUsage,
                 "[generate] the model has initial values only; give --checkpoint DIR, a "
                 "checkpoint or a run directory, or set model.load");
}

// Those that fine_tune makes samples with: "; there are: chatml, ...".
std::string chat_templates(const Engine& engine) {
  const Declarations declarations(engine);
  const Json& set = declarations.item("plait.dataset/1", "fine_tune");
  std::vector<std::string> names;
  if (!set.is_null())
    for (const Json& option : set.at("options"))
      if (option.at("name") == "template")
        names = option.at("choices").get<std::vector<std::string>>();
  std::erase(names, "none");
  return names.empty() ? "" : "; there are: " + joined(names, ", ");
}

int Generation::run() {
  prompts_ = read_prompts(arguments_);
  Engine engine = context_.open_engine();
  std::vector<std::string> given = arguments_.file.overrides();
  // In a conversation each turn repeats those before it.
  if (arguments_.chat) given.insert(given.begin(), "generate.prefix_caching=true");
  given.emplace_back("generate.only=true");
  const Json values =
      Json::parse(Experiment::read(engine, arguments_.file.path(), given).describe());
  const auto own = overrides(values);
  given.insert(given.end(), own.begin(), own.end());
  const Experiment experiment = Experiment::read(engine, arguments_.file.path(), given);
  const Json planned = Json::parse(experiment.describe());
  if (arguments_.chat && planned.at("generate.chat_template").at("value") == "")
    throw CliError(kUsage,
                   "[generate] --chat needs to know how the model has learned to see "
                   "conversations; give --template NAME, or set generate.chat_template" +
                       chat_templates(engine));
  check_tokenizer(planned);
  const Plan plan(experiment);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session = context_.open_session(plan, settings);
  load(session, values);
  std::optional<Tokenizer> tokenizer;
  if (!arguments_.tokenizer.empty())
    tokenizer.emplace(
        open_tokenizer(engine, tokenizer_toml(arguments_.tokenizer, arguments_.options)));
  Generator generator(session, tokenizer ? &*tokenizer : nullptr);
  Sequences sequences(context_, arguments_, session, generator, planned);
  sequences.tell_placeholders();
  return arguments_.chat ? chat(sequences) : answer(sequences, prompts_);
}

}  // namespace

void add_generate(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "generate", "continues prompts with the model of FILE; [generate] has the defaults");
  const auto a = std::make_shared<GenerateArguments>();
  add_file(*verb, a->file);
  const auto option = [&](const char* name, auto& to, const char* help, const char* type) {
    return verb->add_option(name, to, help)->type_name(type)->allow_extra_args(false);
  };
  option(
      "--checkpoint", a->checkpoint,
      "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint; default: FILE, if "
      "that is one of these",
      "DIR");
  option(
      "--adapter", a->adapter,
      "with model.adapter_field: the adapter that answers; base, and the default: the model alone",
      "NAME");
  const std::array prompts{
      option("--prompt", a->prompts, "a text to continue; may be repeated", "TEXT"),
      option(
          "--file", a->prompt_file,
          "a prompt on each line, as text or {\"prompt\": ...}, which may have an \"adapter\"; -: "
          "standard input",
          "FILE"),
      option("--ids", a->ids, "token ids to continue, for a model without [tokenizer]", "LIST")};
  option(
      "--placeholders", a->placeholders,
      "tokens in front of each prompt, in whose place adapters put vectors; default: n_tokens of "
      "soft_prompt and prefix",
      "N")
      ->check(CLI::Range(0, 1 << 30));
  option("--max-tokens", a->max_tokens,
         "tokens after the prompt at most; 0: up to the length of a sequence", "N");
  option("--temperature", a->temperature, "0: the most likely token each time", "T");
  option("--top-k", a->top_k, "draw among so many most likely tokens", "N");
  option("--top-p", a->top_p, "draw among the most likely tokens that sum up to P", "P");
  option("--min-p", a->min_p, "draw among tokens at least P times as likely as the likeliest", "P");
  option("--seed", a->seed, "seed of the tokens drawn", "N");
  option("--stop", a->stop, "a text that ends a sequence; may be repeated", "TEXT");
  option("--slots", a->slots,
         "sequences that are generated at a time; default: generate.slots, or as many as there are "
         "prompts, at most 8",
         "N");
  option("--length", a->length, "tokens of a sequence at most, its prompt included", "N");
  CLI::Option* const chat =
      verb->add_flag("--chat", a->chat,
                     "a conversation: each line of standard input is a turn; Ctrl-C ends a turn of "
                     "the model, /new "
                     "begins another conversation, /save FILE keeps this one");
  for (CLI::Option* const prompt : prompts) chat->excludes(prompt);
  option("--template", a->chat_template,
         "how the model has learned to see conversations; generate.chat_template", "NAME");
  option("--system", a->system, "what the system says first", "TEXT")->needs(chat);
  option("--conversation", a->conversation,
         "keeps the conversation in FILE, and continues the one that FILE holds", "FILE")
      ->needs(chat);
  option(
      "--tokenizer", a->tokenizer,
      "a type (bytes, chars, ...), tokenizer.json or the folder with it; default: [tokenizer] of "
      "FILE",
      "T");
  option("--option", a->options, "an option of --tokenizer; may be repeated", "KEY=VALUE");
  verb->callback([&context, a] {
    context.run_command = [&context, a] { return Generation(context, *a).run(); };
  });
}

}  // namespace plait::cli
