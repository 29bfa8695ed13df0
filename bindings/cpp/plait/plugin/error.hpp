// plait/plugin/error.hpp - errors inside a plugin, and their conversion to plait_error objects at
// the C interface.
//
// All names for plugin authors are in an inline namespace, so that their symbols differ from those
// of the engine even if a program links both.
#pragma once

#include <plait/build.h>
#include <plait/plugin.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace plait {
inline namespace authoring {

// An error on its way to the C interface. Holds a code and a text, or an error of the host, which
// is passed on unchanged.
class Error : public std::exception {
 public:
  Error(uint32_t code, std::string text) : code_(code), text_(std::move(text)) {}
  explicit Error(plait_error* passed) : code_(PLAIT_ERR_PLUGIN), passed_(passed) {}
  Error(const Error& o)
      : std::exception(o),
        code_(o.code_),
        text_(o.text_),
        passed_(std::exchange(o.passed_, nullptr)) {}
  Error& operator=(const Error&) = delete;
  const char* what() const noexcept override { return text_.c_str(); }
  uint32_t code() const { return code_; }
  // Returns the error of the host, which the caller then owns; nullptr if there is none.
  plait_error* take() const { return std::exchange(passed_, nullptr); }

 private:
  uint32_t code_;
  std::string text_;
  mutable plait_error* passed_ = nullptr;
};

[[noreturn]] inline void fail(uint32_t code, std::string text) {
  throw Error(code, std::move(text));
}
inline void check(plait_error* e) {
  if (e) throw Error(e);
}

namespace detail {
// Runs f; converts any exception to an error that `make(code, text)` creates.
template <class Make, class F>
plait_error* guard(Make&& make, F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const Error& e) {
    if (plait_error* passed = e.take()) return passed;
    return make(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return make(PLAIT_ERR_MEMORY, "[plugin] out of memory");
  } catch (const std::exception& e) {
    return make(PLAIT_ERR_PLUGIN, e.what());
  } catch (...) {
    return make(PLAIT_ERR_PLUGIN, "[plugin] threw something that is no std::exception");
  }
}
inline auto maker(const plait_host* h) {
  return
      [h](uint32_t code, const char* text) { return h->error_new(code, text, PLAIT_NTS, nullptr); };
}
inline auto maker(plait_builder* b) {
  return [b](uint32_t code, const char* text) { return b->table->fail(b, code, text, PLAIT_NTS); };
}
}  // namespace detail

}  // namespace authoring
}  // namespace plait
