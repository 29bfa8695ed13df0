#include "engine/checkpoint/export_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/new_place.hpp"
#include "engine/checkpoint/weights.hpp"
#include "kit/dtype.hpp"
#include "kit/half.hpp"

namespace plait::checkpoint {
namespace {

uint64_t elements_of(std::span<const int64_t> shape) {
  uint64_t n = 1;
  for (const int64_t extent : shape) n *= static_cast<uint64_t>(extent);
  return n;
}

void check_types(const WrittenTypes& types) {
  const uint32_t all = types.all;
  if (all != 0 && all != PLAIT_F32 && all != PLAIT_F64 && all != PLAIT_BF16 && all != PLAIT_F16)
    fail_invalid(
        strf("[export] the dtype of the tensors is %u, expected f32, bf16, f16 or f64", all));
}

uint32_t common_type(uint32_t a, uint32_t b) {
  if (a == b) return a;
  return a == PLAIT_F64 || b == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32;
}

}  // namespace

uint32_t WrittenTypes::of(const TensorRecord& t) const {
  if (!kit::is_float(t.dtype)) return t.dtype;
  const auto own = each.find(t.name);
  return all != 0 ? all : own != each.end() ? own->second : t.dtype;
}

uint64_t ExportTensor::bytes() const { return elements_of(shape) * dtype_bytes(dtype); }

std::span<const int64_t> ExportTensor::shape_of(size_t part) const {
  const std::span<const int64_t> all(parts[part]->shape);
  return slices.empty() || slices[part] < 0 ? all : all.subspan(1);
}

std::vector<ExportTensor> export_by_rules(const Checkpoint& from, const NameRules& rules,
                                          const WrittenTypes& types) {
  check_types(types);
  std::map<std::string, std::string> taken;  // new name -> name
  std::vector<ExportTensor> all;
  for (const TensorRecord& t : from.tensors()) {
    if (!is_parameter(t)) continue;
    const std::string name = rules.find({t.name}).value_or(t.name);
    if (const auto [at, is_new] = taken.emplace(name, t.name); !is_new)
      fail_invalid("[export] '" + printable(at->second) + "' and '" + printable(t.name) +
                   "' both become '" + printable(name) + "'; correct the rules for names");
    all.push_back({name, {&t}, types.of(t), t.shape});
  }
  return all;
}

namespace {

// Whether [a, a + n) and [b, b + m) have a common element.
bool common(int64_t a, int64_t n, int64_t b, int64_t m) {
  return std::max(a, b) < std::min(a + n, b + m);
}

// Elements of a row of a block; a vector is a column.
int64_t width_of(const TensorRecord& t) { return t.shape.size() == 2 ? t.shape[1] : 1; }

[[noreturn]] void bad_map(const std::string& what) {
  fail(PLAIT_ERR_PLUGIN, "[export] the format's map of tensors " + what + "; tell its author");
}

// A part of a matrix or vector.
void add_block(const TensorRecord& t, const TensorBlock& at, const WrittenTypes& types,
               ExportTensor& to) {
  std::vector<int64_t> shape{at.rows};
  if (at.columns > 0) shape.push_back(at.columns);
  if (t.shape.size() != shape.size() || at.row > at.rows - t.shape[0] ||
      at.column > std::max<int64_t>(at.columns, 1) - width_of(t) ||
      (!to.parts.empty() && to.shape != shape))
    bad_map("has a block '" + printable(t.name) + "' that does not fit '" + printable(at.tensor) +
            "'");
  for (size_t i = 0; i < to.parts.size(); ++i)
    if (common(at.row, t.shape[0], to.corners[i].row, to.parts[i]->shape[0]) &&
        common(at.column, width_of(t), to.corners[i].column, width_of(*to.parts[i])))
      bad_map("puts '" + printable(t.name) + "' over '" + printable(to.parts[i]->name) + "' in '" +
              printable(at.tensor) + "'");
  to.dtype = to.parts.empty() ? types.of(t) : common_type(to.dtype, types.of(t));
  to.shape = shape;
  to.parts.push_back(&t);
  to.corners.push_back({at.row, at.column});
}

// Rows of a tensor, of one parameter or several.
struct JoinedRows {
  std::vector<PlacedRows> parts;
  bool transposed = false, column = false;
};

void add_rows(const TensorRecord& t, const TensorPlace& place,
              std::map<std::string, JoinedRows>& tensors) {
  const std::string& first = place.all_tensors()[0];
  if (place.of_columns) bad_map("writes columns of '" + printable(first) + "' without a block");
  if (place.sliced() &&
      (t.shape.empty() || t.shape[0] != static_cast<int64_t>(place.tensors.size())))
    bad_map(strf("gives '%s' %zu tensors, it has the shape %s", printable(t.name).c_str(),
                 place.tensors.size(), shape_text(t.shape).c_str()));
  const std::span<const int64_t> shape =
      std::span<const int64_t>(t.shape).subspan(place.sliced() ? 1 : 0);
  if (place.column && shape.size() != 1) bad_map("makes a column of '" + printable(t.name) + "'");
  const int64_t rows = shape.empty() ? 1 : shape[0];
  if (place.n_rows != 0 && place.n_rows != rows)
    bad_map(strf("gives '%s' %lld rows, it has %lld", printable(t.name).c_str(),
                 static_cast<long long>(place.n_rows), static_cast<long long>(rows)));
  int64_t slice = place.sliced() ? 0 : -1;
  for (const std::string& tensor : place.all_tensors()) {
    JoinedRows& to = tensors[tensor];
    if (!to.parts.empty() && (to.transposed != place.transposed || to.column != place.column))
      bad_map("transposes parts of '" + printable(tensor) + "' only");
    to.transposed = place.transposed;
    to.column = place.column;
    to.parts.push_back({t.name, place.row, rows, slice < 0 ? slice : slice++});
  }
}

ExportTensor join_rows(const Checkpoint& from, const std::string& name, JoinedRows& tensor,
                       const WrittenTypes& types) {
  int64_t rows = 0;
  for (const PlacedRows& part : tensor.parts) rows = std::max(rows, part.row + part.n_rows);
  if (const std::string fault = cover_rows(tensor.parts, rows); !fault.empty())
    bad_map("is wrong for '" + printable(name) + "': " + fault);
  ExportTensor made{name, {}, 0, {}, tensor.transposed && !tensor.column};
  int64_t next = 0;
  for (const PlacedRows& part : tensor.parts) {
    const TensorRecord* t = from.find(part.parameter);
    if (part.row < next)
      bad_map("puts '" + printable(t->name) + "' and '" + printable(made.parts.back()->name) +
              "' at the same rows of '" + printable(name) + "'");
    next = part.row + part.n_rows;
    made.dtype = made.parts.empty() ? types.of(*t) : common_type(made.dtype, types.of(*t));
    made.parts.push_back(t);
    made.slices.push_back(part.slice);
    const auto first = made.shape_of(0), own = made.shape_of(made.parts.size() - 1);
    if ((first.empty() || own.empty()) && made.parts.size() > 1)
      bad_map("joins '" + printable(made.parts[0]->name) + "' and '" + printable(t->name) +
              "', which are single numbers without rows");
    if (t->dtype != made.parts[0]->dtype ||
        !std::ranges::equal(first.subspan(std::min<size_t>(first.size(), 1)),
                            own.subspan(std::min<size_t>(own.size(), 1))))
      bad_map("joins '" + printable(made.parts[0]->name) + "' and '" + printable(t->name) +
              "', which are of different widths or types");
  }
  made.shape.assign(made.shape_of(0).begin(), made.shape_of(0).end());
  if (!made.shape.empty()) made.shape[0] = rows;
  if (tensor.column)
    made.shape.insert(tensor.transposed ? made.shape.begin() : made.shape.end(), 1);
  if (made.transposed) {
    if (made.shape.size() != 2) bad_map("transposes '" + printable(name) + "'");
    std::swap(made.shape[0], made.shape[1]);
  }
  return made;
}

}  // namespace

std::vector<ExportTensor> export_by_map(const Checkpoint& from, const TensorMap& map,
                                        const std::string& model, const WrittenTypes& types) {
  check_types(types);
  const std::string prefix = model + ".";
  std::map<std::string, JoinedRows> tensors;
  std::map<std::string, ExportTensor> matrices;
  for (const TensorRecord& t : from.tensors()) {
    if (!is_parameter(t) || !starts_with(t.name, prefix)) continue;
    const std::string own = t.name.substr(prefix.size());
    if (std::any_of(map.ignored.begin(), map.ignored.end(),
                    [&](const std::string& pattern) { return glob_match(pattern, own); }))
      continue;
    if (const auto block = map.blocks.find(own); block != map.blocks.end()) {
      add_block(t, block->second, types, matrices[block->second.tensor]);
      continue;
    }
    const auto at = map.parameters.find(own);
    if (at == map.parameters.end()) bad_map("has no place for '" + printable(t.name) + "'");
    add_rows(t, at->second, tensors);
  }
  std::vector<ExportTensor> all;
  for (auto& [name, tensor] : tensors) all.push_back(join_rows(from, name, tensor, types));
  for (auto& [name, matrix] : matrices) {
    if (tensors.contains(name)) bad_map("has rows and blocks of '" + printable(name) + "'");
    matrix.name = name;
    all.push_back(std::move(matrix));
  }
  std::sort(all.begin(), all.end(),
            [](const ExportTensor& a, const ExportTensor& b) { return a.name < b.name; });
  return all;
}

namespace {

// Makes the bytes of one tensor after another.
class TensorLoader {
 public:
  explicit TensorLoader(const Checkpoint& from) : from_(from) {}

  const void* load(const ExportTensor& t) {
    // 16-bit types are rounded from f32.
    const uint32_t stored = t.parts[0]->dtype;
    const bool as_is = t.dtype == stored || dtype_bytes(t.dtype) > 2;
    const uint32_t read_as = as_is ? t.dtype : PLAIT_F32;
    const uint64_t n = elements_of(t.shape), size = dtype_bytes(read_as);
    with_memory("export", ("hold tensor '" + t.name + "' of").c_str(), from_.path(), n * size,
                [&] { values_.resize(n * size); });
    if (!t.corners.empty()) {
      read_blocks(t, read_as, size);
    } else {
      uint64_t at = 0;
      for (size_t i = 0; i < t.parts.size(); ++i) {
        read_part(t, i, read_as, values_.data() + at);
        at += elements_of(t.shape_of(i)) * size;
      }
    }
    if (t.transposed) transpose(static_cast<uint64_t>(t.shape[1]), size);
    if (read_as != t.dtype) round(t);
    return values_.data();
  }

 private:
  void read_part(const ExportTensor& t, size_t i, uint32_t read_as, std::byte* out) {
    const TensorRecord& part = *t.parts[i];
    topology::Box box = topology::full_box(part.shape);
    if (!t.slices.empty() && t.slices[i] >= 0) {
      box.offset[0] = t.slices[i];
      box.extent[0] = 1;
    }
    if (box.extent == part.shape) return from_.read_block(part.name, read_as, part.shape, box, out);
    if (verified_.insert(&part).second) from_.verify(part.name);
    from_.read_verified(part.name, read_as, part.shape, box, out);
  }

  void read_blocks(const ExportTensor& t, uint32_t read_as, uint64_t size) {
    std::fill(values_.begin(), values_.end(), std::byte{0});
    for (size_t i = 0; i < t.parts.size(); ++i) {
      const TensorRecord& part = *t.parts[i];
      other_.resize(elements_of(part.shape) * size);
      from_.read(part.name, read_as, part.shape, other_.data());
      const uint64_t width = static_cast<uint64_t>(width_of(part)) * size;
      const int64_t columns = t.shape.size() == 2 ? t.shape[1] : 1;
      for (int64_t row = 0; row < part.shape[0]; ++row)
        std::memcpy(values_.data() + static_cast<uint64_t>((t.corners[i].row + row) * columns +
                                                           t.corners[i].column) *
                                         size,
                    other_.data() + static_cast<uint64_t>(row) * width, width);
    }
  }

  // values: rows x the rest, in place of which stands its transpose.
  void transpose(uint64_t rows, uint64_t size) {
    other_.resize(values_.size());
    const uint64_t columns = rows == 0 ? 0 : values_.size() / size / rows;
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < columns; ++c)
        std::memcpy(other_.data() + (c * rows + r) * size,
                    values_.data() + (r * columns + c) * size, size);
    values_.swap(other_);
  }

  void round(const ExportTensor& t) {
    const uint64_t n = values_.size() / sizeof(float);
    for (uint64_t i = 0; i < n; ++i) {
      float v;
      std::memcpy(&v, values_.data() + i * sizeof v, sizeof v);
      const uint16_t bits = t.dtype == PLAIT_BF16 ? kit::to_bf16(v) : kit::to_f16(v);
      const float back = t.dtype == PLAIT_BF16 ? kit::from_bf16(bits) : kit::from_f16(bits);
      if (std::isfinite(v) && !std::isfinite(back))
        fail_data(strf("[export] tensor '%s' contains %g, beyond the range of %s",
                       printable(t.name).c_str(), static_cast<double>(v),
                       kit::dtype_name(t.dtype)) +
                  "; write it as f32" +
                  (std::isfinite(kit::from_bf16(kit::to_bf16(v))) ? " or bf16" : "") +
                  " (plait export --dtype)");
      std::memcpy(values_.data() + i * sizeof bits, &bits, sizeof bits);
    }
    values_.resize(n * sizeof(uint16_t));
  }

  const Checkpoint& from_;
  std::set<const TensorRecord*> verified_;  // of which slices are read
  std::vector<std::byte> values_, other_;
};

// The tensors of each file, in order, as many as fit; a tensor above the limit has its own.
std::vector<std::vector<ExportTensor>> shards_of(std::vector<ExportTensor> all, uint64_t limit) {
  std::vector<std::vector<ExportTensor>> shards(1);
  uint64_t used = 0;
  for (ExportTensor& t : all) {
    const uint64_t bytes = t.bytes();
    if (!shards.back().empty() && (bytes > limit || used > limit - bytes)) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().push_back(std::move(t));
  }
  return shards;
}

void write_shard_of(FileSystem& files, const std::string& path, TensorLoader& loader,
                    const std::vector<ExportTensor>& tensors) {
  std::vector<TensorSource> sources;
  for (const ExportTensor& t : tensors)
    sources.push_back({t.name, t.dtype, t.shape, nullptr, [&] { return loader.load(t); }});
  write_safetensors(files, path, sources);
}

// Writes the files of weights into a folder; returns their names.
std::vector<std::string> write_weights(FileSystem& files, const std::string& folder,
                                       const Checkpoint& from,
                                       const std::vector<std::vector<ExportTensor>>& shards,
                                       uint64_t total, const std::string& one_file) {
  std::vector<std::string> names;
  std::map<std::string, std::string> file_of;
  TensorLoader loader(from);
  for (size_t i = 0; i < shards.size(); ++i) {
    names.push_back(shards.size() == 1
                        ? (one_file.empty() ? kWeightsName : one_file)
                        : strf("model-%05zu-of-%05zu.safetensors", i + 1, shards.size()));
    write_shard_of(files, join_path(folder, names.back()), loader, shards[i]);
    for (const ExportTensor& t : shards[i]) file_of[t.name] = names.back();
  }
  if (shards.size() > 1) {
    names.emplace_back(kWeightsIndexName);
    files.replace(join_path(folder, kWeightsIndexName), weights_index_text(file_of, total));
  }
  return names;
}

void copy_file(FileSystem& files, const std::string& from, const std::string& to) {
  const auto in = files.open_input(from);
  const auto out = files.open(to, OpenMode::kCreate);
  std::vector<char> piece(
      static_cast<size_t>(std::min<uint64_t>(std::max<uint64_t>(in->size(), 1), 1u << 20)));
  for (uint64_t at = 0; at < in->size();) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(piece.size(), in->size() - at));
    in->read_at(at, piece.data(), n);
    out->write(piece.data(), n);
    at += n;
  }
  out->sync();
  out->close();
}

std::vector<std::string> write_beside(FileSystem& files, const std::string& folder,
                                      const std::vector<ExportFile>& all) {
  std::vector<std::string> names;
  for (const ExportFile& file : all) {
    const std::string path = join_path(folder, file.name);
    if (file.copy_of.empty())
      files.replace(path, file.content);
    else
      copy_file(files, file.copy_of, path);
    names.push_back(file.name);
  }
  return names;
}

}  // namespace

Exported export_weights(FileSystem& files, const Checkpoint& from, const std::string& out,
                        std::vector<ExportTensor> tensors, uint64_t max_shard_bytes,
                        const std::vector<ExportFile>& beside, const std::string& weights_name) {
  Exported done;
  done.tensors = tensors.size();
  std::set<std::string> dtypes;
  for (const ExportTensor& t : tensors) {
    done.bytes += t.bytes();
    dtypes.insert(kit::dtype_name(t.dtype));
  }
  done.dtypes.assign(dtypes.begin(), dtypes.end());
  const std::string what = "the weights of '" + from.path() + "' could not be written to '" + out +
                           "' (needs " + human_bytes(done.bytes) + ")";
  write_new(files, out, "export", what, [&](const std::string& hidden) {
    if (out.ends_with(".safetensors")) {
      TensorLoader loader(from);
      write_shard_of(files, hidden, loader, tensors);
      done.files = {out};
      return;
    }
    files.make_folder(hidden);
    const auto shards = shards_of(std::move(tensors), !weights_name.empty() ? UINT64_MAX
                                                      : max_shard_bytes     ? max_shard_bytes
                                                                            : kDefaultShardBytes);
    std::vector<std::string> names =
        write_weights(files, hidden, from, shards, done.bytes, weights_name);
    for (std::string& name : write_beside(files, hidden, beside)) names.push_back(std::move(name));
    files.sync_folder(hidden);
    for (const std::string& name : names) done.files.push_back(join_path(out, name));
  });
  return done;
}

std::vector<std::string> write_new_folder(FileSystem& files, const std::string& out,
                                          const std::vector<ExportFile>& all) {
  std::vector<std::string> paths;
  write_new(files, out, "export", "'" + out + "' could not be written",
            [&](const std::string& hidden) {
              files.make_folder(hidden);
              for (const std::string& name : write_beside(files, hidden, all))
                paths.push_back(join_path(out, name));
              files.sync_folder(hidden);
            });
  return paths;
}

}  // namespace plait::checkpoint
