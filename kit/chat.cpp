#include "kit/chat.hpp"

#include <algorithm>
#include <utility>

namespace plait::kit {
namespace {

// The formats as the models' own tokenizer_config.json have them: Qwen2 and many others; Llama 2
// chat; Llama 3 Instruct; Mistral 7B and Mixtral 8x7B Instruct (v1 of mistral-common); Gemma 3, and
// Gemma 2 without a system's turn; Phi 3; Zephyr; Tulu 3.
constexpr ChatTemplate kTemplates[] = {
    {.name = "chatml",
     .help = "<|im_start|>ROLE ... <|im_end|>: Qwen2 and many others",
     .end = "<|im_end|>",
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .assistant = "<|im_start|>assistant\n",
     .reply = {"", "<|im_end|>"},
     .next = "\n"},
    {.name = "llama2",
     .help = "[INST] ... [/INST], the system's text between <<SYS>>: Llama 2 chat",
     .begin = "<s>",
     .end = "</s>",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {"{begin}[INST] ", " [/INST]"},
     .reply = {" ", " {end}"},
     .system_in_user = true,
     .alternate = true,
     .trim = true,
     .trim_joined = true},
    {.name = "llama3",
     .help = "<|start_header_id|>ROLE<|end_header_id|> ... <|eot_id|>: Llama 3",
     .begin = "<|begin_of_text|>",
     .end = "<|eot_id|>",
     .opening = "{begin}",
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .reply = {"", "<|eot_id|>"},
     .trim = true},
    {.name = "mistral",
     .help = "[INST] ... [/INST], the system's text before the user's: Mistral 7B, Mixtral",
     .begin = "<s>",
     .end = "</s>",
     .opening = "{begin}",
     .system = {"", "\n\n"},
     .user = {" [INST] ", " [/INST]"},
     .reply = {" ", "{end}"},
     .system_in_user = true,
     .alternate = true},
    {.name = "gemma",
     .help = "<start_of_turn>ROLE ... <end_of_turn>, the system's text before the user's: Gemma",
     .begin = "<bos>",
     .end = "<end_of_turn>",
     .opening = "{begin}",
     .system = {"", "\n\n"},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .assistant = "<start_of_turn>model\n",
     .reply = {"", "<end_of_turn>"},
     .next = "\n",
     .system_in_user = true,
     .alternate = true,
     .trim = true},
    {.name = "phi3",
     .help = "<|ROLE|> ... <|end|>: Phi 3",
     .end = "<|endoftext|>",
     .system = {"<|system|>\n", "<|end|>\n"},
     .user = {"<|user|>\n", "<|end|>\n"},
     .assistant = "<|assistant|>\n",
     .reply = {"", "<|end|>"},
     .next = "\n",
     .closing = "{end}"},
    {.name = "zephyr",
     .help = "<|ROLE|> ... </s>: Zephyr",
     .end = "</s>",
     .system = {"<|system|>\n", "{end}\n"},
     .user = {"<|user|>\n", "{end}\n"},
     .assistant = "<|assistant|>\n",
     .reply = {"", "{end}"},
     .next = "\n"},
    {.name = "tulu",
     .help = "<|ROLE|> and lines: Tulu 2 and 3",
     .end = "<|end_of_text|>",
     .system = {"<|system|>\n", "\n"},
     .user = {"<|user|>\n", "\n"},
     .assistant = "<|assistant|>\n",
     .reply = {"", "{end}"},
     .next = "\n",
     .next_at_end = false},
};

// Bytes of the blank at text[i], as Python's str.isspace() has it; 0: there is none.
size_t blank_length(std::string_view text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if ((c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20)) return 1;
  const std::string_view rest = text.substr(i);
  for (const std::string_view one : {"\xC2\x85", "\xC2\xA0"})
    if (rest.starts_with(one)) return 2;
  if (rest.size() < 3) return 0;
  const auto b = static_cast<unsigned char>(rest[1]), d = static_cast<unsigned char>(rest[2]);
  const bool general =
      c == 0xE2 && b == 0x80 && ((d >= 0x80 && d <= 0x8A) || d == 0xA8 || d == 0xA9 || d == 0xAF);
  for (const std::string_view one : {"\xE1\x9A\x80", "\xE2\x81\x9F", "\xE3\x80\x80"})
    if (rest.starts_with(one)) return 3;
  return general ? 3 : 0;
}

std::string_view trimmed_left(std::string_view text) {
  while (!text.empty()) {
    const size_t n = blank_length(text, 0);
    if (n == 0) break;
    text.remove_prefix(n);
  }
  return text;
}

std::string_view trimmed_right(std::string_view text) {
  for (bool found = true; found && !text.empty();) {
    found = false;
    for (const size_t n : {size_t{1}, size_t{2}, size_t{3}}) {
      if (n > text.size() || blank_length(text, text.size() - n) != n) continue;
      text.remove_suffix(n);
      found = true;
      break;
    }
  }
  return text;
}

std::string_view trimmed(std::string_view text) { return trimmed_right(trimmed_left(text)); }

[[noreturn]] void refuse(size_t message, const std::string& what) {
  throw ChatError("message " + std::to_string(message + 1) + " " + what);
}

class Renderer {
 public:
  Renderer(const ChatTemplate& format, std::string_view begin, std::string_view end)
      : format_(format),
        begin_(begin.empty() ? format.begin : begin),
        end_(end.empty() ? format.end : end) {}

  std::vector<ChatPiece> render(std::span<const ChatMessage> messages, bool generate) {
    check(messages, generate);
    frame(format_.opening, 0);
    for (size_t i = 0; i < messages.size(); ++i) {
      const ChatMessage& m = messages[i];
      if (m.role == "assistant")
        reply(m, i, i + 1 == messages.size());
      else if (m.role == "system")
        system(m, i);
      else
        user(messages, i);
    }
    if (generate)
      frame(format_.assistant, messages.size());
    else
      frame(format_.closing, messages.size() - 1);
    return std::move(pieces_);
  }

 private:
  void check(std::span<const ChatMessage> messages, bool generate) const {
    if (messages.empty()) throw ChatError("the conversation has no message");
    const size_t first = messages[0].role == "system" ? 1 : 0;
    for (size_t i = 0; i < messages.size(); ++i) {
      const std::string role(messages[i].role);
      if (role != "system" && role != "user" && role != "assistant")
        refuse(i, "has the role '" + role +
                      "', expected system, user or assistant; chat templates of other roles, as of "
                      "tools, are rendered outside");
      if (role == "system" && i > 0)
        refuse(i, "has the role 'system', which only the first message may have");
      if (!format_.alternate || i < first) continue;
      const bool users_turn = (i - first) % 2 == 0;
      if ((role == "user") != users_turn)
        refuse(i, "has the role '" + role + "', expected '" + (users_turn ? "user" : "assistant") +
                      "': in the template " + std::string(format_.name) +
                      " user and assistant take turns, the user first");
    }
    if (format_.system_in_user && first == messages.size())
      refuse(0, "is the system's, which the template " + std::string(format_.name) +
                    " writes into the first message of the user, but there is none");
    if (generate && messages.back().role == "assistant")
      refuse(messages.size() - 1,
             "is the assistant's, whose next turn is to be generated; leave it out");
  }

  void add(std::string text, size_t message, bool content, bool reply) {
    if (!text.empty()) pieces_.push_back({std::move(text), content, reply, message});
  }
  void frame(std::string_view text, size_t message, bool reply = false) {
    std::string all(text);
    for (const auto& [mark, token] :
         {std::pair<std::string_view, std::string_view>{"{begin}", begin_}, {"{end}", end_}})
      if (const size_t at = all.find(mark); at != std::string::npos)
        all.replace(at, mark.size(), token);
    add(std::move(all), message, false, reply);
  }
  std::string_view text_of(const ChatMessage& m) const {
    return format_.trim ? trimmed(m.text) : m.text;
  }

  void system(const ChatMessage& m, size_t i) {
    if (format_.system_in_user) return;  // see user()
    frame(format_.system.before, i);
    add(std::string(text_of(m)), i, true, false);
    frame(format_.system.after, i);
  }

  void user(std::span<const ChatMessage> messages, size_t i) {
    frame(format_.user.before, i);
    const size_t begin = pieces_.size();
    if (format_.system_in_user && i == 1 && messages[0].role == "system") {
      frame(format_.system.before, 0);
      add(std::string(messages[0].text), 0, true, false);
      frame(format_.system.after, 0);
    }
    if (format_.trim_joined && pieces_.size() > begin) {
      add(std::string(messages[i].text), i, true, false);
      trim_end(begin);
    } else {
      add(std::string(text_of(messages[i])), i, true, false);
    }
    frame(format_.user.after, i);
  }

  void trim_end(size_t begin) {
    while (pieces_.size() > begin) {
      pieces_.back().text = std::string(trimmed_right(pieces_.back().text));
      if (!pieces_.back().text.empty()) return;
      pieces_.pop_back();
    }
  }

  void reply(const ChatMessage& m, size_t i, bool last) {
    frame(format_.assistant, i);
    frame(format_.reply.before, i, true);
    add(std::string(text_of(m)), i, true, true);
    frame(format_.reply.after, i, true);
    if (!last || format_.next_at_end) frame(format_.next, i);
  }

  const ChatTemplate& format_;
  std::string_view begin_, end_;
  std::vector<ChatPiece> pieces_;
};

}  // namespace

std::span<const ChatTemplate> chat_templates() { return kTemplates; }

std::string chat_template_names() {
  std::string names;
  for (const ChatTemplate& one : kTemplates)
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

const ChatTemplate& chat_template(std::string_view name) {
  for (const ChatTemplate& one : kTemplates)
    if (one.name == name) return one;
  throw ChatError("there is no chat template '" + std::string(name) +
                  "'; there are: " + chat_template_names());
}

std::vector<ChatPiece> render_chat(const ChatTemplate& format,
                                   std::span<const ChatMessage> messages, bool generate,
                                   std::string_view begin, std::string_view end) {
  return Renderer(format, begin, end).render(messages, generate);
}

namespace {

std::string_view text_of(const plait_special_token& token) {
  return {token.text ? token.text : "", token.text_size};
}

}  // namespace

SpecialTexts::SpecialTexts(std::span<const plait_special_token> specials) : all_(specials) {
  for (const plait_special_token& one : specials)
    if (const std::string_view text = text_of(one); !text.empty())
      by_first_[static_cast<unsigned char>(text[0])].push_back(text);
}

bool SpecialTexts::occur_in(std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i)
    for (const std::string_view one : by_first_[static_cast<unsigned char>(text[i])])
      if (text.substr(i).starts_with(one)) return true;
  return false;
}

bool SpecialTexts::has(std::string_view token) const {
  if (token.empty()) return false;
  const auto& same = by_first_[static_cast<unsigned char>(token[0])];
  return std::find(same.begin(), same.end(), token) != same.end();
}

std::string_view SpecialTexts::choose(std::string_view familys, uint32_t role) const {
  if (has(familys)) return familys;
  for (const plait_special_token& one : all_)
    if (one.role == role && one.text_size > 0) return text_of(one);
  return familys;
}

std::vector<ChatSpan> chat_spans(std::span<const ChatPiece> pieces, const SpecialTexts& specials) {
  std::vector<ChatSpan> spans;
  for (const ChatPiece& piece : pieces) {
    const bool plain = piece.content && specials.occur_in(piece.text);
    if (plain || spans.empty() || spans.back().plain)
      spans.push_back({piece.text, plain});
    else
      spans.back().text += piece.text;
  }
  return spans;
}

}  // namespace plait::kit
