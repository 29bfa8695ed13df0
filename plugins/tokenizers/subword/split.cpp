#include "plugins/tokenizers/subword/split.hpp"

#include <algorithm>
#include <utility>

namespace plait::subword {
namespace {

class ByPattern : public Splitter {
 public:
  ByPattern(Regex pattern, Matched matched, bool inverted)
      : pattern_(std::move(pattern)), matched_(matched), inverted_(inverted) {}

  void split(const Piece& piece, const PieceSink& to) const override {
    Join join(*this, piece, to);
    Regex::Search search;
    search.begin(piece.text);
    size_t at = 0, done = 0;  // where to search; up to where pieces are known
    while (at < piece.text.size()) {
      const auto found = pattern_.find(search, at);
      if (!found) break;
      const bool none = found->end == found->begin;
      if (found->begin > done) join.add(done, found->begin, inverted_, none);
      done = found->begin;
      if (none) {
        if (found->end == piece.text.size()) break;
        at = found->end + code_at(piece.text, found->end).size;
        continue;
      }
      join.add(found->begin, found->end, !inverted_);
      at = done = found->end;
    }
    if (done < piece.text.size()) join.add(done, piece.text.size(), inverted_);
    join.end();
  }

 private:
  // Joins neighbours as the step says, and hands on the piece before the one at hand.
  class Join {
   public:
    Join(const ByPattern& step, const Piece& piece, const PieceSink& to)
        : step_(step), piece_(piece), to_(to) {}
    // parted: a match of no text follows.
    void add(size_t begin, size_t end, bool match, bool parted = false) {
      if (match && step_.matched_ == Matched::kRefused)
        throw Unmatched{piece_.text.substr(begin, end - begin)};
      const bool joins = begin_ < end_ && joins_last(match);
      const bool matched = match;
      if (!joins) {
        hand_on();
        begin_ = begin;
      }
      end_ = end;
      removed_ = match && step_.matched_ == Matched::kRemoved;
      matched_ = matched;
      parted_ = parted;
    }
    void end() { hand_on(); }

   private:
    bool joins_last(bool match) const {
      switch (step_.matched_) {
        case Matched::kRemoved:
        case Matched::kRefused:
        case Matched::kIsolated:
          break;
        case Matched::kContiguous:
          return match == matched_ && !parted_;
        // Of neighbouring matches the first joins the piece before, and the others stand alone; or
        // the last one joins the piece behind.
        case Matched::kWithPrevious:
          return match && !matched_;
        case Matched::kWithNext:
          return !match && matched_;
      }
      return false;
    }
    void hand_on() {
      if (begin_ < end_ && !removed_)
        to_({piece_.text.substr(begin_, end_ - begin_), piece_.first && begin_ == 0});
    }

    const ByPattern& step_;
    const Piece& piece_;
    const PieceSink& to_;
    size_t begin_ = 0, end_ = 0;  // the piece at hand
    bool removed_ = false, matched_ = false, parted_ = false;
  };

  Regex pattern_;
  Matched matched_;
  bool inverted_;
};

class SpaceBefore : public Splitter {
 public:
  void split(const Piece& piece, const PieceSink& to) const override {
    if (piece.text.starts_with(' ')) return to(piece);
    std::string text = " ";
    text += piece.text;
    to({text, piece.first});
  }
};

class MarkSpaces : public Splitter {
 public:
  MarkSpaces(std::string mark, MarkBefore before, bool split)
      : mark_(std::move(mark)), before_(before), split_(split) {}

  void split(const Piece& piece, const PieceSink& to) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + mark_.size());
    for (const char c : piece.text) c == ' ' ? text += mark_ : text += c;
    const bool wanted =
        before_ == MarkBefore::kAlways || (before_ == MarkBefore::kFirst && piece.first);
    if (wanted && !text.starts_with(mark_)) text.insert(0, mark_);
    if (!split_) return to({text, piece.first});
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(mark_, begin + 1), text.size());
      to({std::string_view(text).substr(begin, end - begin), piece.first && begin == 0});
      begin = end;
    }
  }

 private:
  std::string mark_;
  MarkBefore before_;
  bool split_;
};

void split_from(const std::vector<SplitterPtr>& steps, size_t step, const Piece& piece,
                const PieceSink& to) {
  if (step + 1 >= steps.size()) return steps.empty() ? to(piece) : steps[step]->split(piece, to);
  steps[step]->split(piece, [&](const Piece& part) { split_from(steps, step + 1, part, to); });
}
}  // namespace

SplitterPtr split_by(Regex pattern, Matched matched, bool inverted) {
  return std::make_unique<ByPattern>(std::move(pattern), matched, inverted);
}
SplitterPtr space_before() { return std::make_unique<SpaceBefore>(); }
SplitterPtr mark_spaces(std::string mark, MarkBefore before, bool split) {
  return std::make_unique<MarkSpaces>(std::move(mark), before, split);
}

void split_all(const std::vector<SplitterPtr>& steps, const Piece& piece, const PieceSink& to) {
  if (!piece.text.empty()) split_from(steps, 0, piece, to);
}

}  // namespace plait::subword
