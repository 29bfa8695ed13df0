// Bytes that only the processes of a job may know: in memory that core dumps leave out, wiped when
// the last copy of the object goes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace plait::kit {

// Copies share the bytes. Immutable. [thread: any]
class Secret {
 public:
  Secret() = default;
  // The caller's bytes stay where they are: who has no more use for them wipes them.
  Secret(std::string_view bytes);
  Secret(const char* text) : Secret(std::string_view(text)) {}
  Secret(const std::string& bytes) : Secret(std::string_view(bytes)) {}
  // `most` bytes of room that `fill` writes to; it returns how many it has written. May throw.
  static Secret filled(size_t most, const std::function<size_t(char* room)>& fill);

  std::string_view view() const;
  operator std::string_view() const { return view(); }
  size_t size() const { return view().size(); }
  bool empty() const { return view().empty(); }
  bool operator==(std::string_view other) const;  // in constant time

 private:
  struct Pages;
  std::shared_ptr<const Pages> pages_;
};

// Wipes what held a secret on its way, on every way out of a block.
class WipeAtEnd {
 public:
  explicit WipeAtEnd(std::string& text) : text_(text) {}
  ~WipeAtEnd();
  WipeAtEnd(const WipeAtEnd&) = delete;
  WipeAtEnd& operator=(const WipeAtEnd&) = delete;

 private:
  std::string& text_;
};

}  // namespace plait::kit
