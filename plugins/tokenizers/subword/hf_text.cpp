// tokenizer.json: how text is normalized, cut into words, and made again.
#include "plugins/tokenizers/subword/hf_parts.hpp"

namespace plait::subword {
namespace {

// What a type of step is made by. Steps of one kind stand in one table.
template <class T>
struct Maker {
  std::string_view type;
  T (*make)(const JsonPlace& place);
};

template <class T, size_t N>
T make_of(const Maker<T> (&makers)[N], const JsonPlace& place) {
  const JsonPlace type = place["type"];
  std::string known;
  for (const Maker<T>& maker : makers) {
    if (type.text() == maker.type) return maker.make(place);
    known += (known.empty() ? "" : ", ") + std::string(maker.type);
  }
  type.unknown(known + ", Sequence");
}

// Calls step(place) for each step of a Sequence, or for the one that stands there.
template <class F>
void each_step(const JsonPlace& place, const char* list, int depth, F&& step) {
  constexpr int kDepth = 8;
  if (place.null()) return;
  if (place["type"].text() != "Sequence") return step(place);
  if (depth == kDepth) place.bad("sequences are nested too deeply");
  const JsonPlace steps = place[list];
  for (size_t i = 0; i < steps.size(); ++i) each_step(steps[i], list, depth + 1, step);
}

// {"String": text} or {"Regex": pattern}.
Regex pattern_of(const JsonPlace& place) {
  const JsonPlace literal = place["String"];
  const JsonPlace given = literal.null() ? place["Regex"] : literal;
  std::string pattern;
  for (const char c : given.text()) {
    if (!literal.null() && std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos)
      pattern += '\\';
    pattern += c;
  }
  try {
    return Regex(pattern);
  } catch (const PatternError& e) {
    given.bad(e.what(), PLAIT_ERR_UNIMPLEMENTED);
  }
}

Matched matched_of(const JsonPlace& place, Matched fallback) {
  static constexpr std::pair<std::string_view, Matched> kNames[] = {
      {"Removed", Matched::kRemoved},
      {"Isolated", Matched::kIsolated},
      {"MergedWithPrevious", Matched::kWithPrevious},
      {"MergedWithNext", Matched::kWithNext},
      {"Contiguous", Matched::kContiguous}};
  if (place.null()) return fallback;
  for (const auto& [name, matched] : kNames)
    if (place.text() == name) return matched;
  place.unknown("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

constexpr Maker<NormalizerPtr> kNormalizers[] = {
    {"NFC", [](const JsonPlace&) { return normal_form(Form::kNfc); }},
    {"NFD", [](const JsonPlace&) { return normal_form(Form::kNfd); }},
    {"NFKC", [](const JsonPlace&) { return normal_form(Form::kNfkc); }},
    {"NFKD", [](const JsonPlace&) { return normal_form(Form::kNfkd); }},
    {"Lowercase", [](const JsonPlace&) { return lowercase(); }},
    {"StripAccents", [](const JsonPlace&) { return strip_accents(); }},
    {"Strip",
     [](const JsonPlace& p) {
       return strip_spaces(p["strip_left"].flag(true), p["strip_right"].flag(true));
     }},
    {"Prepend", [](const JsonPlace& p) { return prepend(p["prepend"].text()); }},
    {"Replace",
     [](const JsonPlace& p) { return replace(pattern_of(p["pattern"]), p["content"].text()); }},
};

const std::string& character_of(const JsonPlace& place) {
  const std::string& text = place.text();
  if (text.empty() || code_at(text, 0).size != text.size()) place.bad("expected one character");
  return text;
}

// Metaspace, also as older files write it.
MarkBefore mark_before(const JsonPlace& place) {
  const JsonPlace scheme = place["prepend_scheme"];
  if (scheme.null())
    return place["add_prefix_space"].flag(true) ? MarkBefore::kAlways : MarkBefore::kNever;
  if (scheme.text() == "always") return MarkBefore::kAlways;
  if (scheme.text() == "first") return MarkBefore::kFirst;
  if (scheme.text() == "never") return MarkBefore::kNever;
  scheme.unknown("always, first, never");
}

using Steps = std::vector<SplitterPtr>;

Steps one(SplitterPtr step) {
  Steps steps;
  steps.push_back(std::move(step));
  return steps;
}

// The library's table of punctuation is that of Unicode 8: not what was added or changed since.
constexpr const char* kPunctuationPattern =
    "(?![\u061D\u09FD-\u0A76\u0C77-\u0C84\u1B4E-\u1B4F\u1B7D-\u1B7F\u2E43-\u2E5D"
    "\U00010D6E\U00010EAD-\U00010F89\U000113D4-\U0001145D\U00011660-\U000116B9\U0001183B-\U00011FFF"
    "\U00012FF1-\U00012FF2\U00016D6D-\U00016FE2\U0001E5FF-\U0001E95F])"
    "[\\p{P}$+<=>^`|~\u166D\U000111C9]";

constexpr Maker<Steps> kSplitters[] = {
    {"ByteLevel",
     [](const JsonPlace& p) {
       Steps steps;
       if (p["add_prefix_space"].flag(true)) steps.push_back(space_before());
       if (p["use_regex"].flag(true))
         steps.push_back(split_by(Regex(kGpt2Pattern), Matched::kIsolated));
       return steps;
     }},
    {"Metaspace",
     [](const JsonPlace& p) {
       return one(
           mark_spaces(character_of(p["replacement"]), mark_before(p), p["split"].flag(true)));
     }},
    {"Split",
     [](const JsonPlace& p) {
       return one(split_by(pattern_of(p["pattern"]), matched_of(p["behavior"], Matched::kRemoved),
                           p["invert"].flag(false)));
     }},
    {"Digits",
     [](const JsonPlace& p) {
       return one(split_by(Regex("\\p{N}"), p["individual_digits"].flag(false)
                                                ? Matched::kIsolated
                                                : Matched::kContiguous));
     }},
    {"Punctuation",
     [](const JsonPlace& p) {
       return one(
           split_by(Regex(kPunctuationPattern), matched_of(p["behavior"], Matched::kIsolated)));
     }},
    {"Whitespace",
     [](const JsonPlace&) {
       return one(split_by(Regex("\\w+|[^\\w\\s]+"), Matched::kRemoved, true));
     }},
    {"WhitespaceSplit",
     [](const JsonPlace&) { return one(split_by(Regex("\\s"), Matched::kRemoved)); }},
    {"CharDelimiterSplit",
     [](const JsonPlace& p) {
       const std::string& character = character_of(p["delimiter"]);
       const bool special =
           std::string_view("\\^$.|?*+()[]{}").find(character) != std::string::npos;
       return one(split_by(Regex((special ? "\\" : "") + character), Matched::kRemoved));
     }},
    {"BertPreTokenizer",
     [](const JsonPlace&) {
       Steps steps = one(split_by(Regex("\\s"), Matched::kRemoved));
       steps.push_back(split_by(Regex(kPunctuationPattern), Matched::kIsolated));
       return steps;
     }},
};

constexpr Maker<DecoderPtr> kDecoders[] = {
    {"ByteLevel", [](const JsonPlace&) { return decode_stand_ins(); }},
    {"ByteFallback", [](const JsonPlace&) { return decode_byte_tokens(); }},
    {"Fuse", [](const JsonPlace&) { return decode_fuse(); }},
    {"Metaspace",
     [](const JsonPlace& p) {
       return decode_marks(character_of(p["replacement"]), mark_before(p) != MarkBefore::kNever);
     }},
    {"BPEDecoder", [](const JsonPlace& p) { return decode_suffix(p["suffix"].text("</w>")); }},
    {"Replace",
     [](const JsonPlace& p) {
       return decode_replace(pattern_of(p["pattern"]), p["content"].text());
     }},
    {"Strip",
     [](const JsonPlace& p) {
       constexpr int64_t kMost = 1 << 20;
       return decode_strip(p["content"].text(), static_cast<size_t>(p["start"].whole(0, kMost)),
                           static_cast<size_t>(p["stop"].whole(0, kMost)));
     }},
};

// The id that a special token of a template has.
void add_special(const JsonPlace& place, const std::string& text, const TokenIds& ids, Ids& to) {
  const int32_t id = find_token(ids, text);
  if (id == kNoToken) place.bad("'" + text + "' is no token");
  to.push_back(id);
}

void read_template(const JsonPlace& place, const TokenIds& ids, Ids& before, Ids& behind) {
  const JsonPlace items = place["single"];
  Ids left, right;
  int sequences = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const JsonPlace special = items[i]["SpecialToken"];
    if (special.null()) {
      items[i]["Sequence"]["id"].text();
      ++sequences;
      continue;
    }
    const std::string& name = special["id"].text();
    const JsonPlace tokens = place["special_tokens"][name]["tokens"];
    if (tokens.size() == 0) special["id"].bad("'" + name + "' is none of special_tokens");
    for (size_t k = 0; k < tokens.size(); ++k)
      add_special(tokens[k], tokens[k].text(), ids, sequences == 0 ? left : right);
  }
  if (sequences != 1) items.bad("expected one Sequence among the items");
  before.insert(before.begin(), left.begin(), left.end());
  behind.insert(behind.end(), right.begin(), right.end());
}
}  // namespace

NormalizerPtr read_normalizer(const JsonPlace& place) {
  std::vector<NormalizerPtr> steps;
  each_step(place, "normalizers", 0,
            [&](const JsonPlace& step) { steps.push_back(make_of(kNormalizers, step)); });
  return steps.empty() ? nullptr : in_order(std::move(steps));
}

Splitting read_pre_tokenizer(const JsonPlace& place) {
  Splitting splitting;
  each_step(place, "pretokenizers", 0, [&](const JsonPlace& step) {
    if (splitting.bytes) step["type"].bad("nothing may follow ByteLevel", PLAIT_ERR_UNIMPLEMENTED);
    for (SplitterPtr& one : make_of(kSplitters, step)) splitting.steps.push_back(std::move(one));
    splitting.bytes = step["type"].text() == "ByteLevel";
  });
  return splitting;
}

std::vector<DecoderPtr> read_decoder(const JsonPlace& place) {
  std::vector<DecoderPtr> steps;
  if (place.null()) steps.push_back(decode_spaces());
  each_step(place, "decoders", 0,
            [&](const JsonPlace& step) { steps.push_back(make_of(kDecoders, step)); });
  return steps;
}

void read_post_processor(const JsonPlace& place, const TokenIds& ids, Ids& before, Ids& behind) {
  each_step(place, "processors", 0, [&](const JsonPlace& step) {
    const std::string& type = step["type"].text();
    if (type == "TemplateProcessing") return read_template(step, ids, before, behind);
    if (type == "ByteLevel") return;  // it moves offsets of characters only
    if (type != "BertProcessing" && type != "RobertaProcessing")
      step["type"].unknown(
          "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing, Sequence");
    Ids cls, sep;
    add_special(step["cls"], step["cls"][size_t{0}].text(), ids, cls);
    add_special(step["sep"], step["sep"][size_t{0}].text(), ids, sep);
    before.insert(before.begin(), cls.begin(), cls.end());
    behind.insert(behind.end(), sep.begin(), sep.end());
  });
}

}  // namespace plait::subword
