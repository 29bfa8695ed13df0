#include "engine/checkpoint/new_place.hpp"

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/unfinished.hpp"

namespace plait::checkpoint {

void write_new(FileSystem& files, const std::string& out, const char* part, const std::string& what,
               const std::function<void(const std::string& hidden)>& write) {
  const std::string prefix = std::string("[") + part + "] ";
  if (files.exists(out) || files.is_link(out))
    fail_invalid(prefix + "'" + out + "' exists; remove it, or choose another name");
  const std::string hidden = join_path(folder_of(out), std::string(kUnfinished) + unique_id());
  bool named = false;
  try {
    write(hidden);
    files.rename(hidden, out);
    named = true;
    files.sync_folder(folder_of(out));
  } catch (...) {
    try {
      // First what needs no memory, which may be what is missing.
      if (named) files.rename(out, hidden);
      files.remove_all(hidden);
    } catch (const std::exception&) {
      // The first error counts.
    }
    rethrow_with(prefix + what);
  }
}

}  // namespace plait::checkpoint
