// plait/plugin/tokenizer.hpp - tokenizers made of a C++ class.
#pragma once

#include <plait/tokenizer.h>
#include <plait/plugin/items.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plait {
inline namespace authoring {

// Where encode() writes ids. Hands them on in blocks.
class IdWriter {
 public:
  IdWriter(plait_ids_sink sink, void* user) : sink_(sink), user_(user) {}
  IdWriter(const IdWriter&) = delete;
  void write(int32_t id) {
    if (n_ == block_.size()) flush();
    block_[n_++] = id;
  }
  void write(std::span<const int32_t> ids) {
    for (const int32_t id : ids) write(id);
  }
  // The caller wants no more ids: encode() may return.
  bool ended() const { return ended_; }
  void flush() {
    if (n_ > 0 && !ended_) ended_ = sink_(user_, block_.data(), n_) != 0;
    n_ = 0;
  }

 private:
  plait_ids_sink sink_;
  void* user_;
  std::array<int32_t, 512> block_{};
  size_t n_ = 0;
  bool ended_ = false;
};

// Where decode() writes bytes.
class BytesWriter {
 public:
  BytesWriter(plait_bytes_sink sink, void* user) : sink_(sink), user_(user) {}
  BytesWriter(const BytesWriter&) = delete;
  void write(std::string_view bytes) {
    if (!ended_ && !bytes.empty()) ended_ = sink_(user_, bytes.data(), bytes.size()) != 0;
  }
  bool ended() const { return ended_; }

 private:
  plait_bytes_sink sink_;
  void* user_;
  bool ended_ = false;
};

namespace detail {
// Tokenizers are stored with the host, so that encode() can create errors.
template <class T>
struct TokenizerBox {
  const plait_host* host;
  T tokenizer;
  TokenizerBox(const plait_host* h, const Options& o) : host(h), tokenizer(Host(h), o) {}
};
}  // namespace detail

// A tokenizer made of a class T: T(const Host&, const Options&), void info(plait_tokenizer_info&)
// const, void encode(std::string_view text, uint32_t flags, IdWriter&) const, and void
// decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter&) const. All of them may throw.
template <class T>
plait_tokenizer_item tokenizer(const char* name, const char* help,
                               std::span<const plait_option> options = {}) {
  using Box = detail::TokenizerBox<T>;
  return {sizeof(plait_tokenizer_item),
          name,
          help,
          options.data(),
          detail::count(options),
          0,
          [](const plait_host* h, const plait_options* o, void** out) -> plait_error* {
            return detail::guard(detail::maker(h), [&] { *out = new Box(h, Options(o)); });
          },
          [](const void* t, plait_tokenizer_info* out) -> plait_error* {
            auto* box = static_cast<const Box*>(t);
            return detail::guard(detail::maker(box->host), [&] { box->tokenizer.info(*out); });
          },
          [](const void* t, const char* text, uint64_t size, uint32_t flags, plait_ids_sink sink,
             void* user) -> plait_error* {
            auto* box = static_cast<const Box*>(t);
            return detail::guard(detail::maker(box->host), [&] {
              IdWriter to(sink, user);
              box->tokenizer.encode({text, size}, flags, to);
              to.flush();
            });
          },
          [](const void* t, const int32_t* ids, uint64_t n, uint32_t flags, plait_bytes_sink sink,
             void* user) -> plait_error* {
            auto* box = static_cast<const Box*>(t);
            return detail::guard(detail::maker(box->host), [&] {
              BytesWriter to(sink, user);
              box->tokenizer.decode({ids, n}, flags, to);
            });
          },
          [](void* t) { delete static_cast<Box*>(t); }};
}

}  // namespace authoring
}  // namespace plait
