#include "engine/checkpoint/rewrite.hpp"

#include <algorithm>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/new_place.hpp"
#include "engine/checkpoint/tensor_stream.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {
namespace {

using Records = std::vector<RewrittenTensor>;

uint64_t bytes_of(const Records& all) {
  uint64_t sum = 0;
  for (const RewrittenTensor& t : all) sum += tensor_bytes(*t.stored);
  return sum;
}

// The tensors of each file, in order, as many as fit; a tensor above the limit has its own.
std::vector<Records> by_limit(const Records& all, uint64_t limit) {
  std::vector<Records> files(1);
  uint64_t used = 0;
  for (const RewrittenTensor& t : all) {
    const uint64_t bytes = tensor_bytes(*t.stored);
    if (!files.back().empty() && (bytes > limit || used > limit - bytes)) {
      files.emplace_back();
      used = 0;
    }
    used += bytes;
    files.back().push_back(t);
  }
  return files;
}

// In order, so that files are of about the same size; no more files than tensors, none empty.
std::vector<Records> by_number(const Records& all, size_t n) {
  n = std::clamp<size_t>(n, 1, std::max<size_t>(all.size(), 1));
  std::vector<Records> files(n);
  const uint64_t total = bytes_of(all);
  uint64_t done = 0;
  size_t f = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool full = static_cast<double>(done) * static_cast<double>(n) >=
                      static_cast<double>(total) * static_cast<double>(f + 1);
    const bool needed = all.size() - i <= n - 1 - f;  // by the files behind this one
    if (!files[f].empty() && f + 1 < n && (full || needed)) ++f;
    files[f].push_back(all[i]);
    done += tensor_bytes(*all[i].stored);
  }
  return files;
}

class Rewriter {
 public:
  Rewriter(FileSystem& files, const Checkpoint& from, const RewriteSettings& settings,
           const Progress& progress, const NewContent* content)
      : files_(files), from_(from), settings_(settings), progress_(progress) {
    manifest_.state = content ? content->state : from.state();
    if (content)
      tensors_ = content->tensors;
    else
      for (const TensorRecord& t : from.tensors()) tensors_.push_back({&from, &t, t.name});
    manifest_.commit = from.manifest().commit;
  }

  void write(const std::string& folder) {
    files_.make_folder(folder);
    folder_ = folder;
    group("model", parameters(true), true);
    const Records states = parameters(false);
    if (settings_.optimizer)
      group("optimizer", states, false);
    else if (!states.empty())
      manifest_.state.states_left_out = true;
    std::sort(manifest_.tensors.begin(), manifest_.tensors.end(),
              [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
    if (!files_.is_file(join_path(folder, kWeightsName)))
      text(kWeightsIndexName, checkpoint_index_text(manifest_));
    const std::string experiment = join_path(from_.path(), kExperimentName);
    if (!manifest_.state.experiment.empty())
      text(kExperimentName, manifest_.state.experiment);
    else if (files_.is_file(experiment))
      text(kExperimentName, files_.read_all(experiment, kMaxManifestBytes));
    text(kManifestName, manifest_text(manifest_));
    files_.sync_folder(folder);
  }

  Rewritten done(const std::string& out) const {
    Rewritten done;
    for (const TensorRecord& t : manifest_.tensors) done.bytes += tensor_bytes(t);
    done.tensors = manifest_.tensors.size();
    for (const std::string& name : names_) done.files.push_back(join_path(out, name));
    return done;
  }

 private:
  Records parameters(bool wanted) const {
    Records all;
    for (const RewrittenTensor& t : tensors_)
      if (is_parameter(*t.stored) == wanted) all.push_back(t);
    return all;
  }

  void text(const char* name, const std::string& content) {
    const auto file = files_.open(join_path(folder_, name), OpenMode::kCreate);
    file->write(content);
    file->sync();
    file->close();
    names_.emplace_back(name);
  }

  // needed: the file exists even without tensors.
  void group(const char* stem, const Records& all, bool needed) {
    if (all.empty() && !needed) return;
    const std::vector<Records> parts = settings_.shards > 0 ? by_number(all, settings_.shards)
                                       : settings_.max_shard_bytes > 0
                                           ? by_limit(all, settings_.max_shard_bytes)
                                           : std::vector<Records>{all};
    for (size_t i = 0; i < parts.size(); ++i)
      file(parts.size() == 1 ? strf("%s.safetensors", stem)
                             : strf("%s-%05zu-of-%05zu.safetensors", stem, i + 1, parts.size()),
           parts[i]);
  }

  void file(const std::string& name, const Records& tensors) {
    std::vector<TensorSource> sources;
    std::unique_ptr<TensorStream> stream;  // of the tensor that is being written
    const TensorRecord* streamed = nullptr;
    for (const RewrittenTensor& one : tensors)
      sources.push_back({one.name, one.stored->dtype, one.stored->shape, nullptr, {}, [&, one] {
                           const TensorRecord* t = one.stored;
                           if (streamed != t)
                             stream = std::make_unique<TensorStream>(*one.from, *t);
                           streamed = t;
                           const auto piece = stream->next();
                           if (progress_ && !piece.empty()) progress_(piece.size());
                           return piece;
                         }});
    const WrittenFile written = write_safetensors(files_, join_path(folder_, name), sources);
    manifest_.files.push_back({name, written.size, written.hash});
    names_.push_back(name);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorRecord& t = *tensors[i].stored;
      SliceRecord whole{name, tensors[i].name, std::vector<int64_t>(t.shape.size(), 0), t.shape,
                        written.tensors[i]};
      manifest_.tensors.push_back({tensors[i].name, t.dtype, t.shape, {std::move(whole)}});
    }
  }

  FileSystem& files_;
  const Checkpoint& from_;
  const RewriteSettings& settings_;
  const Progress& progress_;
  Records tensors_;
  std::string folder_;
  Manifest manifest_;
  std::vector<std::string> names_;
};

// Folders above a new one, durable.
void make_parents(FileSystem& files, const std::string& folder) {
  if (files.is_folder(folder)) return;
  make_parents(files, folder_of(folder));
  files.make_folder(folder);
  files.sync_folder(folder_of(folder));
}

}  // namespace

void rewrite_checkpoint(FileSystem& files, const Checkpoint& from, const std::string& out,
                        const RewriteSettings& settings, const Progress& progress,
                        const std::function<void(const Rewritten&)>& tell,
                        const NewContent* content) {
  if (settings.shards > 0 && settings.max_shard_bytes > 0)
    fail_invalid("[checkpoint] a number of shards and their size are both given; give one");
  if (files.exists(out) || files.is_link(out))
    fail_invalid("[checkpoint] '" + out + "' exists; remove it, or choose another name");
  make_parents(files, folder_of(out));
  Rewriter rewriter(files, from, settings, progress, content);
  write_new(files, out, "checkpoint",
            "'" + from.path() + "' could not be rewritten to '" + out + "'",
            [&](const std::string& hidden) {
              rewriter.write(hidden);
              if (tell) tell(rewriter.done(out));
            });
}

}  // namespace plait::checkpoint
