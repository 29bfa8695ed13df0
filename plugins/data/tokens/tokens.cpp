// data-tokens: sequences of token ids for language models, from PATH.bin and PATH.idx.
//
// A sample has T tokens and T labels, the token after each; a label of -100 does not count. Fields
// "tokens", "labels"; with reset_attention "first": where the document of a token begins, within
// the sample; with reset_positions "positions": how far from there a token is. All (T) i32.
#include <algorithm>

#include "kit/philox.hpp"
#include "plugins/data/tokens/token_stream.hpp"
#include "plugins/support/packing.hpp"

#include <xxhash.h>

namespace {
using namespace plait;
using support::Packing;
using support::Piece;

constexpr int32_t kIgnored = -100;

constexpr plait_option kTokens[] = {
    opt_path("path", nullptr, "the .bin file; the .idx file lies beside it"),
    at_most(at_least(opt_int("length", nullptr, "tokens of a sample"), 1), 1 << 30),
    opt_choice("pack", "\"stream\"", "stream|best_fit|none",
               "stream: documents one after the other, cut every `length` tokens; best_fit: whole "
               "documents packed together, the rest padded; none: a document per sample"),
    at_least(opt_int("stride", "0",
                     "for evaluation: tokens between the beginnings of two samples of a stream. "
                     "Samples overlap, so that labels have more tokens before them, and only the "
                     "last `stride` labels of each sample count, all of the first; 0: length"),
             0),
    opt_bool(
        "shift", "false",
        "for training: each epoch cuts a stream at other places, its first sample begins up to "
        "length - 1 tokens later; of a small text a model then sees more than one cut"),
    at_least(opt_int("documents_seed", "0",
                     "draws the order of the documents of a stream; 0: that of the file"),
             0),
    at_most(at_least(opt_real("begin", "0.0", "share of the file's tokens to begin with"), 0), 1),
    at_most(at_least(opt_real("end", "1.0", "share of the file's tokens to end with"), 0), 1),
    opt_bool("reset_attention", "false",
             "adds the field \"first\", for `documents` of attention layers; the last token of a "
             "document then has no label"),
    opt_bool("reset_positions", "false",
             "adds the field \"positions\", counted from the beginning of each document"),
};

class Tokens {
 public:
  Tokens(const Host& host, const Options& o)
      : stream_(std::string(o.text("path"))),
        length_(o.integer("length")),
        stride_(o.integer("stride") > 0 ? o.integer("stride") : length_),
        by_pieces_(o.text("pack") != "stream"),
        shift_(o.flag("shift")),
        first_(o.flag("reset_attention")),
        positions_(o.flag("reset_positions")) {
    if (o.real("begin") >= o.real("end"))
      fail(PLAIT_ERR_CONFIG, "[data.tokens] begin is " + std::to_string(o.real("begin")) +
                                 " and end " + std::to_string(o.real("end")) +
                                 ", expected less; set at " + o.origin("begin"));
    if (by_pieces_ && o.integer("documents_seed") != 0)
      fail(PLAIT_ERR_CONFIG, "[data.tokens] documents_seed has no effect with pack = \"" +
                                 std::string(o.text("pack")) +
                                 "\": it draws the order of a stream, and `shuffle` that of the "
                                 "samples; set at " +
                                 o.origin("documents_seed"));
    check_stride(o);
    check_shift(o);
    const int64_t in_file = stream_.size();
    stream_.keep(o.real("begin"), o.real("end"));
    if (o.integer("documents_seed") != 0)
      stream_.shuffle(static_cast<uint64_t>(o.integer("documents_seed")));
    if (o.text("pack") == "best_fit")
      packing_ = support::pack_best_fit(stream_.documents(), length_);
    if (o.text("pack") == "none") packing_ = support::pack_none(stream_.documents(), length_);
    if (n_samples() == 0)
      fail(PLAIT_ERR_DATA,
           "[data.tokens] path '" + std::string(o.text("path")) +
               "': " + std::to_string(stream_.size()) + " tokens (of " + std::to_string(in_file) +
               " in the file) are not enough for a sample: " +
               (by_pieces_ ? "no document has 2 tokens"
                           : "expected " + std::to_string(needed()) +
                                 (shift_ ? ", twice length, which leaves room for the largest shift"
                                         : ", one more than length")) +
               "; use another part of the file or a smaller length");
    if (packing_.cut > 0)
      host.log(PLAIT_LOG_WARN, "[data.tokens] " + std::to_string(packing_.cut) + " of " +
                                   std::to_string(n_samples()) + " documents have more than " +
                                   std::to_string(length_ + 1) +
                                   " tokens, of which the rest is left out; pack = \"best_fit\" "
                                   "keeps all");
    add_field("tokens", PLAIT_FIELD_INPUT);
    add_field("labels", PLAIT_FIELD_TARGET);
    if (first_) add_field("first", PLAIT_FIELD_INPUT);
    if (positions_) add_field("positions", PLAIT_FIELD_INPUT);
    make_fingerprint(o);
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = n_samples();
    out.fields = fields_.data();
    out.n_fields = static_cast<uint32_t>(fields_.size());
    out.host_bytes = stream_.host_bytes() + packing_.pieces.capacity() * sizeof(Piece) +
                     packing_.first.capacity() * sizeof(int64_t);
    out.fingerprint = fingerprint_;
  }

  const char* text_of(uint32_t, uint32_t what, uint64_t index) const noexcept {
    const data::tokens::TokenizerRecord& made = stream_.tokenizer();
    if (made.fingerprint.empty()) return nullptr;
    if (what == PLAIT_TEXT_TOKENIZER_TYPE) return index == 0 ? made.type.c_str() : nullptr;
    if (what != PLAIT_TEXT_TOKENIZER || index > 1) return nullptr;
    return (index == 0 ? made.fingerprint : made.described).c_str();
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    read_all(0, indices, outs);
  }
  void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs) const {
    read_all(shift_ ? shift_of(epoch) : 0, indices, outs);
  }

 private:
  struct Sample {
    int32_t *tokens = nullptr, *labels = nullptr;    // (T)
    int32_t *first = nullptr, *positions = nullptr;  // (T); not wanted: nullptr
  };

  void read_all(int64_t shift, std::span<const int64_t> indices, void* const* outs) const {
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= n_samples())
        fail(PLAIT_ERR_INVALID, "[data.tokens] sample " + std::to_string(indices[i]) +
                                    " was asked for, there are " + std::to_string(n_samples()));
      Sample sample;
      size_t field = 0;
      const auto next = [&] {
        return static_cast<int32_t*>(outs[field++]) + static_cast<int64_t>(i) * length_;
      };
      sample.tokens = next();
      sample.labels = next();
      if (first_) sample.first = next();
      if (positions_) sample.positions = next();
      if (by_pieces_)
        read_pieces(indices[i], sample);
      else
        read_stream(indices[i], shift, sample);
    }
  }

  // In [0, length), as if drawn.
  int64_t shift_of(int64_t epoch) const {
    constexpr uint64_t kKey = 0x746f6b656e73;  // of this purpose alone
    return static_cast<int64_t>(kit::philox(static_cast<uint64_t>(epoch), 0, kKey)[0] %
                                static_cast<uint64_t>(length_));
  }

  // Tokens of a stream that has one sample. With `shift` it has room behind it for the largest one,
  // so that there are as many samples in every epoch.
  int64_t needed() const { return shift_ ? 2 * length_ : length_ + 1; }

  int64_t n_samples() const {
    if (by_pieces_) return packing_.samples();
    const int64_t others = stream_.size() - needed();
    return others < 0 ? 0 : others / stride_ + 1;
  }
  void check_stride(const Options& o) const {
    if (o.integer("stride") == 0) return;
    const std::string given = "[data.tokens] stride is " + std::to_string(stride_);
    if (by_pieces_)
      fail(PLAIT_ERR_CONFIG, given + ", with pack = \"" + std::string(o.text("pack")) +
                                 "\", where samples are documents; leave it out, or use pack = "
                                 "\"stream\"; set at " +
                                 o.origin("stride"));
    if (stride_ > length_)
      fail(PLAIT_ERR_CONFIG, given + ", which leaves out tokens; expected at most length, " +
                                 std::to_string(length_) + "; set at " + o.origin("stride"));
  }
  void check_shift(const Options& o) const {
    if (!shift_ || (!by_pieces_ && stride_ == length_)) return;
    fail(PLAIT_ERR_CONFIG,
         std::string("[data.tokens] shift is true, with ") +
             (by_pieces_ ? "pack = \"" + std::string(o.text("pack")) +
                               "\", where samples are documents; use pack = \"stream\""
                         : "a stride; leave one of them out") +
             "; set at " + o.origin("shift"));
  }
  void add_field(const char* name, uint32_t role) {
    fields_.push_back({name, role, 0, Shape({length_}, PLAIT_I32).raw()});
  }
  void make_fingerprint(const Options& o) {
    std::string decides =
        std::to_string(length_) + " " + std::to_string(stride_) + " " +
        std::string(o.text("pack")) + " " + std::to_string(o.integer("documents_seed")) + " " +
        std::to_string(first_) + std::to_string(positions_) + (shift_ ? " shift" : "");
    const double share[] = {o.real("begin"), o.real("end")};
    decides.append(reinterpret_cast<const char*>(share), sizeof share);
    fingerprint_ = XXH3_64bits_withSeed(decides.data(), decides.size(), stream_.fingerprint());
  }

  // Marks places [from, to) as those of one document, which begins at `from`.
  static void mark(const Sample& s, int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      if (s.first) s.first[t] = static_cast<int32_t>(from);
      if (s.positions) s.positions[t] = static_cast<int32_t>(t - from);
    }
  }

  void read_stream(int64_t i, int64_t shift, const Sample& s) const {
    const int64_t begin = i * stride_ + shift;
    stream_.read(begin, length_, s.tokens);
    std::copy(s.tokens + 1, s.tokens + length_, s.labels);
    stream_.read(begin + length_, 1, s.labels + length_ - 1);
    if (s.first || s.positions) mark_documents(begin, s);
    // The sample before has these labels, too.
    if (i > 0) std::fill(s.labels, s.labels + (length_ - stride_), kIgnored);
  }

  void mark_documents(int64_t begin, const Sample& s) const {
    const std::span<const int64_t> documents = stream_.documents();
    auto next = std::upper_bound(documents.begin(), documents.end(), begin);
    for (int64_t from = 0; from < length_; ++next) {
      const int64_t to = std::min(*next - begin, length_);
      mark(s, from, to);
      // The token behind the last one of a document belongs to another.
      if (s.first && *next - begin <= length_) s.labels[to - 1] = kIgnored;
      from = to;
    }
  }

  void read_pieces(int64_t i, const Sample& s) const {
    int64_t at = 0;
    for (int64_t p = packing_.first[static_cast<size_t>(i)];
         p < packing_.first[static_cast<size_t>(i) + 1]; ++p) {
      const Piece& piece = packing_.pieces[static_cast<size_t>(p)];
      const int64_t n = piece.n - 1;
      stream_.read(piece.begin, n, s.tokens + at);
      std::copy(s.tokens + at + 1, s.tokens + at + n, s.labels + at);
      stream_.read(piece.begin + n, 1, s.labels + at + n - 1);
      mark(s, at, at + n);
      at += n;
    }
    for (; at < length_; ++at) {  // padding sees itself alone
      s.tokens[at] = 0;
      s.labels[at] = kIgnored;
      mark(s, at, at + 1);
    }
  }

  data::tokens::TokenStream stream_;
  int64_t length_, stride_;
  bool by_pieces_, shift_, first_, positions_;
  Packing packing_;
  std::vector<plait_field> fields_;
  uint64_t fingerprint_ = 0;
};
}  // namespace

PLAIT_PLUGIN("data-tokens", "0.1.0", "Apache-2.0", "Token ids of texts") {
  static const auto tokens =
      dataset<Tokens>("tokens", "sequences of token ids from PATH.bin and PATH.idx", kTokens);
  host.add(tokens);
}
