// Classes of code points: general category, Alphabetic and White_Space of Unicode 16.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kit/utf8.hpp"

namespace plait::subword {

// General categories, in the order of make_unicode_table.py.
enum Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,  //
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kCn,
  kCategories
};
inline constexpr uint8_t kCategoryBits = 31, kAlphabetic = 32, kSpace = 64;  // of a class

constexpr uint32_t categories(Category first, Category last) {
  return (2u << last) - (1u << first);  // the set of a range of categories, a bit each
}
inline constexpr uint32_t kLetters = categories(kLu, kLo), kMarks = categories(kMn, kMe),
                          kNumbers = categories(kNd, kNo), kPunctuation = categories(kPc, kPo),
                          kSymbols = categories(kSm, kSo), kSeparators = categories(kZs, kZp),
                          kOthers = categories(kCc, kCn);

extern const uint32_t kUnicodeRuns[];  // (kUnicodeRunCount)
extern const size_t kUnicodeRunCount;

inline constexpr char32_t kCodePoints = 0x110000;

// The class of each code point. Made once, a byte each.
inline const uint8_t* unicode_classes() {
  static const auto table = [] {
    auto classes = std::make_unique<uint8_t[]>(kCodePoints);
    for (size_t i = 0; i < kUnicodeRunCount; ++i) {
      const uint32_t end = i + 1 < kUnicodeRunCount ? kUnicodeRuns[i + 1] >> 8 : kCodePoints;
      for (uint32_t code = kUnicodeRuns[i] >> 8; code < end; ++code)
        classes[code] = static_cast<uint8_t>(kUnicodeRuns[i]);
    }
    return classes;
  }();
  return table.get();
}

inline bool in_categories(char32_t code, uint32_t set) {
  return set >> (unicode_classes()[code] & kCategoryBits) & 1;
}
inline bool is_space(char32_t code) { return (unicode_classes()[code] & kSpace) != 0; }
// \w: Alphabetic, marks, decimal numbers, connector punctuation, and the two joiners.
inline bool is_word(char32_t code) {
  return (unicode_classes()[code] & kAlphabetic) != 0 ||
         in_categories(code, kMarks | 1u << kNd | 1u << kPc) || code == 0x200C || code == 0x200D;
}

// A place in text that is valid UTF-8.
struct CodeAt {
  char32_t code;
  size_t size;  // bytes
};
// The code point that begins at text[i].
inline CodeAt code_at(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead < 0x80) return {lead, 1};
  const size_t n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return {kit::utf8_code(text, i, n), n};
}
// Where the code point before text[i] begins; i > 0.
inline size_t before(std::string_view text, size_t i) {
  do --i;
  while ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80);
  return i;
}

}  // namespace plait::subword
