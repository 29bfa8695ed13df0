// tokenizer-sentencepiece: .model files, by the library SentencePiece itself.
#include <sentencepiece_processor.h>
#include <plait/plugin.hpp>

#include <algorithm>
#include <array>

#include "plugins/support/file_bytes.hpp"

#include <xxhash.h>

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {opt_path("path", nullptr, "file NAME.model")};

class SentencePiece {
 public:
  SentencePiece(const Host&, const Options& o) {
    const support::SourceFile file{"tokenizer.sentencepiece", "path", std::string(o.text("path"))};
    support::in_memory(file, [&] { read(file); });
  }
  void info(plait_tokenizer_info& out) const {
    out.vocabulary = processor_.GetPieceSize();
    out.specials = specials_.data();
    out.n_specials = static_cast<uint32_t>(specials_.size());
    out.fingerprint = fingerprint_;
  }
  // Control tokens that are written in a text are ordinary text, with any flag: the model says so.
  void encode(std::string_view text, uint32_t flags, IdWriter& to) const {
    if ((flags & PLAIT_ENCODE_WRAP) != 0 && processor_.bos_id() >= 0) to.write(processor_.bos_id());
    std::vector<int> ids;
    succeed(processor_.Encode(text, &ids), PLAIT_ERR_DATA);
    for (const int id : ids) to.write(id);
  }
  void decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const {
    std::vector<int> run;  // between control tokens
    const auto hand_on = [&] {
      std::string text;
      succeed(processor_.Decode(run, &text), PLAIT_ERR_DATA);
      to.write(text);
      run.clear();
    };
    for (const int32_t id : ids) {
      if (!processor_.IsControl(id)) {
        run.push_back(id);
        continue;
      }
      hand_on();
      if ((flags & PLAIT_DECODE_SKIP_SPECIAL) == 0) to.write(processor_.IdToPiece(id));
    }
    hand_on();
  }

 private:
  static constexpr uint64_t kVersion = 0x7370000000000001;  // "sp", version 1

  static void succeed(const sentencepiece::util::Status& status, uint32_t code) {
    if (!status.ok())
      fail(code, "[tokenizer.sentencepiece] SentencePiece: " + std::string(status.message()));
  }
  void read(const support::SourceFile& file) {
    const support::Bytes bytes = support::read_file(file);
    const auto status = processor_.LoadFromSerializedProto(
        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (!status.ok() || processor_.GetPieceSize() == 0)
      file.bad(0, "SentencePiece cannot read it as a model" +
                      (status.ok() ? "" : ": " + std::string(status.message())));
    fingerprint_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), kVersion);
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) add_special(id);
  }
  void add_special(int id) {
    const std::pair<int, uint32_t> roles[] = {{processor_.bos_id(), PLAIT_TOKEN_BEGIN},
                                              {processor_.eos_id(), PLAIT_TOKEN_END},
                                              {processor_.pad_id(), PLAIT_TOKEN_PAD},
                                              {processor_.unk_id(), PLAIT_TOKEN_UNKNOWN}};
    const auto role =
        std::find_if(std::begin(roles), std::end(roles), [&](auto& r) { return r.first == id; });
    const std::string& text = processor_.IdToPiece(id);  // lives as long as the processor
    specials_.push_back(
        {text.data(), text.size(), id, role == std::end(roles) ? PLAIT_TOKEN_OTHER : role->second});
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<plait_special_token> specials_;
  uint64_t fingerprint_ = 0;
};
}  // namespace

PLAIT_PLUGIN("tokenizer-sentencepiece", "0.1.0", "Apache-2.0", "SentencePiece models") {
  static const auto item =
      tokenizer<SentencePiece>("sentencepiece", "a .model file of SentencePiece", kOptions);
  host.add(item);
}
