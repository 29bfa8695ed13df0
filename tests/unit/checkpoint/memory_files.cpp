#include "tests/unit/checkpoint/memory_files.hpp"

#include <cerrno>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

using plait::OpenMode;

MemoryFiles::MemoryFiles() : root_(std::make_shared<Node>()) {
  root_->folder = true;
  root_->changed();
}

MemoryFiles::NodePtr MemoryFiles::find(const std::string& path) const {
  NodePtr at = root_;
  for (const std::string& part : plait::split(path, '/')) {
    if (part.empty() || part == ".") continue;
    const auto it = at->names.find(part);
    if (it == at->names.end()) return nullptr;
    at = it->second;
  }
  return at;
}

MemoryFiles::NodePtr MemoryFiles::parent(const std::string& path) const {
  NodePtr folder = find(plait::folder_of(path));
  if (!folder || !folder->folder) plait::fail_not_found("[files] " + path + ": no such folder");
  return folder;
}

MemoryFiles::Fate MemoryFiles::count(const std::string& what, const std::string& path) {
  const int64_t call = calls++;
  if (kill_at >= 0 && call > kill_at) throw Killed();
  trace.push_back(what + " " + path);
  if (call == kill_at && what != "write") throw Killed();
  return call == fail_at || call == kill_at ? Fate::kFail : Fate::kGo;
}

void MemoryFiles::fail(const std::string& what, const std::string& path) const {
  if (kill_at >= 0) throw Killed();
  plait::fail_io("[files] " + what + " " + path, error_number);
}

class MemoryOutput : public plait::OutputFile {
 public:
  MemoryOutput(MemoryFiles& files, MemoryFiles::NodePtr node, std::string path)
      : files_(files), node_(std::move(node)), path_(std::move(path)) {}
  using plait::OutputFile::write;
  void write(const void* data, size_t size) override {
    const bool go = files_.count("write", path_) == MemoryFiles::Fate::kGo;
    node_->now.append(static_cast<const char*>(data), go ? size : size / 2);
    written_ += go ? size : size / 2;
    if (!go) files_.fail("write", path_);
  }
  uint64_t written() const override { return written_; }
  void write_at(uint64_t, const void*, size_t) override { plait::fail_internal("not used here"); }
  void sync() override {
    if (files_.count("sync", path_) == MemoryFiles::Fate::kFail) files_.fail("sync", path_);
    node_->synced = node_->now;
  }
  void close() override {
    if (files_.count("close", path_) == MemoryFiles::Fate::kFail) files_.fail("close", path_);
  }

 private:
  MemoryFiles& files_;
  MemoryFiles::NodePtr node_;
  std::string path_;
  uint64_t written_ = 0;
};

// Sees changes of the file after it was opened, like a descriptor.
class MemoryInput : public plait::InputFile {
 public:
  MemoryInput(MemoryFiles::NodePtr node, std::string path)
      : node_(std::move(node)), path_(std::move(path)), size_(node_->now.size()) {}
  uint64_t size() const override { return size_; }
  void read_at(uint64_t offset, void* out, size_t size) const override {
    const std::string& text = node_->now;
    if (offset + size > text.size())
      plait::fail_truncated(path_, text.size(), offset + size, size_);
    std::memcpy(out, text.data() + offset, size);
  }

 private:
  MemoryFiles::NodePtr node_;
  std::string path_;
  uint64_t size_;
};

namespace {

class MemoryMap : public plait::MappedFile {
 public:
  explicit MemoryMap(std::string text) : text_(std::move(text)) {}
  const std::byte* data() const override {
    return text_.empty() ? nullptr : reinterpret_cast<const std::byte*>(text_.data());
  }
  uint64_t size() const override { return text_.size(); }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<plait::OutputFile> MemoryFiles::open(const std::string& path, OpenMode mode) {
  if (count("open", path) == Fate::kFail) fail("open", path);
  const NodePtr folder = parent(path);
  NodePtr& node = folder->names[plait::name_of(path)];
  if (node && mode == OpenMode::kCreate) plait::fail_io("[files] open " + path, EEXIST);
  if (!node) {
    node = std::make_shared<Node>();
    folder->changed();
  }
  if (mode != OpenMode::kAppend) node->now.clear();
  return std::make_unique<MemoryOutput>(*this, node, path);
}

std::string MemoryFiles::content(const std::string& path) const {
  const NodePtr node = find(path);
  if (!node || node->folder) plait::fail_not_found("[files] " + path + ": no such file");
  return node->now;
}

void MemoryFiles::set_content(const std::string& path, std::string text) {
  const NodePtr node = find(path);
  node->now = std::move(text);
}

std::string MemoryFiles::read_all(const std::string& path, uint64_t) { return content(path); }

std::unique_ptr<plait::MappedFile> MemoryFiles::map(const std::string& path, uint64_t) {
  return std::make_unique<MemoryMap>(content(path));
}

std::unique_ptr<plait::InputFile> MemoryFiles::open_input(const std::string& path, uint64_t) {
  content(path);  // throws if there is no such file
  return std::make_unique<MemoryInput>(find(path), path);
}

plait::FileInfo MemoryFiles::info(const std::string& path) {
  plait::FileInfo info;
  const NodePtr node = find(path);
  if (!node) return info;
  info.kind = node->folder ? plait::FileKind::kDirectory : plait::FileKind::kRegular;
  info.size = node->now.size();
  return info;
}

std::vector<std::string> MemoryFiles::list(const std::string& path) {
  const NodePtr node = find(path);
  if (!node || !node->folder) plait::fail_not_found("[files] " + path + ": no such folder");
  std::vector<std::string> all;
  for (const auto& [name, child] : node->names) all.push_back(name);
  return all;
}

void MemoryFiles::make_folder(const std::string& path) {
  if (count("mkdir", path) == Fate::kFail) fail("mkdir", path);
  const NodePtr folder = parent(path);
  NodePtr& node = folder->names[plait::name_of(path)];
  if (node) plait::fail_io("[files] mkdir " + path, EEXIST);
  node = std::make_shared<Node>();
  node->folder = true;
  node->changed();
  folder->changed();
}

void MemoryFiles::remove(const std::string& path) {
  if (count("remove", path) == Fate::kFail) fail("remove", path);
  const NodePtr folder = parent(path), node = find(path);
  if (!node) plait::fail_not_found("[files] remove " + path);
  if (!node->names.empty()) plait::fail_io("[files] remove " + path, ENOTEMPTY);
  folder->names.erase(plait::name_of(path));
  folder->changed();
}

void MemoryFiles::rename(const std::string& from, const std::string& to) {
  if (count("rename", from + " -> " + to) == Fate::kFail) fail("rename", from);
  const NodePtr folder = parent(from), target = find(to), node = find(from);
  if (!node) plait::fail_not_found("[files] rename " + from);
  if (folder != parent(to)) plait::fail_io("[files] rename " + from, EXDEV);
  if (target && (target->folder ? !target->names.empty() : node->folder))
    plait::fail_io("[files] rename " + from + " to " + to, ENOTEMPTY);
  folder->names.erase(plait::name_of(from));
  folder->names[plait::name_of(to)] = node;
  folder->changed();
}

void MemoryFiles::sync_folder(const std::string& path) {
  if (count("syncdir", path) == Fate::kFail) fail("syncdir", path);
  const NodePtr node = find(path);
  if (!node) plait::fail_not_found("[files] sync " + path);
  node->history = {node->names};
}

std::unique_ptr<plait::FileLock> MemoryFiles::lock(const std::string&) {
  plait::fail_internal("not used here");
}

MemoryFiles::NodePtr MemoryFiles::survivor(const NodePtr& node, std::mt19937_64& random) {
  auto left = std::make_shared<Node>();
  left->folder = node->folder;
  if (node->folder) {
    for (const auto& [name, child] : node->history[random() % node->history.size()])
      left->names[name] = survivor(child, random);
    left->changed();
    return left;
  }
  // The size may be the old one, the new one, or anything between; unsynced sectors may hold any
  // content.
  const size_t a = node->synced.size(), b = node->now.size();
  std::string text = node->synced;
  if (node->now != node->synced) {
    text.resize(std::min(a, b) + random() % (std::max(a, b) - std::min(a, b) + 1));
    for (size_t at = 0; at < text.size(); at += 512) {
      const uint64_t fate = random() % 3;
      for (size_t i = at; i < std::min(at + 512, text.size()); ++i) {
        if (fate == 0 && i < b) text[i] = node->now[i];
        if (fate == 1) text[i] = i < a ? node->synced[i] : '\0';
        if (fate == 2 && (i >= a || i >= b || node->synced[i] != node->now[i]))
          text[i] = static_cast<char>(random());
      }
    }
  }
  left->now = left->synced = std::move(text);
  return left;
}

std::unique_ptr<MemoryFiles> MemoryFiles::after_power_cut(uint64_t seed) const {
  std::mt19937_64 random(seed);
  auto after = std::make_unique<MemoryFiles>();
  after->root_ = survivor(root_, random);
  return after;
}
