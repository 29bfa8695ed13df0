#include "engine/base/c_error.hpp"

#include <cstring>
#include <new>
#include <vector>

namespace {

// The error returned when there is no memory for a new one: allocated in advance, shared by all
// callers, never freed and never written.
struct OutOfMemory {
  plait_error error;
  OutOfMemory() {
    error.code = PLAIT_ERR_MEMORY;
    error.text = "out of memory";  // short enough to need no allocation
  }
};

plait_error* out_of_memory() noexcept {
  static OutOfMemory fallback;
  return &fallback.error;
}

}  // namespace

namespace plait {

plait_error* new_c_error(uint32_t code, const char* text, uint64_t size,
                         plait_error* cause) noexcept {
  std::unique_ptr<plait_error> chain(cause == out_of_memory() ? nullptr : cause);
  try {
    auto error = std::make_unique<plait_error>();
    error->code = code == PLAIT_OK ? PLAIT_ERR_INTERNAL : code;
    if (text)
      error->text.assign(text, size == PLAIT_NTS ? std::strlen(text) : static_cast<size_t>(size));
    if (cause && !chain) {
      chain = std::make_unique<plait_error>();
      chain->code = cause->code;
      chain->text = cause->text;
    }
    error->cause = std::move(chain);
    return error.release();
  } catch (...) {
    return out_of_memory();
  }
}

plait_error* to_c(const Error& error) noexcept {
  plait_error* cause = error.cause() ? to_c(*error.cause()) : nullptr;
  return new_c_error(error.code(), error.text().data(), error.text().size(), cause);
}

void mark_collective(plait_error* error) noexcept {
  if (error != out_of_memory()) error->collective = true;
}

void free_c_error(plait_error* error) noexcept {
  if (error == out_of_memory()) return;
  // A loop rather than recursion, so that a long chain cannot overflow the stack.
  std::unique_ptr<plait_error> rest(error);
  while (rest) rest = std::unique_ptr<plait_error>(rest->cause.release());
}

Error from_c(plait_error* error) {
  if (!error) return Error(PLAIT_ERR_INTERNAL, "[error] no error where one was expected");
  struct Free {
    plait_error* error;
    ~Free() { free_c_error(error); }
  } const owned{error};
  // From the last cause to the first. The limit keeps a corrupt chain from recursing without end.
  constexpr size_t kMaxLinks = 64;
  std::vector<const plait_error*> links;
  for (const plait_error* e = error; e && links.size() < kMaxLinks; e = e->cause.get())
    links.push_back(e);
  std::shared_ptr<const Error> cause;
  for (size_t i = links.size(); i-- > 1;)
    cause = std::make_shared<const Error>(links[i]->code, links[i]->text, std::move(cause));
  return Error(error->code, error->text, std::move(cause));
}

plait_error* new_plugin_error(uint32_t code, const char* text, uint64_t size,
                              plait_error* cause) noexcept {
  if (code == PLAIT_OK || code == PLAIT_ERR_INTERNAL) code = PLAIT_ERR_PLUGIN;
  const bool empty = !text || size == 0 || (size == PLAIT_NTS && *text == 0);
  return empty ? new_c_error(code, "the plugin gave no reason", PLAIT_NTS, cause)
               : new_c_error(code, text, size, cause);
}

plait_error* current_c_error() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return to_c(e);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& e) {
    return new_c_error(PLAIT_ERR_INTERNAL, e.what(), PLAIT_NTS, nullptr);
  } catch (...) {
    return new_c_error(PLAIT_ERR_INTERNAL, "[engine] an exception that is not a std::exception",
                       PLAIT_NTS, nullptr);
  }
}

}  // namespace plait
