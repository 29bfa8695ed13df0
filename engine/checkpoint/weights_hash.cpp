#include "engine/checkpoint/weights_hash.hpp"

#include "engine/base/text.hpp"
#include "engine/checkpoint/survey.hpp"

namespace plait::checkpoint {
namespace {

// With its length: two texts never look like two others.
void add(Hasher& to, const std::string& text) {
  to.update(std::to_string(text.size()) + ":" + text);
}

void add_rules(Hasher& to, const std::vector<std::string>& rules) {
  for (const std::string& rule : rules) add(to, rule);
}

// All bytes: the tensors cover what is behind the head.
Hash128 hash_of_file(const SafetensorsFile& file) {
  Hasher all;
  all.update(file.head());
  for (const TensorEntry& t : file.header().tensors)
    file.each_piece(t, [&](const std::byte* piece, size_t size) { all.update(piece, size); });
  return all.digest128();
}

}  // namespace

Hash128 hash_of_checkpoint(const Checkpoint& from, const std::vector<std::string>& rules) {
  Hasher all;
  for (const TensorRecord& t : from.tensors()) {
    if (!is_parameter(t)) continue;
    add(all, t.name);
    add(all, dtype_name(t.dtype) + shape_text(t.shape));
    for (const SliceRecord& slice : t.slices) add(all, slice.hash.hex());
  }
  add_rules(all, rules);
  return all.digest128();
}

Hash128 hash_of_files(const Weights& from, const std::vector<std::string>& rules) {
  Hasher all;
  for (const SafetensorsFile* file : from.open_files()) add(all, hash_of_file(*file).hex());
  for (const std::string& name : from.names()) {
    const TensorPlace in = from.find(name).in;
    add(all, name);
    for (const std::string& tensor : in.all_tensors()) add(all, tensor);
    // Rows of one tensor add what they always did: adapters of before name these hashes.
    add(all,
        strf("%lld+%lld%s%s%s%s", static_cast<long long>(in.row), static_cast<long long>(in.n_rows),
             in.transposed ? " transposed" : "", in.column ? " column" : "",
             in.of_columns ? " columns" : "", in.sliced() ? " slices" : ""));
  }
  add_rules(all, rules);
  return all.digest128();
}

Hash128 hash_of_weights(FileSystem& files, const std::string& path,
                        const std::vector<std::string>& rules) {
  if (names_checkpoint(files, path))
    return hash_of_checkpoint(
        Checkpoint(files, choose_checkpoint(files, path), Checkpoint::Verify::kLater), rules);
  return hash_of_files(Weights(files, path), rules);
}

}  // namespace plait::checkpoint
