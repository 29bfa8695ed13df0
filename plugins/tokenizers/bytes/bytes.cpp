// tokenizer-bytes: each byte is a token, its value the id; after them an id that ends a document.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr int32_t kEnd = 256;
constexpr char kEndText[] = "<|endoftext|>";
constexpr plait_special_token kSpecials[] = {
    {kEndText, sizeof kEndText - 1, kEnd, PLAIT_TOKEN_END}};

// The text of the end token is ordinary text: any bytes decode to themselves.
class ByteTokenizer {
 public:
  ByteTokenizer(const Host&, const Options&) {}
  void info(plait_tokenizer_info& out) const {
    out.flags = PLAIT_TOKENIZER_ANY_BYTES;
    out.vocabulary = kEnd + 1;
    out.specials = kSpecials;
    out.n_specials = std::size(kSpecials);
    out.fingerprint = 0x6279746573000001;  // "bytes", version 1
  }
  void encode(std::string_view text, uint32_t, IdWriter& to) const {
    for (const char c : text) to.write(static_cast<unsigned char>(c));
  }
  void decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids)
      if (id < kEnd)
        text += static_cast<char>(id);
      else if ((flags & PLAIT_DECODE_SKIP_SPECIAL) == 0)
        text += kEndText;
    to.write(text);
  }
};
}  // namespace

PLAIT_PLUGIN("tokenizer-bytes", "0.1.0", "Apache-2.0", "Bytes as tokens") {
  static const auto bytes =
      tokenizer<ByteTokenizer>("bytes", "ids 0 to 255 are bytes, 256 ends a document");
  host.add(bytes);
}
