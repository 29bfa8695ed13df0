// data-fine_tune: prompts with completions, and conversations, for fine-tuning language models.
//
// A sample has T tokens and T labels, the token after each; a label of -100 does not count. Labels
// are the assistant's texts, or the completions, with the token that ends them. Fields as of the
// dataset `tokens`: "tokens", "labels", with reset_attention "first", with reset_positions
// "positions", all (T) i32; with weights "weights", (T) f32, the weight of each label.
#include <algorithm>
#include <memory>

#include "kit/valid_utf8.hpp"
#include "plugins/data/fine_tune/encoder.hpp"
#include "plugins/support/file_bytes.hpp"
#include "plugins/support/packing.hpp"

#include <xxhash.h>

namespace {
using namespace plait;
using data::fine_tune::Encoder;
using data::fine_tune::Example;

constexpr int32_t kIgnored = -100;
constexpr char kPart[] = "data.fine_tune";

constexpr plait_option kFineTune[] = {
    opt_paths(
        "files", nullptr,
        "JSON Lines: {\"prompt\", \"completion\"} or {\"messages\": [{\"role\", \"content\"}]}"),
    opt_item("tokenizer", nullptr, PLAIT_KIND_TOKENIZER, "the tokenizer of the model"),
    opt_choice("template", "\"none\"", "none|chatml|llama2|llama3|mistral|gemma|phi3|zephyr|tulu",
               "how conversations become text; none: prompts and completions, as they are written"),
    at_most(at_least(opt_int("length", nullptr, "tokens of a sample"), 1), 1 << 30),
    opt_choice("pack", "\"none\"", "none|best_fit",
               "none: a line per sample; best_fit: several, whole ones, the rest padded"),
    at_least(opt_int("placeholders", "0",
                     "tokens in front of each line, of id 0 and without a label, whose vectors "
                     "adapters give: `soft_prompt` and `prefix`"),
             0),
    opt_choice("truncate", "\"end\"", "end|start|skip|refuse",
               "of a line with more than length + 1 tokens: leave out its end, its start, or all "
               "of it, or refuse the file"),
    opt_bool("plain", "false",
             "special tokens that a prompt or a completion writes are ordinary text; in messages "
             "they always are"),
    opt_bool("strict", "false", "refuse lines that are not UTF-8, in place of repairing them"),
    opt_bool("weights", "false",
             "adds the field \"weights\", the weight of each label, for the third input of the "
             "loss cross_entropy"),
    opt_bool("reset_attention", "false",
             "adds the field \"first\", for `documents` of attention layers"),
    opt_bool("reset_positions", "false",
             "adds the field \"positions\", counted from the beginning of each line"),
};

std::string text(int64_t n) { return std::to_string(n); }

// 16 hexadecimal digits.
std::string hex_of(uint64_t n) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(16, '0');
  for (size_t i = 0; i < hex.size(); ++i) hex[i] = kDigits[n >> (60 - 4 * i) & 15];
  return hex;
}

const kit::ChatTemplate* template_of(const Options& o) {
  return o.text("template") == "none" ? nullptr : &kit::chat_template(o.text("template"));
}

HostTokenizer open_tokenizer(const Host& host, const Options& o) {
  const auto items = o.items("tokenizer");
  return HostTokenizer(host, items.at(0));
}

class FineTune {
 public:
  FineTune(const Host& host, const Options& o)
      : length_(o.integer("length")),
        placeholders_(o.integer("placeholders")),
        truncate_(o.text("truncate")),
        strict_(o.flag("strict")),
        weighted_(o.flag("weights")),
        first_(o.flag("reset_attention")),
        positions_(o.flag("reset_positions")) {
    if (o.text("pack") == "best_fit" && !first_)
      host.log(PLAIT_LOG_WARN,
               "[data.fine_tune] pack = \"best_fit\" without reset_attention: lines of a sample "
               "see one another");
    check_placeholders(o);
    read_files(host, o);
    packing_ = o.text("pack") == "best_fit" ? support::pack_best_fit(starts_, length_)
                                            : support::pack_none(starts_, length_);
    if (packing_.samples() == 0) fail_empty();
    tell(host);
    add_field("tokens", PLAIT_FIELD_INPUT);
    add_field("labels", PLAIT_FIELD_TARGET);
    if (weighted_) add_field("weights", PLAIT_FIELD_INPUT, PLAIT_F32);
    if (first_) add_field("first", PLAIT_FIELD_INPUT);
    if (positions_) add_field("positions", PLAIT_FIELD_INPUT);
    make_fingerprint(o);
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = packing_.samples();
    out.fields = fields_.data();
    out.n_fields = static_cast<uint32_t>(fields_.size());
    out.host_bytes = ids_.capacity() * sizeof ids_[0] + weights_.capacity() * sizeof weights_[0] +
                     starts_.capacity() * sizeof starts_[0] +
                     packing_.pieces.capacity() * sizeof packing_.pieces[0] +
                     packing_.first.capacity() * sizeof packing_.first[0];
    out.fingerprint = fingerprint_;
  }

  const char* text_of(uint32_t, uint32_t what, uint64_t index) const noexcept {
    if (what == PLAIT_TEXT_TOKENIZER_TYPE) return index == 0 ? tokenizer_type_.c_str() : nullptr;
    if (what != PLAIT_TEXT_TOKENIZER || index > 1) return nullptr;
    return (index == 0 ? tokenizer_hex_ : tokenizer_described_).c_str();
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= packing_.samples())
        fail(PLAIT_ERR_INVALID, "[data.fine_tune] sample " + text(indices[i]) +
                                    " was asked for, there are " + text(packing_.samples()));
      size_t field = 0;
      const auto next = [&]<class T>(T) {
        return static_cast<T*>(outs[field++]) + static_cast<int64_t>(i) * length_;
      };
      Sample s;
      s.tokens = next(int32_t{});
      s.labels = next(int32_t{});
      if (weighted_) s.weights = next(float{});
      if (first_) s.first = next(int32_t{});
      if (positions_) s.positions = next(int32_t{});
      read_one(indices[i], s);
    }
  }

 private:
  struct Sample {
    int32_t *tokens = nullptr, *labels = nullptr;  // (T); not wanted: nullptr
    float* weights = nullptr;
    int32_t *first = nullptr, *positions = nullptr;
  };

  void add_field(const char* name, uint32_t role, uint32_t type = PLAIT_I32) {
    fields_.push_back({name, role, 0, Shape({length_}, type).raw()});
  }

  void check_placeholders(const Options& o) const {
    const std::string at = "; set at " + std::string(o.origin("placeholders"));
    if (placeholders_ >= length_)
      fail(PLAIT_ERR_CONFIG, "[data.fine_tune] placeholders are " + text(placeholders_) +
                                 ", expected fewer than length, which is " + text(length_) + at);
    if (placeholders_ > 0 && o.text("pack") == "best_fit")
      fail(PLAIT_ERR_CONFIG,
           "[data.fine_tune] placeholders with pack = \"best_fit\": adapters give vectors to the "
           "first tokens of a sample, which would hold several lines; set pack = \"none\"" +
               at);
  }

  void read_files(const Host& host, const Options& o) {
    const HostTokenizer tokenizer = open_tokenizer(host, o);
    tokenizer_fingerprint_ = tokenizer.info().fingerprint;
    tokenizer_hex_ = hex_of(tokenizer_fingerprint_);
    const InnerItem item = o.items("tokenizer").at(0);
    tokenizer_type_ = item.type;
    tokenizer_described_ =
        "'" + tokenizer_type_ + "' by the key tokenizer, " + std::string(o.origin("tokenizer"));
    const Encoder encoder(tokenizer, template_of(o), o.flag("plain"));
    if (const std::string token = encoder.end_written_as_text(); !token.empty())
      host.log(PLAIT_LOG_WARN, "[data.fine_tune] the template " + std::string(o.text("template")) +
                                   " ends turns with '" + token +
                                   "', which is no special token of the tokenizer: it stands there "
                                   "as ordinary text");
    const std::vector<std::string> files = o.texts("files");
    if (files.empty())
      fail(PLAIT_ERR_CONFIG, "[data.fine_tune] files is empty, expected a path; set at " +
                                 std::string(o.origin("files")));
    for (const std::string& file : files) {
      const support::SourceFile source{kPart, "files", file};
      support::in_memory(source, [&] { read_file(host, source, encoder); });
    }
    ids_.shrink_to_fit();
    weights_.shrink_to_fit();
  }

  // Errors of the tokenizer, with the line.
  static Example encode(const Host& host, const Encoder& encoder, const std::string& where,
                        const data::fine_tune::Conversation& conversation) {
    try {
      return encoder.encode(where, conversation);
    } catch (const Error& e) {
      plait_error* cause = e.take();
      if (!cause) throw;
      const std::string what = where + ": cannot be encoded";
      throw Error(
          host.raw()->error_new(host.raw()->error_code(cause), what.data(), what.size(), cause));
    }
  }

  void read_file(const Host& host, const support::SourceFile& source, const Encoder& encoder) {
    const support::Bytes bytes = support::read_file(source);
    data::fine_tune::Lines lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const uint64_t before = lines_;
    std::string repaired;
    for (std::string_view line; lines.next(line); ++lines_) {
      const std::string where = source.text() + ", line " + std::to_string(lines.number());
      const kit::InvalidBytes invalid = kit::replace_invalid(line, repaired);
      if (invalid.n > 0) {
        if (strict_)
          fail(PLAIT_ERR_DATA, where + ": it is not UTF-8 at byte " +
                                   std::to_string(invalid.first) +
                                   "; convert the file, or set strict = false");
        if (replaced_ == 0) first_replaced_ = where;
        replaced_ += invalid.n;
        line = repaired;
      }
      const auto conversation = data::fine_tune::parse_line(where, line);
      if (!weighted_) check_weights(where, conversation);
      add(where, encode(host, encoder, where, conversation));
    }
    if (lines_ == before)
      fail(PLAIT_ERR_DATA, source.text() +
                               ": the file has no line with anything in it, expected "
                               "JSON Lines with prompts and completions, or messages");
  }

  static void check_weights(const std::string& where,
                            const data::fine_tune::Conversation& conversation) {
    for (size_t i = 0; i < conversation.messages.size(); ++i)
      if (const double w = conversation.messages[i].weight; w != 0 && w != 1)
        fail(PLAIT_ERR_DATA,
             where + ", key '" + (conversation.raw ? "" : "messages[" + std::to_string(i) + "].") +
                 "weight': found " + std::to_string(w) +
                 ", expected 0 or 1; for others set weights = true, and \"weights\" as the third "
                 "input of the loss");
  }

  // Keeps at most T + 1 tokens of a line; one without any label counts for nothing.
  void add(const std::string& where, Example e) {
    const auto most = static_cast<size_t>(length_ - placeholders_) + 1;
    if (e.ids.size() > most) {
      if (truncate_ == "refuse")
        fail(PLAIT_ERR_DATA, where + ": there are " + std::to_string(e.ids.size()) +
                                 " tokens, a sample holds " + std::to_string(most) +
                                 ", one more than length" +
                                 (placeholders_ > 0 ? " without placeholders" : "") +
                                 "; set truncate or a greater length");
      ++long_;
      if (truncate_ == "skip") return;
      const size_t from = truncate_ == "start" ? e.ids.size() - most : 0;
      e.ids = {e.ids.begin() + static_cast<ptrdiff_t>(from),
               e.ids.begin() + static_cast<ptrdiff_t>(from + most)};
      e.weights = {e.weights.begin() + static_cast<ptrdiff_t>(from),
                   e.weights.begin() + static_cast<ptrdiff_t>(from + most)};
    }
    // The first token is the label of nothing, or of the last placeholder.
    if (std::none_of(e.weights.begin() + (e.weights.empty() || placeholders_ > 0 ? 0 : 1),
                     e.weights.end(), [](float w) { return w > 0; })) {
      if (no_label_++ == 0) first_no_label_ = where;
      return;
    }
    ids_.insert(ids_.end(), static_cast<size_t>(placeholders_), 0);
    weights_.insert(weights_.end(), static_cast<size_t>(placeholders_), 0.0F);
    ids_.insert(ids_.end(), e.ids.begin(), e.ids.end());
    weights_.insert(weights_.end(), e.weights.begin(), e.weights.end());
    starts_.push_back(static_cast<int64_t>(ids_.size()));
  }

  [[noreturn]] void fail_empty() const {
    fail(PLAIT_ERR_DATA, "[data.fine_tune] none of the " + std::to_string(lines_) +
                             " lines makes a sample: " + std::to_string(long_) +
                             " have more than " + text(length_ - placeholders_ + 1) + " tokens" +
                             (placeholders_ > 0 ? " beside placeholders" : "") + " (truncate = \"" +
                             truncate_ + "\"), and in " + std::to_string(no_label_) +
                             " nothing to learn is left; use a greater length, or truncate = "
                             "\"start\"");
  }

  void tell(const Host& host) const {
    const auto warn = [&](const std::string& what) {
      host.log(PLAIT_LOG_WARN, "[data.fine_tune] " + what);
    };
    const std::string of = " of " + std::to_string(lines_) + " lines ";
    if (replaced_ > 0)
      warn(std::to_string(replaced_) +
           " sequences of bytes were not UTF-8 and became U+FFFD, the first in " + first_replaced_);
    if (long_ > 0)
      warn(std::to_string(long_) + of + "have more than " + text(length_ - placeholders_ + 1) +
           " tokens, " +
           (truncate_ == "skip" ? "and were left out"
                                : "of which the " + truncate_ + " was left out"));
    if (no_label_ > 0)
      warn(std::to_string(no_label_) + of + "were left out, as nothing to learn was left: " +
           first_no_label_ + (no_label_ > 1 ? ", and others" : ""));
  }

  void make_fingerprint(const Options& o) {
    const std::string decides = text(length_) + " " + std::string(o.text("pack")) +
                                std::to_string(weighted_) + std::to_string(first_) +
                                std::to_string(positions_) +
                                (placeholders_ > 0 ? " " + text(placeholders_) : "");
    fingerprint_ = XXH3_64bits_withSeed(decides.data(), decides.size(), tokenizer_fingerprint_);
    const auto hash = [&](const auto& all) {
      fingerprint_ = XXH3_64bits_withSeed(all.data(), all.size() * sizeof all[0], fingerprint_);
    };
    hash(ids_);
    hash(weights_);
    hash(starts_);
  }

  void read_one(int64_t i, const Sample& s) const {
    int64_t at = 0;
    for (int64_t p = packing_.first[static_cast<size_t>(i)];
         p < packing_.first[static_cast<size_t>(i) + 1]; ++p) {
      const support::Piece& piece = packing_.pieces[static_cast<size_t>(p)];
      const int32_t begin = static_cast<int32_t>(at);
      for (int64_t t = piece.begin; t < piece.begin + piece.n - 1; ++t, ++at) {
        const float weight = weights_[static_cast<size_t>(t) + 1];
        s.tokens[at] = ids_[static_cast<size_t>(t)];
        s.labels[at] = weight > 0 ? ids_[static_cast<size_t>(t) + 1] : kIgnored;
        if (s.weights) s.weights[at] = weight;
        if (s.first) s.first[at] = begin;
        if (s.positions) s.positions[at] = static_cast<int32_t>(at) - begin;
      }
    }
    for (; at < length_; ++at) {  // padding sees itself alone
      s.tokens[at] = 0;
      s.labels[at] = kIgnored;
      if (s.weights) s.weights[at] = 0;
      if (s.first) s.first[at] = static_cast<int32_t>(at);
      if (s.positions) s.positions[at] = 0;
    }
  }

  int64_t length_, placeholders_;
  std::string truncate_;
  bool strict_, weighted_, first_, positions_;
  std::vector<int32_t> ids_;           // of all lines
  std::vector<float> weights_;         // of the ids as labels
  std::vector<int64_t> starts_ = {0};  // of the lines in ids_, and the end
  support::Packing packing_;
  std::vector<plait_field> fields_;
  uint64_t lines_ = 0, long_ = 0, no_label_ = 0, replaced_ = 0;
  std::string first_no_label_, first_replaced_;
  std::string tokenizer_hex_, tokenizer_described_, tokenizer_type_;  // PLAIT_TEXT_TOKENIZER
  uint64_t tokenizer_fingerprint_ = 0, fingerprint_ = 0;
};
}  // namespace

PLAIT_PLUGIN("data-fine_tune", "0.1.0", "Apache-2.0", "Prompts, completions and conversations") {
  static const auto fine_tune = dataset<FineTune>(
      "fine_tune", "prompts with completions, and conversations, from JSON Lines", kFineTune);
  host.add(fine_tune);
}
