// The regular expressions that cut text into words: what tokenizer.json files and tiktoken use of
// them, over the classes of Unicode 16. Backtracking; first alternative first, as Perl does.
//
// Known: literals, ., [...] with ranges, negation and sets in sets, \s \d \w \p{...} and their
// complements, \n \r \t \f \v \xHH \x{...} \uHHHH, (...), (?:...), (?i:...), (?i), |, * + ? {n,m}
// with ? (lazy) and + (possessive), (?=...), (?!...), (?<=...) and (?<!...) of one character, ^, $.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/tokenizers/subword/unicode.hpp"

namespace plait::subword {

// A pattern that is malformed or asks for more than this file knows; says where.
class PatternError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A set of code points.
class CodeSet {
 public:
  void add(char32_t first, char32_t last);
  void add_categories(uint32_t set);
  void add_space();
  void add_word();
  void add(const CodeSet& other);
  void add_other_cases();  // of ASCII letters, and the two letters beyond ASCII that fold to them
  void negate();           // last of all
  bool has(char32_t code) const {
    return code < 128 ? (ascii_[code >> 6] >> (code & 63) & 1) != 0 : has_beyond(code);
  }

 private:
  bool has_beyond(char32_t code) const;
  std::array<uint64_t, 2> ascii_{};  // the whole answer for ASCII
  uint32_t categories_ = 0;          // the rest is about other code points
  bool space_ = false, word_ = false, negated_ = false;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
  std::vector<CodeSet> parts_;  // sets in this set
};

// A part of a pattern.
struct RegexNode {
  enum class Kind { kSet, kSequence, kChoice, kRepeat, kAtomic, kAhead, kBehind, kBegin, kEnd };
  enum class Mode : uint8_t { kGreedy, kLazy, kPossessive };
  Kind kind = Kind::kSequence;
  Mode mode = Mode::kGreedy;
  bool negative = false;      // kAhead, kBehind
  uint32_t set = 0;           // kSet, kBehind: index of a set
  uint32_t min = 0, max = 0;  // kRepeat
  std::vector<RegexNode> parts{};
};
inline constexpr uint32_t kUnbounded = UINT32_MAX;

struct ParsedRegex {
  RegexNode root;
  std::vector<CodeSet> sets;
};
// The two dialects differ in ^, $ and in + behind {n,m}.
enum class Dialect {
  kOniguruma,  // tokenizer.json: ^ and $ are of lines; {n,m}+ repeats the repetition
  kPerl,       // tiktoken: ^ and $ are of the text; {n,m}+ is possessive
};
// Errors: PatternError.
ParsedRegex parse_regex(std::string_view pattern, Dialect dialect);

class Regex {
 public:
  // Errors: PatternError.
  explicit Regex(std::string_view pattern, Dialect dialect = Dialect::kOniguruma);
  struct Found {
    size_t begin, end;
  };
  class Search;
  // The first match that begins at or after `from` in the text of `search`; it may be empty.
  // Errors: PatternError if the search takes more than a bounded number of steps for the size of
  // the text. [thread: any, each with its own search]
  std::optional<Found> find(Search& search, size_t from) const;

 private:
  enum class Op : uint8_t {
    kSet,     // one code point of `set`
    kLoop,    // min to max code points of `set`
    kFork,    // goes on at `a`, and if that fails at `b`
    kJump,    // to `a`
    kAhead,   // the program behind it, to kMatch, matches here or, negative, does not; then `a`
    kAtomic,  // the program behind it, to kMatch, matches; goes on where that ends, at `a`
    kBehind,  // the code point before is of `set`, or not
    kBegin,
    kEnd,
    kMatch
  };
  struct Instruction {
    Op op;
    RegexNode::Mode mode = RegexNode::Mode::kGreedy;
    bool negative = false;
    uint32_t set = 0, min = 0, max = 0, a = 0, b = 0;
  };
  struct Retry;
  static constexpr uint32_t kNoLoop = UINT32_MAX;
  static constexpr size_t kAlternatives = 64;  // that can be told apart by their first character

  void emit(const RegexNode& node);
  void emit_repeat(const RegexNode& node);
  uint32_t here() const { return static_cast<uint32_t>(program_.size()); }
  Instruction& append(Op op);
  std::optional<size_t> match_at(Search& search, size_t at) const;
  std::optional<size_t> run(Search& search, uint32_t program, size_t at) const;
  bool step(Search& search, uint32_t& pc, size_t& at) const;
  bool loop(Search& search, uint32_t pc, size_t& at) const;
  bool retry(Search& search, size_t bottom, uint32_t& pc, size_t& at) const;

  Dialect dialect_;
  std::vector<CodeSet> sets_;
  std::vector<Instruction> program_;
  std::vector<uint32_t> alternatives_;     // where each begins in the program
  std::array<uint64_t, 129> may_begin_{};  // by first ASCII character, or 128: bits of alternatives
};

// Where to go on when the match at hand fails: at `next`, at text[at]. A greedy loop may give back
// code points down to `least`; a lazy one may take `more`.
struct Regex::Retry {
  uint32_t next;
  uint32_t loop;  // a lazy loop: its instruction, else kNoLoop
  size_t at, least, more;
};

// A search through a text, which is valid UTF-8 and outlives it.
class Regex::Search {
 public:
  // Any number of texts, one after the other.
  void begin(std::string_view text);

 private:
  friend Regex;
  std::string_view text_;
  uint64_t steps_left_ = 0;
  std::vector<Retry> retries_;
};

}  // namespace plait::subword
