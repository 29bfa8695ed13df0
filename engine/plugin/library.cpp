#include "engine/plugin/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <vector>

#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {
namespace {

using Segments = std::vector<ElfW(Phdr)>;

// A library in memory.
struct Image {
  const ElfW(Dyn) * dynamic = nullptr;  // by which it is found
  uintptr_t base = 0;
  const ElfW(Phdr) * headers = nullptr;  // (n), in memory as long as the library
  size_t n = 0;
};

// The loader holds a lock meanwhile: nothing is allocated here.
int find_image(dl_phdr_info* info, size_t, void* wanted) {
  Image& image = *static_cast<Image*>(wanted);
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type != PT_DYNAMIC) continue;
    if (info->dlpi_addr + p.p_vaddr != reinterpret_cast<uintptr_t>(image.dynamic)) continue;
    image.base = info->dlpi_addr;
    image.headers = info->dlpi_phdr;
    image.n = info->dlpi_phnum;
    return 1;
  }
  return 0;
}

// Of a file that is known to be for this machine.
Segments segments_of(std::span<const std::byte> file) {
  ElfW(Ehdr) head;
  if (file.size() < sizeof head) return {};
  std::memcpy(&head, file.data(), sizeof head);
  const uint64_t bytes = uint64_t{head.e_phnum} * sizeof(ElfW(Phdr));
  if (head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phoff > file.size() ||
      bytes > file.size() - head.e_phoff)
    return {};
  Segments all(head.e_phnum);
  std::memcpy(all.data(), file.data() + head.e_phoff, bytes);
  return all;
}

bool is_constant(const ElfW(Phdr) & p) {
  return p.p_type == PT_NOTE || (p.p_type == PT_LOAD && (p.p_flags & (PF_W | PF_X)) == 0);
}

// Whether the loader writes into segments of this library that are not for writing.
bool has_text_relocations(const ElfW(Dyn) * dynamic) {
  for (; dynamic->d_tag != DT_NULL; ++dynamic)
    if (dynamic->d_tag == DT_TEXTREL ||
        (dynamic->d_tag == DT_FLAGS && (dynamic->d_un.d_val & DF_TEXTREL) != 0))
      return true;
  return false;
}

// Whether `n` bytes are equal. No memcmp(): in a plugin that is built with the address sanitizer
// there are red zones between constants, and reading them is reported.
__attribute__((no_sanitize("address"))) bool equal(const std::byte* a, const std::byte* b,
                                                   size_t n) {
  uint64_t different = 0;
  size_t i = 0;
  for (; n - i >= sizeof(uint64_t); i += sizeof(uint64_t)) {
    uint64_t x = 0;
    uint64_t y = 0;
    std::memcpy(&x, a + i, sizeof x);  // two loads, no call
    std::memcpy(&y, b + i, sizeof y);
    different |= x ^ y;
  }
  for (; i < n; ++i) different |= static_cast<uint64_t>(a[i] != b[i]);
  return different == 0;
}

}  // namespace

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* words = dlerror();
  throw PluginLoadError(
      path, std::string("the system cannot load it: ") + (words ? words : "no reason given"),
      "install what it needs; `ldd FILE` lists it");
}

Library::~Library() {
  if (!keep_) dlclose(handle_);
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

bool Library::is_loaded_from(std::span<const std::byte> file) const {
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return false;
  Image image;
  image.dynamic = map->l_ld;
  const Segments expected = segments_of(file);
  if (dl_iterate_phdr(find_image, &image) == 0 || expected.size() != image.n) return false;
  // The same segments are in memory, so their bytes can be read there.
  if (std::memcmp(expected.data(), image.headers, expected.size() * sizeof(ElfW(Phdr))))
    return false;
  const bool rewritten = has_text_relocations(image.dynamic);
  for (const ElfW(Phdr) & p : expected) {
    if (!is_constant(p) || (rewritten && p.p_type == PT_LOAD)) continue;
    if (p.p_offset > file.size() || p.p_filesz > file.size() - p.p_offset) return false;
    const auto* loaded = reinterpret_cast<const std::byte*>(image.base + p.p_vaddr);
    if (!equal(loaded, file.data() + p.p_offset, p.p_filesz)) return false;
  }
  return true;
}

}  // namespace plait::plugin
