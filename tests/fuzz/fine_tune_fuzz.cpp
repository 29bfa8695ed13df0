// Lines of fine-tuning data: any bytes give an error that names the line, or conversations whose
// texts every chat template renders or refuses.
#include <plait/plugin.hpp>

#include <cstdlib>

#include "kit/chat.hpp"
#include "kit/valid_utf8.hpp"
#include "plugins/data/fine_tune/conversation.hpp"

namespace {
using namespace plait;

void render(const data::fine_tune::Conversation& c) {
  std::vector<kit::ChatMessage> messages;
  size_t bytes = 0;
  for (const data::fine_tune::Message& m : c.messages) {
    if (!(m.weight >= 0)) std::abort();
    messages.push_back({m.role, m.text});
    bytes += m.text.size();
  }
  const kit::SpecialTexts none({});
  for (const kit::ChatTemplate& format : kit::chat_templates()) {
    try {
      size_t content = 0, all = 0, spanned = 0;
      const auto pieces = kit::render_chat(format, messages, false);
      for (const kit::ChatPiece& piece : pieces) {
        if (piece.text.empty() || piece.message >= messages.size()) std::abort();
        all += piece.text.size();
        if (piece.content) content += piece.text.size();
      }
      for (const kit::ChatSpan& span : kit::chat_spans(pieces, none)) spanned += span.text.size();
      if (content > bytes || (!format.trim && content != bytes) || spanned != all) std::abort();
    } catch (const kit::ChatError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  data::fine_tune::Lines lines({reinterpret_cast<const char*>(data), size});
  std::string repaired;
  uint64_t before = 0;
  for (std::string_view line; lines.next(line);) {
    if (lines.number() <= before) std::abort();
    before = lines.number();
    if (kit::replace_invalid(line, repaired).n > 0) line = repaired;
    try {
      render(data::fine_tune::parse_line("[data.fine_tune] line", line));
    } catch (const Error& e) {
      if (e.code() != PLAIT_ERR_DATA) std::abort();
    }
  }
  return 0;
}
