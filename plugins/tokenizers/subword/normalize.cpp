#include "plugins/tokenizers/subword/normalize.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace plait::subword {
namespace {

// Makes a Normalizer of a function.
template <class F>
NormalizerPtr step(F apply) {
  class Step : public Normalizer {
   public:
    explicit Step(F f) : apply_(std::move(f)) {}
    void apply(std::string& text) const override { apply_(text); }

   private:
    F apply_;
  };
  return std::make_unique<Step>(std::move(apply));
}

bool ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void to_form(Form form, std::string& text) {
  if (ascii(text)) return;
  int options = UTF8PROC_STABLE;
  options |= form == Form::kNfc || form == Form::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::kNfkc || form == Form::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &out,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) throw std::bad_alloc();  // valid UTF-8 leaves no other reason
  text.assign(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  std::free(out);
}

// Rewrites a text code point by code point.
template <class F>
void rewrite(std::string& text, F&& write) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0, n; i < text.size(); i += n) {
    const CodeAt c = code_at(text, i);
    n = c.size;
    write(c.code, out);
  }
  text = std::move(out);
}

void to_lower(std::string& text) {
  constexpr char32_t kDottedI = 0x130;  // the one letter that becomes two code points
  rewrite(text, [](char32_t code, std::string& out) {
    if (code == kDottedI) return void(out += "i\xCC\x87");
    kit::append_utf8(out,
                     static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  });
}

void strip(bool left, bool right, std::string& text) {
  size_t begin = 0, end = text.size();
  while (left && begin < end && is_space(code_at(text, begin).code))
    begin += code_at(text, begin).size;
  while (right && begin < end && is_space(code_at(text, before(text, end)).code))
    end = before(text, end);
  text = text.substr(begin, end - begin);
}
}  // namespace

NormalizerPtr normal_form(Form form) {
  return step([form](std::string& text) { to_form(form, text); });
}
NormalizerPtr lowercase() { return step(to_lower); }
NormalizerPtr strip_spaces(bool left, bool right) {
  return step([=](std::string& text) { strip(left, right, text); });
}
NormalizerPtr strip_accents() {
  return step([](std::string& text) {
    rewrite(text, [](char32_t code, std::string& out) {
      if (!in_categories(code, kMarks)) kit::append_utf8(out, code);
    });
  });
}
NormalizerPtr prepend(std::string added) {
  return step([added = std::move(added)](std::string& text) {
    if (!text.empty()) text.insert(0, added);
  });
}
NormalizerPtr replace(Regex pattern, std::string by) {
  return step([pattern = std::move(pattern), by = std::move(by)](std::string& text) {
    replace_all(pattern, by, text);
  });
}
NormalizerPtr in_order(std::vector<NormalizerPtr> steps) {
  return step([steps = std::move(steps)](std::string& text) {
    for (const NormalizerPtr& one : steps) one->apply(text);
  });
}

void replace_all(const Regex& pattern, std::string_view by, std::string& text) {
  if (text.empty()) return;
  Regex::Search search;
  search.begin(text);
  std::string out;
  size_t kept = 0;  // up to here, where the last match ended, the text is in `out`
  bool any = false;
  for (size_t at = 0; at <= text.size();) {
    const auto found = pattern.find(search, at);
    if (!found) break;
    const bool none = found->end == found->begin;
    // A match of no text counts, but where another one ended.
    if (!none || !any || found->begin > kept) {
      out.append(text, kept, found->begin - kept).append(by);
      kept = found->end;
      any = true;
    }
    at = found->end;
    if (none) at += at < text.size() ? code_at(text, at).size : 1;
  }
  if (!any) return;
  out.append(text, kept);
  text = std::move(out);
}

}  // namespace plait::subword
