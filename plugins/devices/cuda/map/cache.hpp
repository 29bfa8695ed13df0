// What was compiled or measured, on disk, one file each, shared by all processes of a user.
#pragma once

#include <optional>
#include <string>

namespace plait::cuda::map {

class Cache {
 public:
  // option: device.cache. "auto": plait/cuda in $XDG_CACHE_HOME, or in ~/.cache; "": none; else
  // a folder. It is made with access for its owner alone; one of another user, or that others can
  // write to, is not used.
  explicit Cache(const std::string& option);
  // Why there is none, "" if there is one.
  const std::string& why() const { return why_; }
  const std::string& folder() const { return folder_; }

  // key: everything that decides what is kept. A file that is damaged, or of another key, is
  // deleted.
  std::optional<std::string> find(const std::string& key) const;
  // Readers see the whole file or none. A full disk or another failure is no error: the code is
  // compiled again next time.
  void keep(const std::string& key, const std::string& code) const;

 private:
  std::string path(const std::string& key) const;

  std::string folder_, why_;
};

}  // namespace plait::cuda::map
