#include "engine/runtime/control/identity_check.hpp"

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMaxShown = 2048;         // bytes of a name or value
constexpr size_t kMessageSize = 32 << 10;  // bytes after which a new message begins

size_t section_of(std::string_view name) { return name_hash(name) % kSections; }

bool in_sections(uint64_t sections, const std::string& name) {
  return (sections >> section_of(name) & 1) != 0;
}

std::string shown(const std::string& text) {
  if (text.size() <= kMaxShown) return text;
  return std::string(shortened(text, kMaxShown)) +
         strf("... (%zu bytes, hash %s)", text.size(), hex64(hash64(text)).c_str());
}

}  // namespace

SectionDigests digests_of(const Identity& identity) {
  std::array<std::string, kSections> texts;
  // In the order of their names, since ranks may load their plugins in different orders.
  for (const auto& [name, value] : IdentityKeys(identity.begin(), identity.end())) {
    std::string& text = texts[section_of(name)];
    text += hex64(hash64(name)) + hex64(hash64(value));
  }
  SectionDigests digests;
  for (size_t i = 0; i < kSections; ++i) digests[i] = hash64(texts[i]);
  return digests;
}

uint64_t differing_sections(const SectionDigests& a, const SectionDigests& b) {
  uint64_t sections = 0;
  for (size_t i = 0; i < kSections; ++i) sections |= uint64_t{a[i] != b[i]} << i;
  return sections;
}

std::string encode_keys(const Identity& identity, uint64_t sections) {
  std::string messages;
  FrameWriter message(MessageKind::kKeys);
  size_t size = 0;
  const auto close = [&] {
    messages += message.done();
    message = FrameWriter(MessageKind::kKeys);
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

bool add_keys(const Frame& frame, IdentityKeys& to) {
  PayloadReader r(frame.payload);
  if (r.empty()) return true;
  while (!r.empty()) {
    const std::string name(r.text(kMaxPayload));
    to.emplace(name, r.text(kMaxPayload));
  }
  return false;
}

std::string differences(const std::string& name, const std::string& host, uint64_t sections,
                        const IdentityKeys& own, const IdentityKeys& of_rank_0) {
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
