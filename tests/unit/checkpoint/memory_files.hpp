// A file system in memory that can fail the Nth call, die at the Nth call, and lose unsynced data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/files.hpp"

// Thrown by every call once the process "was killed". Not a plait::Error, so no code handles it.
struct Killed {};

class MemoryFiles : public plait::FileSystem {
 public:
  MemoryFiles();

  // Calls that change something are counted from 0 (calls that only read never fail).
  int64_t calls = 0;
  // This call fails with `error_number`; a write has written half of its data.
  int64_t fail_at = -1;
  int error_number = 5;  // EIO
  int64_t kill_at =
      -1;  // this call and all later ones throw Killed; a write has written half of its data
  std::vector<std::string> trace;  // "write ckpt/.tmp/model.safetensors" ...

  // The state after a power failure: of each folder a random prefix of the changes since its last
  // sync; of each file the synced content, with later sectors of 512 bytes kept, dropped or
  // overwritten at random.
  std::unique_ptr<MemoryFiles> after_power_cut(uint64_t seed) const;

  std::string content(const std::string& path) const;
  void set_content(const std::string& path, std::string text);

  std::unique_ptr<plait::OutputFile> open(const std::string& path, plait::OpenMode mode) override;
  std::unique_ptr<plait::MappedFile> map(const std::string& path, uint64_t max_bytes) override;
  std::unique_ptr<plait::InputFile> open_input(const std::string& path,
                                               uint64_t max_bytes) override;
  std::string read_all(const std::string& path, uint64_t max_bytes) override;
  plait::FileInfo info(const std::string& path) override;
  bool is_link(const std::string&) override { return false; }
  std::vector<std::string> list(const std::string& folder) override;
  void make_folder(const std::string& path) override;
  void remove(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  std::unique_ptr<plait::FileLock> lock(const std::string& path) override;
  uint64_t free_bytes(const std::string&) override { return 1u << 30; }
  std::string real_path(const std::string& path) override { return path; }

 private:
  friend class MemoryOutput;
  friend class MemoryInput;
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  struct Node {
    bool folder = false;
    std::string now, synced;     // of a file
    Names names;                 // of a folder
    std::vector<Names> history;  // the states since the last sync, that state first
    void changed() { history.push_back(names); }
  };
  enum class Fate { kGo, kFail };
  Fate count(const std::string& what, const std::string& path);
  [[noreturn]] void fail(const std::string& what, const std::string& path) const;
  NodePtr find(const std::string& path) const;
  NodePtr parent(const std::string& path) const;
  static NodePtr survivor(const NodePtr& node, std::mt19937_64& random);
  NodePtr root_;
};
