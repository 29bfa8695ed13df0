// An ELF reader: 32 and 64 bit, either byte order, any machine. Every offset is checked against the
// file size before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::plugin {

struct ElfSection {
  std::string_view name;  // into the file
  uint32_t type = 0, link = 0;
  uint64_t offset = 0, size = 0, entry_size = 0;
};

class ElfFile {
 public:
  // Borrows the bytes. Throws PluginLoadError for a file that is damaged or not ELF.
  ElfFile(std::span<const std::byte> bytes, std::string path);

  uint32_t bits() const { return wide_ ? 64 : 32; }
  bool big_endian() const { return big_; }
  uint32_t machine() const { return machine_; }
  bool shared() const { return type_ == 3; }  // ET_DYN
  // Text of the note with this owner and type; "" when there is none.
  std::string note(std::string_view section, std::string_view owner, uint32_t type) const;
  // Names of defined symbols that other objects can bind to, sorted.
  std::vector<std::string> exports() const;

 private:
  [[noreturn]] void damaged(const std::string& what) const;
  uint64_t number(uint64_t at, unsigned bytes) const;
  uint64_t word(uint64_t at) const { return number(at, wide_ ? 8 : 4); }
  std::span<const std::byte> part(uint64_t offset, uint64_t size, const char* what) const;
  std::string_view text_at(uint64_t table, uint64_t table_size, uint64_t at) const;
  void read_sections();
  std::string find_note(uint64_t offset, uint64_t size, std::string_view owner,
                        uint32_t type) const;

  std::span<const std::byte> bytes_;
  std::string path_;
  bool wide_ = true, big_ = false;
  uint32_t type_ = 0, machine_ = 0;
  uint64_t program_headers_ = 0;
  uint32_t program_header_size_ = 0, n_program_headers_ = 0;
  std::vector<ElfSection> sections_;
};

}  // namespace plait::plugin
