// plait generate: continues prompts with a model, token by token.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <plait/generate.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/data/tokenizer_argument.hpp"
#include "bindings/cli/generate/conversation.hpp"
#include "bindings/cli/generate/placeholders.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/item_toml.hpp"
#include "bindings/cli/one_rank.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct GenerateArguments {
  FileArguments file;
  std::string checkpoint, adapter, prompt_file, tokenizer, chat_template, system, conversation;
  bool chat = false;
  std::vector<std::string> prompts, ids, stop, options;
  std::optional<int64_t> placeholders;  // none: as many as the adapters want
  std::string max_tokens, temperature, top_k, top_p, min_p, seed, slots, length;  // "": not given
};

struct TextPrompt {
  std::string text, adapter;  // "": as --adapter says
};

struct Sequence {
  std::string prompt, text;
  std::vector<int32_t> ids;
  uint32_t finish = PLAIT_FINISH_NONE;
};

const char* finish_name(uint32_t finish) {
  static const char* const kNames[] = {"", "end", "stop", "length", "cancelled", "failed"};
  return finish < std::size(kNames) ? kNames[finish] : "";
}

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  std::stringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    char* end = nullptr;
    const long id = std::strtol(one.c_str(), &end, 10);
    if (one.empty() || *end != 0 || id < 0 || id > INT32_MAX)
      throw CliError(kUsage, "[generate] --ids '" + text + "': '" + one +
                                 "' is no token id; expected numbers, as 1,52,7");
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// A prompt on each line, or {"prompt": ..., "adapter": ...}; "-": stdin.
std::vector<TextPrompt> read_prompts(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) throw CliError(kUsage, "[generate] --file '" + path + "' cannot be read");
  }
  std::istream& from = path == "-" ? std::cin : file;
  std::vector<TextPrompt> prompts;
  size_t number = 0;
  for (std::string line; std::getline(from, line);) {
    ++number;
    if (line.empty()) continue;
    if (line[0] != '{') {
      prompts.push_back({line, ""});
      continue;
    }
    const Json one = Json::parse(line, nullptr, false);
    const auto is_text = [&](const char* key) { return one.contains(key) && one[key].is_string(); };
    if (!one.is_object() || !is_text("prompt") || (one.contains("adapter") && !is_text("adapter")))
      throw CliError(kUsage, "[generate] " + path + ":" + std::to_string(number) +
                                 ": expected a line of text, or {\"prompt\": \"...\"}, which may "
                                 "have an \"adapter\": \"NAME\"");
    for (const auto& [key, value] : one.items())
      if (key != "prompt" && key != "adapter")
        throw CliError(kUsage, "[generate] " + path + ":" + std::to_string(number) +
                                   ": unknown key " + Json(key).dump() +
                                   "; a line has \"prompt\" and may have an \"adapter\"");
    prompts.push_back({one["prompt"].get<std::string>(), one.value("adapter", std::string())});
  }
  return prompts;
}

class Generation {
 public:
  Generation(Context& context, const GenerateArguments& arguments)
      : context_(context), terminal_(context.terminal), arguments_(arguments) {}
  int run();

 private:
  void read_arguments();
  std::vector<std::string> overrides(const Json& given) const;
  void check_length(const Json& given) const;
  void check_tokenizer(const Json& planned) const;
  void load(Session& session, const Json& values) const;
  plait_prompt with_adapter(const std::string& name) const;
  plait_prompt behind_placeholders(const std::string& adapter);  // a text is added to it
  void tell_placeholders() const;
  int generate(const Session& session, Generator& generator);
  int chat(const Session& session, Generator& generator);
  Conversation open_conversation() const;
  bool add_turn(Generator& generator, Conversation& talk);
  bool take_command(Conversation& talk, const std::string& line);
  void keep(const Conversation& talk);
  void tell_cut(const Sequence& s, const Conversation& talk);
  std::string more_room(const Conversation& talk) const;
  // How the sequences ended: a signal came, or 0; the first error, or null.
  struct End {
    int signal = 0;
    std::exception_ptr failed;
  };
  End run_out(const Session& session, Generator& generator);
  void on_token(const plait_token& t);
  void show(const Sequence& s) const;
  void summarize(Clock::duration took) const;
  std::string end_of(const Sequence& s) const;

  Context& context_;
  Terminal& terminal_;
  const GenerateArguments& arguments_;
  std::vector<TextPrompt> prompts_;
  std::vector<std::vector<int32_t>> ids_;  // prompts as ids, behind the others
  std::optional<Placeholders> placeholders_;
  std::vector<int32_t> front_;  // of the prompt that is added: its placeholders
  std::vector<Sequence> sequences_;
  bool streams_ = false;                 // one sequence, to a person
  bool interactive_ = false;             // a conversation with a person
  int64_t length_ = 0, max_tokens_ = 0;  // of a sequence; after its prompt, 0: any number
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
  const size_t n = std::min(prompts_.size() + ids_.size(), kSlots);
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
  const bool texts = !prompts_.empty() || arguments_.chat;
  if (!texts || !arguments_.tokenizer.empty() || planned.contains("tokenizer.type")) return;
  throw CliError(kUsage,
                 "[generate] a text needs a tokenizer, and the experiment has no "
                 "[tokenizer]; give --tokenizer T, or token ids: --ids 1,52,7");
}

void Generation::read_arguments() {
  for (const std::string& text : arguments_.prompts) prompts_.push_back({text, ""});
  if (!arguments_.prompt_file.empty())
    for (TextPrompt& p : read_prompts(arguments_.prompt_file)) prompts_.push_back(std::move(p));
  for (const std::string& list : arguments_.ids) ids_.push_back(parse_ids(list));
  if (prompts_.empty() && ids_.empty() && !arguments_.chat)
    throw CliError(kUsage,
                   "[generate] there is no prompt; give --prompt TEXT, --file FILE, --ids LIST or "
                   "--chat");
}

void Generation::on_token(const plait_token& t) {
  Sequence& s = sequences_.at(t.sequence);
  if (t.id >= 0) s.ids.push_back(t.id);
  const std::string_view text(t.text ? t.text : "", t.size);
  s.text += text;
  s.finish = t.finish;
  if (streams_) {
    if (arguments_.ids.empty())
      terminal_.raw(text);
    else if (t.id >= 0)
      terminal_.raw((s.ids.size() > 1 ? "," : "") + std::to_string(t.id));
    std::fflush(stdout);
  }
  if (t.id >= 0)
    terminal_.record({{"event", "token"},
                      {"sequence", t.sequence},
                      {"index", t.index},
                      {"id", t.id},
                      {"text", std::string(text)}});
  if (t.finish != PLAIT_FINISH_NONE)
    terminal_.record({{"event", "sequence"},
                      {"sequence", t.sequence},
                      {"prompt", s.prompt},
                      {"text", s.text},
                      {"ids", s.ids},
                      {"reused", t.n_reused},
                      {"finish", finish_name(t.finish)}});
}

void Generation::show(const Sequence& s) const {
  if (!arguments_.ids.empty() && s.text.empty()) {
    std::string list;
    for (const int32_t id : s.ids) list += (list.empty() ? "" : ",") + std::to_string(id);
    return terminal_.line(s.prompt + " -> " + list);
  }
  terminal_.line(terminal_.bold(s.prompt) + s.text);
}

void Generation::summarize(Clock::duration took) const {
  size_t n = 0;
  for (const Sequence& s : sequences_) n += s.ids.size();
  const double seconds = std::chrono::duration<double>(took).count();
  const std::string end = sequences_.size() == 1 ? ", ended by " + end_of(sequences_[0]) : "";
  terminal_.note(counted(static_cast<long long>(n), "token") + " in " + seconds_text(seconds) +
                 strf(", %.1f a second", static_cast<double>(n) / std::max(seconds, 1e-9)) + end);
}

// By what a sequence ended, and of a length by which.
std::string Generation::end_of(const Sequence& s) const {
  const std::string name = finish_name(s.finish);
  if (s.finish != PLAIT_FINISH_LENGTH) return name;
  if (max_tokens_ > 0 && static_cast<int64_t>(s.ids.size()) >= max_tokens_)
    return name + strf(": generate.max_tokens = %lld", static_cast<long long>(max_tokens_));
  return name + strf(": generate.length = %lld, the prompt included; --length N allows more",
                     static_cast<long long>(length_));
}

// A prompt that takes this adapter. name: "": that of --adapter, if it is given.
plait_prompt Generation::with_adapter(const std::string& name) const {
  const std::string& used = name.empty() ? arguments_.adapter : name;
  plait_prompt prompt{};
  prompt.adapter = used.empty() ? nullptr : used.c_str();
  return prompt;
}

plait_prompt Generation::behind_placeholders(const std::string& adapter) {
  plait_prompt prompt = with_adapter(adapter);
  front_ = placeholders_->of(prompt.adapter ? prompt.adapter : "");
  prompt.ids = front_.data();
  prompt.n_ids = front_.size();
  return prompt;
}

// Nobody asked for them.
void Generation::tell_placeholders() const {
  const std::string of = placeholders_->adapter_of(arguments_.adapter);
  if (!of.empty())
    terminal_.note(counted(static_cast<long long>(placeholders_->of(arguments_.adapter).size()),
                           "placeholder") +
                   " in front of each prompt, for the vectors of adapter '" + of +
                   "'; --placeholders 0 where prompts have them");
}

int Generation::generate(const Session& session, Generator& generator) {
  context_.failed = kUsage;  // characters or ids that the model does not have
  for (const TextPrompt& p : prompts_) {
    generator.add(std::string_view(p.text), behind_placeholders(p.adapter));
    sequences_.push_back({p.text, "", {}});
  }
  for (size_t i = 0; i < ids_.size(); ++i) {
    plait_prompt prompt = behind_placeholders("");
    front_.insert(front_.end(), ids_[i].begin(), ids_[i].end());
    generator.add(std::span<const int32_t>(front_), prompt);
    sequences_.push_back({arguments_.ids[i], "", {}});
  }
  context_.failed = kFailed;
  streams_ = sequences_.size() == 1 && terminal_.human();
  if (streams_)
    terminal_.raw(arguments_.ids.empty() ? terminal_.bold(sequences_[0].prompt)
                                         : sequences_[0].prompt + " -> ");
  const Clock::time_point start = Clock::now();
  const End end = run_out(session, generator);
  if (!streams_)
    for (const Sequence& s : sequences_) show(s);
  summarize(Clock::now() - start);
  if (end.failed) std::rethrow_exception(end.failed);
  return end.signal ? kInterrupted : kOk;
}

// Until all sequences are finished. One whose token cannot be drawn does not end the others.
Generation::End Generation::run_out(const Session& session, Generator& generator) {
  const Interrupt interrupt(session.get(), {.announce = false});
  const auto each = [this](const plait_token& t) {
    on_token(t);
    return true;
  };
  End end;
  bool works = true;
  for (uint64_t left = 1; left > 0 && works;) {
    try {
      left = generator.step(each);
    } catch (const HostError& e) {
      if (!end.failed) end.failed = std::current_exception();
      works = e.code() == PLAIT_ERR_NUMERIC;
    }
  }
  if (streams_) terminal_.line("");
  end.signal = interrupt.signal();
  // A signal during the last token would end the next turn.
  if (end.signal && works) generator.step(each);
  return end;
}

// How to continue a conversation that has no room left.
std::string Generation::more_room(const Conversation& talk) const {
  const std::string length = strf(" --length %lld", 2 * static_cast<long long>(length_));
  if (!talk.path().empty())
    return "start this command again with --conversation " + path_word(talk.path()) + length +
           ", which continues this one";
  return interactive_
             ? "keep this one with /save FILE, and continue it with --conversation FILE" + length
             : "allow more tokens with" + length;
}

// Asks the model to answer. Each prompt repeats all turns. False: the user's last message does not
// fit, and was taken back.
bool Generation::add_turn(Generator& generator, Conversation& talk) {
  const std::vector<plait_chat_message> messages = talk.messages();
  plait_prompt prompt = behind_placeholders("");
  prompt.messages = messages.data();
  prompt.n_messages = messages.size();
  try {
    context_.failed = kUsage;  // as for prompts
    generator.add(prompt);
    context_.failed = kFailed;
    return true;
  } catch (const HostError& e) {
    const bool first = messages.size() <= 2;  // a system's message and one of the user
    const std::string so_far = "\nthe prompt is the conversation so far, of " +
                               std::to_string(messages.size()) + " messages; begin a new one";
    if (!interactive_ || e.code() != PLAIT_ERR_INVALID)
      throw HostError(e.code(), e.what() + (first ? "" : so_far + ", or " + more_room(talk)));
    context_.failed = kFailed;
    talk.take_back();
    terminal_.notice(e.what() +
                     (first ? "" : so_far + " with /new, write less, or " + more_room(talk)) +
                     "\nyour message was not sent");
    return false;
  }
}

void Generation::tell_cut(const Sequence& s, const Conversation& talk) {
  const auto n = static_cast<int64_t>(s.ids.size());
  if (max_tokens_ > 0 && n >= max_tokens_)
    return terminal_.note(
        strf("the answer ends after %lld tokens, by generate.max_tokens; --max-tokens N allows "
             "more",
             static_cast<long long>(n)));
  terminal_.notice(strf("the answer ends here: the conversation has the %lld tokens of "
                        "generate.length; ",
                        static_cast<long long>(length_)) +
                   (interactive_ ? "begin a new one with /new, or " : "") + more_room(talk));
}

// What a person may type in place of a message.
bool Generation::take_command(Conversation& talk, const std::string& line) {
  constexpr std::string_view kSave = "/save";
  if (!interactive_) return false;
  if (line == "/new") {
    terminal_.note(
        "a new conversation; " +
        (talk.path().empty() ? "the last one is not kept" : talk.path() + " has the last one") +
        ", /save FILE keeps this one");
    talk.begin_anew();
    return true;
  }
  if (!line.starts_with(kSave) || (line.size() > kSave.size() && line[kSave.size()] != ' '))
    return false;
  try {
    const size_t name = line.find_first_not_of(' ', kSave.size());
    if (name == std::string::npos)
      throw CliError(kUsage, "[generate] give the name of a file: /save FILE");
    talk.keep_in(line.substr(name));
    terminal_.note("the conversation is kept in " + talk.path());
  } catch (const CliError& e) {
    terminal_.notice(e.what());
  }
  return true;
}

Conversation Generation::open_conversation() const {
  Conversation talk;
  if (!arguments_.conversation.empty()) talk.open(arguments_.conversation);
  if (!talk.empty())
    terminal_.note(strf("continues the conversation in %s, of %zu messages", talk.path().c_str(),
                        talk.size()));
  if (arguments_.system.empty()) return talk;
  if (!talk.empty())
    throw CliError(kUsage, "[generate] --system begins a conversation, and '" + talk.path() +
                               "' holds one; leave out --system, or name a new file");
  talk.add("system", arguments_.system);
  return talk;
}

// A person whose disk is full can still /save it elsewhere.
void Generation::keep(const Conversation& talk) {
  try {
    talk.write();
  } catch (const CliError& e) {
    if (!interactive_) throw;
    terminal_.notice(std::string(e.what()) + "; /save FILE keeps the conversation elsewhere");
  }
}

// Reads the user's messages from standard input, a line each, and writes the model's. Ctrl-C ends a
// message of the model; at the prompt it ends the program.
int Generation::chat(const Session& session, Generator& generator) {
  streams_ = terminal_.human();
  interactive_ = streams_ && isatty(STDIN_FILENO);
  Conversation talk = open_conversation();
  const bool prompts = streams_ && isatty(STDERR_FILENO);
  for (std::string line;;) {
    if (prompts) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty() || take_command(talk, line)) continue;
    talk.add("user", line);
    if (!add_turn(generator, talk)) continue;
    sequences_.push_back({line, "", {}});
    const End end = run_out(session, generator);
    if (end.failed) std::rethrow_exception(end.failed);
    talk.add("assistant", sequences_.back().text);
    keep(talk);
    if (sequences_.back().finish == PLAIT_FINISH_LENGTH) tell_cut(sequences_.back(), talk);
    if (end.signal && (end.signal != SIGINT || !isatty(STDIN_FILENO))) return kInterrupted;
  }
  return kOk;
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
  read_arguments();
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
  length_ = planned.at("generate.length").at("value").get<int64_t>();
  max_tokens_ = planned.at("generate.max_tokens").at("value").get<int64_t>();
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
  placeholders_.emplace(planned, arguments_.placeholders);
  tell_placeholders();
  std::optional<Tokenizer> tokenizer;
  if (!arguments_.tokenizer.empty())
    tokenizer.emplace(
        open_tokenizer(engine, tokenizer_toml(arguments_.tokenizer, arguments_.options)));
  Generator generator(session, tokenizer ? &*tokenizer : nullptr);
  return arguments_.chat ? chat(session, generator) : generate(session, generator);
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
  option("--max-tokens", a->max_tokens, "tokens after the prompt at most", "N");
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
  option("--system", a->system, "what the system says first, with --chat", "TEXT")->needs(chat);
  option("--conversation", a->conversation,
         "keeps the conversation of --chat in FILE, and continues the one that FILE holds", "FILE")
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
