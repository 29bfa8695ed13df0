#include "engine/generate/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "kit/valid_utf8.hpp"

namespace plait::generate {
namespace {

// Whether a text may end within a character: in bytes that begin one, or in U+FFFD, which some
// tokenizers make of such bytes.
bool ends_within_character(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  if (text.ends_with(kReplacement)) return true;
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if (c < 0x80) return false;
    if (c < 0xC0) continue;  // inside one
    const size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    return size > back;
  }
  return false;
}
// A character has at most 4 bytes: ids beyond that many are no part of one.
constexpr size_t kLongest = 4;

}  // namespace

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<int32_t> context,
                       std::vector<std::string> stop)
    : tokenizer_(tokenizer), ids_(std::move(context)), read_(ids_.size()), stop_(std::move(stop)) {
  std::erase(stop_, "");
}

std::string TextStream::decoded(size_t from, size_t to) const {
  return tokenizer_.decode({ids_.data() + from, to - from}, PLAIT_DECODE_SKIP_SPECIAL);
}

// What an id adds is the text of a window that ends with it, behind the text of the window without
// it: tokenizers treat the beginning of a text in ways of their own.
std::string_view TextStream::push(int32_t id) {
  ids_.push_back(id);
  const std::string before = decoded(window_, read_), all = decoded(window_, ids_.size());
  const bool complete = !ends_within_character(all) || ids_.size() - read_ > kLongest;
  if (complete && all.size() > before.size() && all.starts_with(before)) {
    hold(std::string_view(all).substr(before.size()));
    window_ = read_;
    read_ = ids_.size();
  } else if (complete) {
    read_ = ids_.size();  // a token without a text
  }
  return release(false);
}

void TextStream::hold(std::string_view text) {
  std::string repaired;
  const bool valid = kit::replace_invalid(text, repaired).n == 0;
  held_ += valid ? text : repaired;
}

std::string_view TextStream::finish() {
  if (!stopped_ && read_ < ids_.size()) {
    const std::string before = decoded(window_, read_), all = decoded(window_, ids_.size());
    if (all.size() > before.size() && all.starts_with(before))
      hold(std::string_view(all).substr(before.size()));
    read_ = ids_.size();
  }
  return release(true);
}

std::string_view TextStream::release(bool all) {
  out_.clear();
  if (stopped_) return out_;
  size_t first = std::string::npos, keep = 0;
  for (const std::string& stop : stop_) {
    first = std::min(first, held_.find(stop));
    keep = std::max(keep, possible_beginning(held_, stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    out_ = held_.substr(0, first);
    held_.clear();
    return out_;
  }
  if (all) keep = 0;
  out_ = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out_;
}

size_t possible_beginning(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace plait::generate
