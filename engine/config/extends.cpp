#include "engine/config/extends.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/config/bind.hpp"

namespace plait::config {
namespace {

constexpr char kExtends[] = "extends";
constexpr size_t kMostFiles = 32;  // that one experiment extends

// Whether `over` names another item than `under`, whose options would mean nothing to it.
bool is_other_item(const Node& under, const Node& over) {
  const Node &was = under.find("type"), &is = over.find("type");
  return was.is(NodeKind::kText) && is.is(NodeKind::kText) && was.as_text() != is.as_text();
}

// The values of `over` in `under`.
void merge(Node& under, const Node& over) {
  for (const Node::Entry& entry : over.entries()) {
    Node* below = under.find_mutable(entry.key);
    const bool both = below && below->is(NodeKind::kTable) && entry.value.is(NodeKind::kTable);
    if (both && !is_other_item(*below, entry.value))
      merge(*below, entry.value);
    else
      under.set(entry.key, entry.value, entry.origin);
  }
}

// Plugins are found before options are checked: of a file that is extended their paths are made
// absolute, as they are relative to that file.
void root_plugin_paths(Document& document) {
  Node* plugins = document.root.find_mutable("plugins");
  Node* paths = plugins ? plugins->find_mutable("paths") : nullptr;
  const auto root = [&](Node& path) {
    if (path.is(NodeKind::kText) && !path.as_text().empty())
      path = Node::text(rooted_path(join_path(document.folder, path.as_text())), path.origin());
  };
  if (!paths) return;
  root(*paths);
  for (Node& path : paths->items_mutable()) root(path);
}

class Extender {
 public:
  Extender(FileSystem& files, Problems& problems) : files_(files), problems_(problems) {}

  // The root of a document above what it extends. around: the files whose `extends` led here.
  Node whole(Document document, std::vector<std::string> around) {
    const Node list = document.root.find(kExtends);
    document.root.erase(kExtends);
    if (list.absent()) return std::move(document.root);
    Node all = Node::table(document.root.origin());
    around.push_back(std::filesystem::path(document.file).lexically_normal());
    for (const Node& name : list.is(NodeKind::kArray) ? list.items() : std::vector<Node>{list})
      add(document, name, around, all);
    merge(all, document.root);
    return all;
  }

 private:
  void add(const Document& document, const Node& name, const std::vector<std::string>& around,
           Node& to) {
    if (!name.is(NodeKind::kText))
      return problems_.add(
          name.origin(), kExtends,
          std::string("expected the path of an experiment file, found ") + name.kind_name(),
          "write extends = [\"base.toml\"]");
    const std::string path =
        std::filesystem::path(join_path(document.folder, name.as_text())).lexically_normal();
    if (std::find(around.begin(), around.end(), path) != around.end())
      return problems_.add(
          name.origin(), kExtends,
          "'" + printable(name.as_text()) + "' extends this file, which extends it",
          "remove one of the two");
    if (++n_files_ > kMostFiles)
      return problems_.add(name.origin(), kExtends,
                           "more than " + std::to_string(kMostFiles) + " files are extended",
                           "extend fewer");
    if (!files_.is_file(path))
      return problems_.add(
          name.origin(), kExtends,
          "file '" + printable(name.as_text()) + "' not found in " + printable(document.folder),
          "name it relative to the file that extends it", PLAIT_ERR_NOT_FOUND);
    Document below = Document::parse_file(files_, path, problems_);
    root_plugin_paths(below);
    merge(to, whole(std::move(below), around));
  }

  FileSystem& files_;
  Problems& problems_;
  size_t n_files_ = 0;
};

}  // namespace

void extend(FileSystem& files, Document& document, Problems& problems) {
  if (document.root.find(kExtends).absent()) return;
  document.root = Extender(files, problems).whole(document, {});
}

}  // namespace plait::config
