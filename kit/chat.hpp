// Chat templates: how the models of a family were taught to see a conversation, as text. Each is a
// row of a table; what models' own templates do beyond it (tools, images) is refused.
#pragma once

#include <plait/tokenizer.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace plait::kit {

// Texts around a turn. {begin} and {end} stand for the tokens that begin and end a text.
struct ChatTurn {
  std::string_view before = {}, after = {};
};

struct ChatTemplate {
  std::string_view name = {}, help = {};
  std::string_view begin = {}, end = {};  // the family's own tokens for {begin} and {end}
  std::string_view opening = {};          // before the first turn
  ChatTurn system = {};  // of a turn; with system_in_user: around it, within the user's
  ChatTurn user = {};
  std::string_view assistant = {};  // before the assistant's turn; also how generation begins
  // What the assistant writes: its text between these, the second of them ends its turn.
  ChatTurn reply = {};
  std::string_view next = {};     // behind the assistant's turn; of the last one if next_at_end
  std::string_view closing = {};  // behind the last turn, unless generation is to begin
  bool next_at_end = true;
  bool system_in_user = false;  // the system's text begins the first turn of the user
  bool alternate = false;       // user and assistant take turns, the user first
  bool trim = false;            // texts without blanks at both ends
  bool trim_joined = false;     // trims the user's first turn together with the system's text
};

std::span<const ChatTemplate> chat_templates();
// Errors: ChatError that lists the names.
const ChatTemplate& chat_template(std::string_view name);
std::string chat_template_names();  // "chatml, llama2, ..."

// A message that the template cannot express, or a template that is not known. No place: the caller
// knows where the conversation came from.
class ChatError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ChatMessage {
  std::string_view role, text;  // role: "system", "user", "assistant"
};

// A stretch of a conversation's text.
struct ChatPiece {
  std::string text;
  bool content = false;  // of a message; else of the template, which may hold special tokens
  bool reply = false;    // the assistant writes it: text and the end of its turn
  size_t message = 0;    // which one it belongs to
};

// The pieces of a conversation, in order; none is empty. generate: ends where the assistant's next
// turn begins. begin, end: for {begin} and {end}; empty: the family's own.
// Errors: ChatError.
std::vector<ChatPiece> render_chat(const ChatTemplate& format,
                                   std::span<const ChatMessage> messages, bool generate,
                                   std::string_view begin = {}, std::string_view end = {});

// The special tokens of a tokenizer, to be looked for in texts. Borrows their texts.
class SpecialTexts {
 public:
  explicit SpecialTexts(std::span<const plait_special_token> specials);
  // One of them stands in the text.
  bool occur_in(std::string_view text) const;
  bool has(std::string_view token) const;
  // The token for {begin} or {end} of a template: the family's own if there is such a token, else
  // the tokenizer's first one of that role; neither: the family's own, as ordinary text.
  std::string_view choose(std::string_view familys, uint32_t role) const;

 private:
  std::span<const plait_special_token> all_;
  std::array<std::vector<std::string_view>, 256> by_first_;
};

// What to encode in one call. plain: special tokens that it writes are ordinary text.
struct ChatSpan {
  std::string text;
  bool plain = false;
};

// The text of the pieces in as few spans as possible: a message that writes a special token stands
// alone, so that nobody can end a turn but the template.
std::vector<ChatSpan> chat_spans(std::span<const ChatPiece> pieces, const SpecialTexts& specials);

}  // namespace plait::kit
