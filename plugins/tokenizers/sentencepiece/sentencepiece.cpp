// tokenizer-sentencepiece: .model files, by the library SentencePiece itself.
#include <plait/plugin.hpp>

#include "plugins/support/description_file.hpp"
#include "plugins/tokenizers/sentencepiece/model.hpp"

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {opt_path("path", nullptr, "file NAME.model")};

class SentencePiece : public sentencepieces::Model {
 public:
  SentencePiece(const Host&, const Options& o) {
    const support::SourceFile file{"tokenizer.sentencepiece", "path", std::string(o.text("path"))};
    support::in_memory(file, [&] { read(file, support::read_description(file).span()); });
  }
};
}  // namespace

PLAIT_PLUGIN("tokenizer-sentencepiece", "0.1.0", "Apache-2.0", "SentencePiece models") {
  static const auto item =
      tokenizer<SentencePiece>("sentencepiece", "a .model file of SentencePiece", kOptions);
  host.add(item);
}
