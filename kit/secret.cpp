#include "kit/secret.hpp"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "kit/hmac.hpp"

namespace plait::kit {

// Whole pages, since what a dump leaves out is chosen by page.
struct Secret::Pages {
  explicit Pages(size_t most) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    room = (most + page - 1) / page * page;
    void* at = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    data = static_cast<char*>(at);
    // Refused only by kernels that are built without advice; then dumps have it, as before.
    madvise(data, room, MADV_DONTDUMP);
  }
  ~Pages() {
    explicit_bzero(data, room);
    munmap(data, room);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* data = nullptr;
  size_t room = 0, size = 0;
};

Secret::Secret(std::string_view bytes) {
  if (bytes.empty()) return;
  *this = filled(bytes.size(), [&](char* room) {
    std::memcpy(room, bytes.data(), bytes.size());
    return bytes.size();
  });
}

Secret Secret::filled(size_t most, const std::function<size_t(char*)>& fill) {
  const auto pages = std::make_shared<Pages>(most);
  pages->size = fill(pages->data);
  Secret secret;
  if (pages->size > 0) secret.pages_ = pages;
  return secret;
}

std::string_view Secret::view() const {
  return pages_ ? std::string_view(pages_->data, pages_->size) : std::string_view();
}

bool Secret::operator==(std::string_view other) const { return equal_constant_time(view(), other); }

WipeAtEnd::~WipeAtEnd() { explicit_bzero(text_.data(), text_.size()); }

}  // namespace plait::kit
