#include "plugins/tokenizers/sentencepiece/model.hpp"

#include <algorithm>

#include "plugins/tokenizers/sentencepiece/charsmap.hpp"

#include <xxhash.h>

namespace plait::sentencepieces {
namespace {

constexpr uint64_t kVersion = 0x7370000000000001;  // "sp", version 1

void succeed(const sentencepiece::util::Status& status, uint32_t code) {
  if (!status.ok())
    fail(code, "[tokenizer.sentencepiece] SentencePiece: " + std::string(status.message()));
}

// What is wrong with the bytes of a model, or "".
std::string load(sentencepiece::SentencePieceProcessor& to, std::span<const uint8_t> bytes) {
  try {
    const auto status = to.LoadFromSerializedProto(
        std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (!status.ok()) return status.message();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {  // of the library's tries, for pieces that they cannot hold
    return e.what();
  }
  return to.GetPieceSize() == 0 ? "it has no pieces" : "";
}

}  // namespace

void Model::read(const support::SourceFile& file, std::span<const uint8_t> bytes) {
  check_charsmaps(file, bytes);
  const std::string fault = load(processor_, bytes);
  if (!fault.empty()) file.bad(0, "SentencePiece cannot read it as a model: " + fault);
  fingerprint_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), kVersion);
  for (int id = 0; id < processor_.GetPieceSize(); ++id)
    if (processor_.IsControl(id) || processor_.IsUnknown(id)) add_special(id);
}

void Model::info(plait_tokenizer_info& out) const {
  out.vocabulary = processor_.GetPieceSize();
  out.specials = specials_.data();
  out.n_specials = static_cast<uint32_t>(specials_.size());
  out.fingerprint = fingerprint_;
}

void Model::encode(std::string_view text, uint32_t flags, IdWriter& to) const {
  if ((flags & PLAIT_ENCODE_WRAP) != 0 && processor_.bos_id() >= 0) to.write(processor_.bos_id());
  std::vector<int> ids;
  succeed(processor_.Encode(text, &ids), PLAIT_ERR_DATA);
  for (const int id : ids) to.write(id);
}

void Model::decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const {
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

void Model::add_special(int id) {
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

}  // namespace plait::sentencepieces
