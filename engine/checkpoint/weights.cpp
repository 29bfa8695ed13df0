#include "engine/checkpoint/weights.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/json.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/name_rules.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/unfinished.hpp"

namespace plait::checkpoint {

namespace {
Weights::Place whole(const SafetensorsFile& file, const TensorEntry& entry) {
  return {{&file, &entry}, {entry.name}, entry.shape};
}
}  // namespace

bool names_checkpoint(FileSystem& files, const std::string& path) {
  return files.is_folder(path) ? !Weights::is_folder_of_weights(files, path) : is_hint(files, path);
}

std::vector<std::string> names_in_file(const std::string& parameter, const std::string& model,
                                       const std::vector<std::string>& rules) {
  const std::string own = parameter.substr(model.size() + 1);
  if (const auto other = NameRules(rules).find({parameter, own})) return {*other};
  return {parameter, own};
}

bool Weights::is_folder_of_weights(FileSystem& files, const std::string& folder) {
  const auto has = [&](const char* name) { return files.is_file(join_path(folder, name)); };
  return !has(kManifestName) && (has(kWeightsName) || has(kWeightsIndexName));
}

Weights::Weights(FileSystem& files, const std::string& path) {
  if (const std::string missing = missing_in_save(files, path); !missing.empty())
    fail_not_found("[weights] " + unfinished_text(path, missing) +
                   "; name a step-... folder, or the run directory");
  std::string file = path;
  if (files.is_folder(path)) {
    file = join_path(path, kWeightsName);
    if (!files.is_file(file)) file = join_path(path, kWeightsIndexName);
  }
  if (file.ends_with(".json")) {
    read_json(files, file);
    return;
  }
  const SafetensorsFile& one = *files_.emplace_back(std::make_unique<SafetensorsFile>(files, file));
  for (const TensorEntry& t : one.header().tensors) tensors_[t.name] = whole(one, t);
}

void Weights::read_json(FileSystem& files, const std::string& path) {
  const std::string text = files.read_all(path, kMaxManifestBytes);
  JsonValue json;
  try {
    json = with_memory("weights", "parse", path, text.size(), [&] { return parse_json(text); });
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) throw;
    fail_data("[weights] '" + path + "' " + e.text());
  }
  if (!is_tensor_map(json)) return read_index(files, path, json);
  const TensorMap map = parse_tensor_map(json, path);
  const std::string from = join_path(folder_of(path), map.weights);
  if (name_of(from).ends_with(".map.json") || !files.exists(from))
    fail_not_found("[weights] '" + path + "' puts the weights at '" + from +
                   "', expected a safetensors file, an index or a folder with one of them; correct "
                   "\"weights\" there, or import the model again");
  *this = Weights(files, from, map, path);
}

Weights::Weights(FileSystem& files, const std::string& path, const TensorMap& map,
                 const std::string& where)
    : Weights(files, path) {
  apply(map, path, where);
}

Weights::Place Weights::place_of(const std::string& parameter, const TensorPlace& in,
                                 const Places& stored, const std::string& from,
                                 const std::string& path) {
  Place place;
  place.in = in;
  // A single row lies as a column does.
  place.in.transposed = in.transposed && !in.column;
  const size_t n = in.all_tensors().size();
  for (size_t i = 0; i < n; ++i) {
    const std::string& tensor = in.all_tensors()[i];
    const std::string slice = in.sliced() ? strf("slice %zu of %zu of ", i, n) : "";
    const auto at = stored.find(tensor);
    if (at == stored.end()) {
      std::vector<std::string> there;
      for (const auto& [name, unused] : stored) there.push_back(name);
      fail_data("[weights] '" + from + "' has no tensor '" + printable(tensor) + "'" +
                did_you_mean(nearest(tensor, there)) + ", where '" + path + "' puts " + slice +
                "'" + printable(parameter) + "'");
    }
    const TensorEntry& entry = *at->second.entry;
    std::string fault;
    place.shape = shape_at(in, entry.shape, fault);
    if (i > 0 && (entry.shape != place.entry->shape || entry.dtype != place.entry->dtype))
      fault = "it is " + entry.dtype_text + " " + shape_text(entry.shape) + ", and '" +
              printable(place.entry->name) + "' " + place.entry->dtype_text + " " +
              shape_text(place.entry->shape) + "; slices of a parameter are alike";
    if (!fault.empty())
      fail_data("[weights] tensor '" + printable(tensor) + "' of '" + from + "' does not fit " +
                slice + "'" + printable(parameter) + "' of '" + path + "': " + fault);
    if (i == 0) static_cast<Stored&>(place) = at->second;
    if (in.sliced()) place.slices.push_back(at->second);
  }
  return place;
}

namespace {

using PartsOfTensors = std::map<std::string, std::vector<PlacedRows>, std::less<>>;

// Every tensor is used whole, unless it is ignored. shapes: of all tensors.
void check_cover(const TensorMap& map, PartsOfTensors& used,
                 const std::map<std::string, std::span<const int64_t>>& shapes,
                 const std::string& from, const std::string& path) {
  for (const auto& [tensor, shape] : shapes) {
    if (std::any_of(map.ignored.begin(), map.ignored.end(),
                    [&tensor = tensor](const std::string& p) { return glob_match(p, tensor); }))
      continue;
    const auto parts = used.find(tensor);
    if (parts == used.end())
      fail_data("[weights] '" + from + "' has the tensor '" + printable(tensor) + "', for which '" +
                path + "' has no parameter; if it is of no use, add it to \"ignored\" there");
    const TensorPlace& first = map.parameters.find(parts->second[0].parameter)->second;
    for (const auto& part : parts->second) {
      const TensorPlace& place = map.parameters.find(part.parameter)->second;
      if (place.of_columns != first.of_columns || place.transposed != first.transposed)
        fail_data("[weights] '" + path + "' takes '" + printable(parts->second[0].parameter) +
                  "' and '" + printable(part.parameter) +
                  "' along different dimensions of the tensor '" + printable(tensor) + "' of '" +
                  from + "', expected one for all its parts");
    }
    const int64_t n_rows = shape.empty() ? 1 : shape[first.transposed || first.of_columns ? 1 : 0];
    if (const std::string fault =
            cover_rows(parts->second, n_rows, first.of_columns ? "column" : "row");
        !fault.empty())
      fail_data("[weights] tensor '" + printable(tensor) + "' of '" + from + "': " + fault +
                "; correct '" + path + "'");
  }
}

}  // namespace

void Weights::apply(const TensorMap& map, const std::string& from, const std::string& path) {
  const Places stored = std::move(tensors_);
  tensors_.clear();
  mapped_ = true;
  std::map<std::string, std::span<const int64_t>> shapes;
  for (const auto& [tensor, at] : stored) shapes[tensor] = at.entry->shape;
  PartsOfTensors used;
  for (const auto& [name, in] : map.parameters) {
    Place place = place_of(name, in, stored, from, path);
    const std::span<const int64_t> part =
        std::span<const int64_t>(place.shape).subspan(in.sliced() ? 1 : 0);
    const int64_t n_rows = part.empty() ? 1 : part[in.of_columns ? 1 : 0];
    int64_t slice = in.sliced() ? 0 : -1;
    for (const std::string& tensor : in.all_tensors())
      used[tensor].push_back({name, in.row, n_rows, slice < 0 ? slice : slice++});
    tensors_[name] = std::move(place);
  }
  check_cover(map, used, shapes, from, path);
}

void Weights::read_index(FileSystem& files, const std::string& path, const JsonValue& json) {
  const auto bad = [&](const std::string& text) { fail_data("[weights] '" + path + "' " + text); };
  using Kind = JsonValue::Kind;
  const JsonValue* map = json.is(Kind::kObject) ? json.find("weight_map") : nullptr;
  if (!map || !map->is(Kind::kObject))
    bad("has no object 'weight_map', expected {\"weight_map\": {tensor: file}}");
  std::map<std::string, const SafetensorsFile*, std::less<>> open;
  for (size_t i = 0; i < map->items.size(); ++i) {
    const std::string& tensor = map->keys[i];
    const std::string& name = map->items[i].text;
    // The files lie beside the index; a name that leads elsewhere is a trap.
    if (!map->items[i].is(Kind::kText) || name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      bad("names '" + printable(name) + "' as the file of '" + printable(tensor) +
          "', expected a file beside it, without a folder");
    const SafetensorsFile*& file = open[name];
    if (!file)
      file = files_
                 .emplace_back(
                     std::make_unique<SafetensorsFile>(files, join_path(folder_of(path), name)))
                 .get();
    const TensorEntry* entry = file->header().find(tensor);
    if (!entry) bad("says that '" + printable(tensor) + "' is in '" + name + "', which has none");
    tensors_[tensor] = whole(*file, *entry);
  }
}

namespace {

// The elements of a box of the part `in` of one tensor; shape: of that part.
void read_part(const Weights::Stored& from, const TensorPlace& in, const topology::Extent& shape,
               const topology::Box& box, uint32_t dtype, std::byte* out) {
  const TensorEntry& entry = *from.entry;
  const std::string what = "tensor '" + entry.name + "' of '" + from.file->path() + "'";
  Converter converter(entry.dtype, dtype, what);
  const uint64_t stored = dtype_bytes(entry.dtype), wanted = dtype_bytes(dtype);
  std::vector<std::byte> piece;
  // n elements of the file as wanted, from element `at` on.
  const auto read_run = [&](int64_t at, int64_t n, auto&& take) {
    const auto most = static_cast<int64_t>(SafetensorsFile::kPiece / stored);
    for (int64_t done = 0; done < n; done += most) {
      const int64_t part = std::min(most, n - done);
      size_t size = static_cast<size_t>(part) * stored;
      piece.resize(size);
      from.file->read(entry, static_cast<uint64_t>(at + done) * stored, piece.data(), size);
      take(converter.convert(piece.data(), size), done, part);
    }
  };
  if (in.transposed) {
    const int64_t file_width = entry.shape[1], rows = box.extent[0], columns = box.extent[1];
    const int64_t first_row = in.row + box.offset[0];
    for (int64_t c = 0; c < columns; ++c)  // a row of the file is a column of the parameter
      read_run((box.offset[1] + c) * file_width + first_row, rows,
               [&](const std::byte* values, int64_t done, int64_t n) {
                 for (int64_t r = 0; r < n; ++r)
                   std::memcpy(out + static_cast<uint64_t>((done + r) * columns + c) * wanted,
                               values + static_cast<uint64_t>(r) * wanted, wanted);
               });
    return;
  }
  if (in.of_columns) {
    const int64_t columns = box.extent[1];
    for (int64_t r = 0; r < box.extent[0]; ++r)
      read_run((box.offset[0] + r) * entry.shape[1] + in.row + box.offset[1], columns,
               [&](const std::byte* values, int64_t done, int64_t n) {
                 std::memcpy(out + static_cast<uint64_t>(r * columns + done) * wanted, values,
                             static_cast<uint64_t>(n) * wanted);
               });
    return;
  }
  int64_t row_elements = 1;
  for (size_t d = 1; d < shape.size(); ++d) row_elements *= shape[d];
  topology::for_each_run(shape, box, [&](int64_t global, int64_t first, int64_t n) {
    read_run(in.row * row_elements + global, n,
             [&](const std::byte* values, int64_t done, int64_t part) {
               std::memcpy(out + static_cast<uint64_t>(first + done) * wanted, values,
                           static_cast<uint64_t>(part) * wanted);
             });
  });
}

}  // namespace

void Weights::read(const Place& from, const topology::Box& box, uint32_t dtype, std::byte* out) {
  if (from.slices.empty()) return read_part(from, from.in, from.shape, box, dtype, out);
  const topology::Extent shape(from.shape.begin() + 1, from.shape.end());
  const topology::Box part{{box.offset.begin() + 1, box.offset.end()},
                           {box.extent.begin() + 1, box.extent.end()}};
  const uint64_t bytes = static_cast<uint64_t>(topology::elements(part)) * dtype_bytes(dtype);
  for (int64_t i = 0; i < box.extent[0]; ++i)
    read_part(from.slices[static_cast<size_t>(box.offset[0] + i)], from.in, shape, part, dtype,
              out + static_cast<uint64_t>(i) * bytes);
}

uint64_t Weights::bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files_)
    for (const TensorEntry& t : file->header().tensors) sum += t.bytes();
  return sum;
}

Weights::Place Weights::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? Place{} : at->second;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> all;
  for (const auto& [name, place] : tensors_) all.push_back(name);
  return all;
}

std::vector<const SafetensorsFile*> Weights::open_files() const {
  std::vector<const SafetensorsFile*> all;
  for (const auto& file : files_) all.push_back(file.get());
  return all;
}

std::string weights_index_text(const std::map<std::string, std::string>& file_of,
                               uint64_t total_bytes) {
  JsonWriter w(true);
  w.object().key("metadata").object().field("total_size", total_bytes).end_object();
  w.key("weight_map").object();
  for (const auto& [tensor, file] : file_of) w.field(tensor, file);
  w.end_object().end_object();
  return w.text() + "\n";
}

bool is_parameter(const TensorRecord& t) {
  return !t.slices.empty() && t.slices[0].file.starts_with("model");
}

std::string checkpoint_index_text(const Manifest& manifest) {
  std::map<std::string, std::string> file_of;
  uint64_t bytes = 0;
  for (const TensorRecord& t : manifest.tensors) {
    if (!is_parameter(t)) continue;
    if (t.slices.size() != 1 || t.slices[0].key != t.name) return "";
    file_of[t.name] = t.slices[0].file;
    bytes += tensor_bytes(t);
  }
  return weights_index_text(file_of, bytes);
}

}  // namespace plait::checkpoint
