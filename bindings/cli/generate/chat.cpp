#include "bindings/cli/generate/chat.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string_view>

#include "bindings/cli/generate/conversation.hpp"

namespace plait::cli {
namespace {

class Chat {
 public:
  explicit Chat(Sequences& sequences);
  int run();

 private:
  bool add_turn();
  bool take_command(const std::string& line);
  void keep();
  void tell_cut(const Sequence& s);
  std::string more_room() const;

  Sequences& sequences_;
  Conversation talk_;
  bool interactive_ = false;  // with a person
};

Chat::Chat(Sequences& sequences) : sequences_(sequences) {
  sequences_.streams = sequences_.terminal.human();
  interactive_ = sequences_.streams && isatty(STDIN_FILENO);
  const GenerateArguments& given = sequences_.arguments;
  if (!given.conversation.empty()) talk_.open(given.conversation);
  if (!talk_.empty())
    sequences_.terminal.note(strf("continues the conversation in %s, of %zu messages",
                                  talk_.path().c_str(), talk_.size()));
  if (given.system.empty()) return;
  if (!talk_.empty())
    throw CliError(kUsage, "[generate] --system begins a conversation, and '" + talk_.path() +
                               "' holds one; leave out --system, or name a new file");
  talk_.add("system", given.system);
}

// How to continue a conversation that has no room left.
std::string Chat::more_room() const {
  const std::string length =
      strf(" --length %lld", 2 * static_cast<long long>(sequences_.limits.length));
  if (!talk_.path().empty())
    return "start this command again with --conversation " + path_word(talk_.path()) + length +
           ", which continues this one";
  return interactive_
             ? "keep this one with /save FILE, and continue it with --conversation FILE" + length
             : "allow more tokens with" + length;
}

// Asks the model to answer. Each prompt repeats all turns. False: the user's last message does not
// fit, and was taken back.
bool Chat::add_turn() {
  const std::vector<plait_chat_message> messages = talk_.messages();
  plait_prompt prompt = sequences_.prompt_of(std::string());
  prompt.messages = messages.data();
  prompt.n_messages = messages.size();
  try {
    sequences_.context.failed = kUsage;  // as for prompts
    sequences_.generator.add(prompt);
    sequences_.context.failed = kFailed;
    return true;
  } catch (const HostError& e) {
    const bool first = messages.size() <= 2;  // a system's message and one of the user
    const std::string so_far = "\nthe prompt is the conversation so far, of " +
                               std::to_string(messages.size()) + " messages; begin a new one";
    if (!interactive_ || e.code() != PLAIT_ERR_INVALID)
      throw HostError(e.code(), e.what() + (first ? "" : so_far + ", or " + more_room()));
    sequences_.context.failed = kFailed;
    talk_.take_back();
    sequences_.terminal.notice(e.what() +
                               (first ? "" : so_far + " with /new, write less, or " + more_room()) +
                               "\nyour message was not sent");
    return false;
  }
}

void Chat::tell_cut(const Sequence& s) {
  const auto n = static_cast<int64_t>(s.ids.size());
  if (sequences_.limits.max_tokens > 0 && n >= sequences_.limits.max_tokens)
    return sequences_.terminal.note(
        strf("the answer ends after %lld tokens, by generate.max_tokens; --max-tokens N allows "
             "more",
             static_cast<long long>(n)));
  sequences_.terminal.notice(strf("the answer ends here: the conversation has the %lld tokens of "
                                  "generate.length; ",
                                  static_cast<long long>(sequences_.limits.length)) +
                             (interactive_ ? "begin a new one with /new, or " : "") + more_room());
}

// What a person may type in place of a message.
bool Chat::take_command(const std::string& line) {
  constexpr std::string_view kSave = "/save";
  if (!interactive_) return false;
  if (line == "/new") {
    sequences_.terminal.note(
        "a new conversation; " +
        (talk_.path().empty() ? "the last one is not kept" : talk_.path() + " has the last one") +
        ", /save FILE keeps this one");
    talk_.begin_anew();
    return true;
  }
  if (!line.starts_with(kSave) || (line.size() > kSave.size() && line[kSave.size()] != ' '))
    return false;
  try {
    const size_t name = line.find_first_not_of(' ', kSave.size());
    if (name == std::string::npos)
      throw CliError(kUsage, "[generate] give the name of a file: /save FILE");
    talk_.keep_in(line.substr(name));
    sequences_.terminal.note("the conversation is kept in " + talk_.path());
  } catch (const CliError& e) {
    sequences_.terminal.notice(e.what());
  }
  return true;
}

// A person whose disk is full can still /save it elsewhere.
void Chat::keep() {
  try {
    talk_.write();
  } catch (const CliError& e) {
    if (!interactive_) throw;
    sequences_.terminal.notice(std::string(e.what()) +
                               "; /save FILE keeps the conversation elsewhere");
  }
}

int Chat::run() {
  const bool prompts = sequences_.streams && isatty(STDERR_FILENO);
  for (std::string line;;) {
    if (prompts) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty() || take_command(line)) continue;
    talk_.add("user", line);
    if (!add_turn()) continue;
    sequences_.all.push_back({line, "", {}});
    const Sequences::End end = sequences_.run_out();
    if (end.failed) std::rethrow_exception(end.failed);
    talk_.add("assistant", sequences_.all.back().text);
    keep();
    if (sequences_.all.back().finish == PLAIT_FINISH_LENGTH) tell_cut(sequences_.all.back());
    if (end.signal && (end.signal != SIGINT || !isatty(STDIN_FILENO))) return kInterrupted;
  }
  return kOk;
}

}  // namespace

int chat(Sequences& sequences) { return Chat(sequences).run(); }

}  // namespace plait::cli
