// How a text is cut into words, step by step: each step cuts the pieces that the one before made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tokenizers/subword/regex.hpp"

namespace plait::subword {

// What becomes of the text that a pattern matches.
enum class Matched {
  kRemoved,
  kRefused,       // it is an error: Unmatched
  kIsolated,      // a piece of its own
  kWithPrevious,  // joins the piece before
  kWithNext,
  kContiguous  // neighbours join each other
};

// A text that Matched::kRefused refuses: a view of the piece.
struct Unmatched {
  std::string_view text;
};

// A piece of a text.
struct Piece {
  std::string_view text;
  bool first;  // it begins where the whole text does
};
using PieceSink = std::function<void(const Piece&)>;

// One step. [thread: any]
class Splitter {
 public:
  virtual ~Splitter() = default;
  // Hands on the pieces of `piece`, none empty, borrowed for the call.
  // Errors: PatternError, Unmatched.
  virtual void split(const Piece& piece, const PieceSink& to) const = 0;
};
using SplitterPtr = std::unique_ptr<const Splitter>;

// inverted: what lies between the matches counts as matched, and the matches do not.
SplitterPtr split_by(Regex pattern, Matched matched, bool inverted = false);
// Puts a space before each piece that does not begin with one.
SplitterPtr space_before();
// Writes `mark` for each space and, `before`, begins pieces with it that do not; then cuts before
// each mark.
enum class MarkBefore { kAlways, kFirst, kNever };
SplitterPtr mark_spaces(std::string mark, MarkBefore before, bool split);

// Cuts a text with all steps.
void split_all(const std::vector<SplitterPtr>& steps, const Piece& piece, const PieceSink& to);

}  // namespace plait::subword
