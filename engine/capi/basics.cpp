// Versions, errors and texts.
#include <pthread.h>

#include <atomic>

#include "engine/capi/objects.hpp"

namespace plait::capi {
namespace {

std::atomic<unsigned> forks{0};
// Registered when the library is loaded; removed with it.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });

}  // namespace

unsigned fork_depth() noexcept { return forks.load(std::memory_order_relaxed); }

void refuse_foreign(const char* function, const char* what) {
  fail(PLAIT_ERR_STATE, std::string("[capi] ") + function + "() on a" +
                            (*what == 'e' ? "n " : " ") + what +
                            " that was made before fork(): it belongs to the parent process; open "
                            "one in the child, or execute a new program there");
}

std::string text_argument(const char* data, uint64_t size, const char* what) {
  if (!data) fail_invalid(std::string("[capi] ") + what + " is NULL");
  return size == PLAIT_NTS ? std::string(data) : std::string(data, size);
}

void require(const void* pointer, const char* what) {
  if (!pointer) fail_invalid(std::string("[capi] ") + what + " is NULL");
}

config::ItemConfig read_item(EngineState& engine, std::string_view kind, const std::string& toml,
                             const std::string& name) {
  config::Problems problems;
  const config::Document document = config::Document::parse(toml, name, problems);
  config::ItemConfig item;
  if (problems.empty())
    item = config::load_one_item(kind, document, *engine.registry,
                                 {&engine.files, engine.data_folder, document.folder}, problems);
  problems.raise_if_any();
  return item;
}

plait_text* new_text(std::string text) { return new plait_text{std::move(text)}; }

}  // namespace plait::capi

extern "C" {

uint32_t plait_abi_version(void) { return PLAIT_ABI_VERSION; }
const char* plait_version(void) { return PLAIT_VERSION; }

uint32_t plait_error_code(const plait_error* e) { return e ? e->code : PLAIT_OK; }
const char* plait_error_text(const plait_error* e) { return e ? e->text.c_str() : ""; }
const plait_error* plait_error_cause(const plait_error* e) { return e ? e->cause.get() : nullptr; }
const char* plait_error_full_text(const plait_error* e) {
  if (!e) return "";
  if (!e->cause) return e->text.c_str();
  try {
    if (e->full.empty()) {
      e->full = e->text;
      for (const plait_error* cause = e->cause.get(); cause; cause = cause->cause.get())
        e->full += "\n  because: " + cause->text;
    }
    return e->full.c_str();
  } catch (...) {
    return e->text.c_str();  // out of memory: at least the first error of the chain
  }
}
void plait_error_free(plait_error* e) { plait::free_c_error(e); }

const char* plait_text_data(const plait_text* t) { return t ? t->text.c_str() : ""; }
uint64_t plait_text_size(const plait_text* t) { return t ? t->text.size() : 0; }
void plait_text_free(plait_text* t) { delete t; }

}  // extern "C"
