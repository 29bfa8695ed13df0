#include "engine/plugin/inspect.hpp"

#include <plait/plugin.h>

#include <charconv>
#include <system_error>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/elf.hpp"
#include "engine/plugin/plugin_file.hpp"
#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kOwnMachine = 62;
#elif defined(__i386__)
constexpr uint32_t kOwnMachine = 3;
#elif defined(__aarch64__)
constexpr uint32_t kOwnMachine = 183;
#elif defined(__arm__)
constexpr uint32_t kOwnMachine = 40;
#elif defined(__riscv)
constexpr uint32_t kOwnMachine = 243;
#elif defined(__powerpc64__)
constexpr uint32_t kOwnMachine = 21;
#elif defined(__s390x__)
constexpr uint32_t kOwnMachine = 22;
#else
constexpr uint32_t kOwnMachine = 0;  // unknown: left to the system's loader
#endif
constexpr uint32_t kOwnBits = sizeof(void*) * 8;
constexpr bool kOwnBigEndian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

std::string machine_text(uint32_t machine) {
  switch (machine) {
    case 3:
      return "x86";
    case 21:
      return "ppc64";
    case 22:
      return "s390";
    case 40:
      return "arm";
    case 62:
      return "x86-64";
    case 183:
      return "aarch64";
    case 243:
      return "riscv";
    case 258:
      return "loongarch";
    default:
      return "machine " + std::to_string(machine);
  }
}

// "abi=1;name=layer-dense;version=0.1.0;sanitizer=none".
Note parse_note(const std::string& text, const std::string& path) {
  Note note;
  bool has_abi = false;
  for (const std::string& field : split(text, ';')) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) continue;  // ignored, for compatibility with later notes
    const std::string key = field.substr(0, equals), value = field.substr(equals + 1);
    if (key == "name") note.name = value;
    if (key == "version") note.version = value;
    if (key == "sanitizer") note.sanitizer = value;
    if (key == "abi") {
      const char* end = value.data() + value.size();
      const auto [last, error] = std::from_chars(value.data(), end, note.abi);
      has_abi = error == std::errc() && last == end;
    }
  }
  if (!has_abi || note.name.empty())
    throw PluginLoadError(
        path,
        "found a Plait note \"" + printable(text) + "\", expected abi=NUMBER;name=NAME;version=...",
        "write the note with PLAIT_PLUGIN_NOTE of <plait/plugin.h>");
  if (note.sanitizer.empty()) note.sanitizer = "none";
  return note;
}

}  // namespace

std::string own_machine() {
  return machine_text(kOwnMachine) + ", " + std::to_string(kOwnBits) + " bit";
}
const char* own_sanitizer() { return PLAIT_SANITIZER; }

bool Inspection::matches_this_machine() const {
  return bits == kOwnBits && big_endian == kOwnBigEndian &&
         (kOwnMachine == 0 || machine == kOwnMachine);
}

Inspection inspect(std::span<const std::byte> file, const std::string& path) {
  const ElfFile elf(file, path);
  Inspection found;
  found.path = path;
  found.bits = elf.bits();
  found.big_endian = elf.big_endian();
  found.machine = elf.machine();
  found.machine_name = machine_text(elf.machine());
  found.shared = elf.shared();
  const std::string text = elf.note(PLAIT_NOTE_SECTION, PLAIT_NOTE_OWNER, PLAIT_NOTE_TYPE);
  if (!text.empty()) found.note = parse_note(text, path);
  found.exports = elf.exports();
  return found;
}

Inspection inspect_file(const std::string& path) { return inspect(PluginFile(path).bytes(), path); }

std::string Inspection::json() const {
  JsonWriter json;
  json.object().field("path", path).field("machine", machine_name).field("bits", bits);
  json.field("byte_order", big_endian ? "big" : "little")
      .field("shared_library", shared)
      .field("matches_this_machine", matches_this_machine());
  json.key("note");
  if (note) {
    json.object().field("abi", note->abi).field("name", note->name).field("version", note->version);
    json.field("sanitizer", note->sanitizer).end_object();
  } else {
    json.null();
  }
  return json.texts("exports", exports).end_object().text();
}

}  // namespace plait::plugin
