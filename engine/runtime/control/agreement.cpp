#include "engine/runtime/control/agreement.hpp"

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMostShown = 2048;        // bytes of a name or value
constexpr size_t kMessageSize = 32 << 10;  // from which on another one begins

size_t section_of(std::string_view name) { return name_hash(name) % kSections; }

bool in_sections(uint64_t sections, const std::string& name) {
  return (sections >> section_of(name) & 1) != 0;
}

std::string shown(const std::string& text) {
  if (text.size() <= kMostShown) return text;
  return std::string(shortened(text, kMostShown)) +
         strf("... (%zu bytes, hash %s)", text.size(), hex64(hash64(text)).c_str());
}

}  // namespace

Digests digests_of(const Identity& identity) {
  std::array<std::string, kSections> texts;
  // In the order of their names: ranks may find their plugins in another one.
  for (const auto& [name, value] : Keys(identity.begin(), identity.end())) {
    std::string& text = texts[section_of(name)];
    text += hex64(hash64(name)) + hex64(hash64(value));
  }
  Digests digests;
  for (size_t i = 0; i < kSections; ++i) digests[i] = hash64(texts[i]);
  return digests;
}

uint64_t differing(const Digests& a, const Digests& b) {
  uint64_t sections = 0;
  for (size_t i = 0; i < kSections; ++i) sections |= uint64_t{a[i] != b[i]} << i;
  return sections;
}

std::string keys_of(const Identity& identity, uint64_t sections) {
  std::string messages;
  Writer message(Kind::kKeys);
  size_t size = 0;
  const auto close = [&] {
    messages += message.done();
    message = Writer(Kind::kKeys);
    size = 0;
  };
  for (const auto& [name, value] : identity) {
    if (!in_sections(sections, name)) continue;
    const std::string texts[] = {shown(name), shown(value)};
    for (const std::string& text : texts) message.text(text);
    size += texts[0].size() + texts[1].size();
    if (size >= kMessageSize) close();
  }
  if (size > 0) close();
  close();
  return messages;
}

bool add_keys(const Frame& frame, Keys& to) {
  Reader r(frame.payload);
  if (r.empty()) return true;
  while (!r.empty()) {
    const std::string name(r.text(kMostPayload));
    to.emplace(name, r.text(kMostPayload));
  }
  return false;
}

std::string differences(const std::string& name, const std::string& host, uint64_t sections,
                        const Keys& own, const Keys& of_rank_0) {
  std::string all;
  const auto add = [&](const std::string& what, const std::string* value,
                       const std::string* first) {
    all += "\n  " + name + " on " + host +
           (value ? " has " + what + " " + *value : " has no " + what) + ", rank 0 has " +
           (first ? *first : "none");
  };
  for (const auto& [what, value] : of_rank_0) {
    const auto found = own.find(what);
    if (found == own.end() ? in_sections(sections, what) : found->second != value)
      add(what, found == own.end() ? nullptr : &found->second, &value);
  }
  for (const auto& [what, value] : own)
    if (!of_rank_0.contains(what)) add(what, &value, nullptr);
  return all;
}

}  // namespace plait::runtime::control
