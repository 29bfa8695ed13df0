// Token ids and texts as a terminal shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::cli {

// In one line: control characters as escapes, bytes that are not UTF-8 as \xNN.
std::string one_line(std::string_view text);

// What `plait data show` prints of a sample or a document.
struct ShownTokens {
  std::vector<int64_t> ids;
  std::vector<int64_t> labels;  // empty: there are none; -100: does not count
  uint64_t all = 0;             // ids that there are, of which `ids` may hold the first only
};

// The text of ids; empty function: there is no tokenizer.
using Decode = std::function<std::string(std::span<const int64_t>)>;

// Padding: places at the end that have neither a label nor another id than 0.
size_t without_padding(const ShownTokens& tokens);
// The text, learned parts between « and »: a token is learned where the label before it is its id.
std::string marked_text(const ShownTokens& tokens, size_t n, const Decode& decode);
// "12 7 -": at most `most` numbers; -100 is "-".
std::string numbers(std::span<const int64_t> all, size_t most);

}  // namespace plait::cli
