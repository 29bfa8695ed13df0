#include "plugins/tokenizers/subword/regex.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace plait::subword {

namespace {
using Kind = RegexNode::Kind;
using Mode = RegexNode::Mode;

constexpr size_t kInstructions = 1 << 16;

// What text may begin with for `node` to match: ASCII as bits; any other code point always may.
struct Beginning {
  std::array<uint64_t, 2> ascii{};
  bool empty = false;  // it may match nothing, so anything may follow
};

void add(Beginning& to, const Beginning& from) {
  to.ascii[0] |= from.ascii[0];
  to.ascii[1] |= from.ascii[1];
}

Beginning beginning(const RegexNode& node, const std::vector<CodeSet>& sets) {
  Beginning b;
  switch (node.kind) {
    case Kind::kSet:
      for (char32_t c = 0; c < 128; ++c)
        if (sets[node.set].has(c)) b.ascii[c >> 6] |= 1ull << (c & 63);
      return b;
    case Kind::kChoice:
      for (const RegexNode& part : node.parts) {
        const Beginning one = beginning(part, sets);
        add(b, one);
        b.empty = b.empty || one.empty;
      }
      return b;
    case Kind::kRepeat:
    case Kind::kAtomic:
      b = beginning(node.parts[0], sets);
      b.empty = b.empty || (node.kind == Kind::kRepeat && node.min == 0);
      return b;
    case Kind::kSequence:
      b.empty = true;
      for (size_t i = 0; i < node.parts.size() && b.empty; ++i) {
        const Beginning one = beginning(node.parts[i], sets);
        add(b, one);
        b.empty = one.empty;
      }
      return b;
    default:
      b.empty = true;
      return b;
  }
}
}  // namespace

Regex::Regex(std::string_view pattern, Dialect dialect) : dialect_(dialect) {
  ParsedRegex parsed = parse_regex(pattern, dialect);
  sets_ = std::move(parsed.sets);
  std::vector<RegexNode> alternatives;
  if (parsed.root.kind == Kind::kChoice && parsed.root.parts.size() <= kAlternatives)
    alternatives = std::move(parsed.root.parts);
  else
    alternatives.push_back(std::move(parsed.root));
  for (size_t i = 0; i < alternatives.size(); ++i) {
    alternatives_.push_back(here());
    emit(alternatives[i]);
    append(Op::kMatch);
    const Beginning b = beginning(alternatives[i], sets_);
    for (size_t c = 0; c < 128; ++c)
      if (b.empty || (b.ascii[c >> 6] >> (c & 63) & 1) != 0) may_begin_[c] |= 1ull << i;
    may_begin_[128] |= 1ull << i;
  }
}

Regex::Instruction& Regex::append(Op op) {
  if (program_.size() >= kInstructions) throw PatternError("the pattern is too large");
  return program_.emplace_back(Instruction{.op = op});
}

void Regex::emit(const RegexNode& node) {
  switch (node.kind) {
    case Kind::kSet:
      append(Op::kSet).set = node.set;
      return;
    case Kind::kBegin:
      append(Op::kBegin);
      return;
    case Kind::kEnd:
      append(Op::kEnd);
      return;
    case Kind::kSequence:
      for (const RegexNode& part : node.parts) emit(part);
      return;
    case Kind::kBehind: {
      Instruction& i = append(Op::kBehind);
      i.set = node.set;
      i.negative = node.negative;
      return;
    }
    case Kind::kAhead:
    case Kind::kAtomic: {
      const uint32_t at = here();
      append(node.kind == Kind::kAhead ? Op::kAhead : Op::kAtomic).negative = node.negative;
      emit(node.parts[0]);
      append(Op::kMatch);
      program_[at].a = here();
      return;
    }
    case Kind::kChoice: {
      std::vector<uint32_t> jumps;
      for (size_t i = 0; i < node.parts.size(); ++i) {
        const bool last = i + 1 == node.parts.size();
        const uint32_t fork = here();
        if (!last) append(Op::kFork).a = fork + 1;
        emit(node.parts[i]);
        if (last) continue;
        jumps.push_back(here());
        append(Op::kJump);
        program_[fork].b = here();
      }
      for (const uint32_t jump : jumps) program_[jump].a = here();
      return;
    }
    case Kind::kRepeat:
      emit_repeat(node);
      return;
  }
}

void Regex::emit_repeat(const RegexNode& node) {
  const RegexNode& body = node.parts[0];
  if (body.kind == Kind::kSet) {
    Instruction& i = append(Op::kLoop);
    i.mode = node.mode;
    i.set = body.set;
    i.min = node.min;
    i.max = node.max;
    return;
  }
  if (node.mode == Mode::kPossessive) {
    RegexNode atomic{.kind = Kind::kAtomic};
    atomic.parts.push_back(node);
    atomic.parts[0].mode = Mode::kGreedy;
    return emit(atomic);
  }
  if (node.max == kUnbounded && beginning(body, sets_).empty)
    throw PatternError("a group that may match nothing is repeated without end");
  for (uint32_t i = 0; i < node.min; ++i) emit(body);
  const bool lazy = node.mode == Mode::kLazy;
  const auto fork = [&](uint32_t at, uint32_t body_at, uint32_t out) {
    program_[at].a = lazy ? out : body_at;
    program_[at].b = lazy ? body_at : out;
  };
  if (node.max == kUnbounded) {
    const uint32_t at = here();
    append(Op::kFork);
    emit(body);
    append(Op::kJump).a = at;
    return fork(at, at + 1, here());
  }
  std::vector<uint32_t> forks;
  for (uint32_t i = node.min; i < node.max; ++i) {
    forks.push_back(here());
    append(Op::kFork);
    emit(body);
  }
  for (const uint32_t at : forks) fork(at, at + 1, here());
}

void Regex::Search::begin(std::string_view text) {
  // Generous for any pattern that does its work: a few steps a character.
  constexpr uint64_t kSteps = 1 << 20, kStepsPerByte = 1000;
  text_ = text;
  steps_left_ = kSteps + kStepsPerByte * text.size();
  retries_.clear();
}

std::optional<Regex::Found> Regex::find(Search& search, size_t from) const {
  const std::string_view text = search.text_;
  for (size_t at = from; at <= text.size();) {
    if (const auto end = match_at(search, at)) return Found{at, *end};
    if (at == text.size()) break;
    at += code_at(text, at).size;
  }
  return std::nullopt;
}

std::optional<size_t> Regex::match_at(Search& search, size_t at) const {
  const auto lead = at < search.text_.size() ? static_cast<unsigned char>(search.text_[at]) : 128u;
  for (uint64_t left = may_begin_[std::min(lead, 128u)]; left != 0; left &= left - 1)
    if (const auto end =
            run(search, alternatives_[static_cast<size_t>(std::countr_zero(left))], at))
      return end;
  return std::nullopt;
}

// Runs the program at `pc` to its kMatch; returns where that is. Nested programs use the same
// stack, above `bottom`.
std::optional<size_t> Regex::run(Search& search, uint32_t pc, size_t at) const {
  const size_t bottom = search.retries_.size();
  for (;;) {
    if (program_[pc].op == Op::kMatch) {
      search.retries_.resize(bottom);
      return at;
    }
    if (search.steps_left_-- == 0)
      throw PatternError("the pattern tries too many ways to match this text");
    if (!step(search, pc, at) && !retry(search, bottom, pc, at)) return std::nullopt;
  }
}

// One instruction: false if it does not match.
bool Regex::step(Search& search, uint32_t& pc, size_t& at) const {
  const Instruction& i = program_[pc];
  const std::string_view text = search.text_;
  switch (i.op) {
    case Op::kSet: {
      if (at == text.size()) return false;
      const CodeAt c = code_at(text, at);
      if (!sets_[i.set].has(c.code)) return false;
      at += c.size;
      break;
    }
    case Op::kLoop:
      return loop(search, pc, at) && (++pc, true);
    case Op::kFork:
      search.retries_.push_back({i.b, kNoLoop, at, at, 0});
      pc = i.a;
      return true;
    case Op::kJump:
      pc = i.a;
      return true;
    case Op::kAhead:
      if (run(search, pc + 1, at).has_value() == i.negative) return false;
      pc = i.a;
      return true;
    case Op::kAtomic: {
      const auto end = run(search, pc + 1, at);
      if (!end) return false;
      at = *end;
      pc = i.a;
      return true;
    }
    case Op::kBehind:
      if ((at > 0 && sets_[i.set].has(code_at(text, before(text, at)).code)) == i.negative)
        return false;
      break;
    case Op::kBegin:
      if (at != 0 && (dialect_ == Dialect::kPerl || text[at - 1] != '\n')) return false;
      break;
    case Op::kEnd:
      if (at != text.size() && (dialect_ == Dialect::kPerl || text[at] != '\n')) return false;
      break;
    case Op::kMatch:
      break;
  }
  ++pc;
  return true;
}

bool Regex::loop(Search& search, uint32_t pc, size_t& at) const {
  const Instruction& i = program_[pc];
  const std::string_view text = search.text_;
  const CodeSet& set = sets_[i.set];
  const uint32_t wanted = i.mode == Mode::kLazy ? i.min : i.max;
  size_t least = at;
  uint32_t n = 0;
  for (; n < wanted && at < text.size(); ++n) {
    const CodeAt c = code_at(text, at);
    if (!set.has(c.code)) break;
    at += c.size;
    if (n < i.min) least = at;
  }
  if (n < i.min) return false;
  if (i.mode == Mode::kLazy) {
    if (i.max > n) search.retries_.push_back({pc + 1, pc, at, at, i.max - n});
  } else if (i.mode == Mode::kGreedy && at > least && program_[pc + 1].op != Op::kMatch) {
    search.retries_.push_back({pc + 1, kNoLoop, at, least, 1});
  }
  return true;
}

// Takes back the newest decision: false if there is none above `bottom`.
bool Regex::retry(Search& search, size_t bottom, uint32_t& pc, size_t& at) const {
  const std::string_view text = search.text_;
  while (search.retries_.size() > bottom) {
    Retry& newest = search.retries_.back();
    if (newest.loop != kNoLoop) {  // a lazy loop takes one more
      const bool ended = newest.at == text.size();
      const CodeAt c = ended ? CodeAt{} : code_at(text, newest.at);
      if (ended || !sets_[program_[newest.loop].set].has(c.code)) {
        search.retries_.pop_back();
        continue;
      }
      at = newest.at += c.size;
      pc = newest.next;
      if (--newest.more == 0) search.retries_.pop_back();
      return true;
    }
    pc = newest.next;
    if (newest.more == 0) {  // a fork
      at = newest.at;
      search.retries_.pop_back();
      return true;
    }
    at = newest.at = before(text, newest.at);  // a greedy loop gives one back
    if (at == newest.least) search.retries_.pop_back();
    return true;
  }
  return false;
}

}  // namespace plait::subword
