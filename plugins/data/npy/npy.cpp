// data-npy: arrays saved by NumPy, samples along the first axis: .npy files, each a field, and .npz
// files of several arrays. f8 becomes f32.
#include <algorithm>
#include <memory>
#include <string>

#include "plugins/data/column_dataset.hpp"
#include "plugins/data/npy/npy_file.hpp"
#include "plugins/data/npy/zip_file.hpp"

namespace {
using namespace plait;
using File = std::shared_ptr<const support::SteadyFile>;

constexpr plait_option kNpy[] = {
    opt_path("input", nullptr, ".npy file of the inputs, (samples, …)"),
    opt_path("target", "\"\"", ".npy file of the targets, (samples, …); empty: none"),
    opt_path("weight", "\"\"",
             ".npy file of the samples' weights, (samples), real numbers; empty: all 1"),
    data::kMemoryMib,
};

constexpr plait_option kNpz[] = {
    opt_path("path", nullptr, ".npz file, of numpy.savez or numpy.savez_compressed"),
    opt_texts("input", "[\"x\"]",
              "names of the arrays of inputs, (samples, …); \"*\": all without another role"),
    opt_texts("target", "[\"y\"]", "names of the arrays of targets, (samples, …)"),
    opt_text("weight", "\"\"",
             "name of the array of the samples' weights, (samples), real numbers; empty: all 1"),
    data::kMemoryMib,
};

class ArrayDataset : public data::ColumnDataset {
 protected:
  ArrayDataset(const Host& host, std::string part, bool metadata = false)
      : ColumnDataset(std::move(part), metadata), host_(host) {}

  // An array that is read by position: `size` bytes of a file from `begin` on.
  void add_placed(const support::SourceFile& source, const char* name, uint32_t role,
                  const File& file, uint64_t begin, uint64_t size) {
    support::Bytes head(std::min<uint64_t>(size, data::npy::kMaxHead));
    file->read(begin, head.data(), head.size());
    data::npy::Header header = data::npy::parse(source, head.span(), size);
    if (header.by_column && !metadata_only()) refuse_by_column(source, size);
    const bool is_f64 = header.dtype == PLAIT_F64;
    if (is_f64) header.dtype = PLAIT_F32;
    const Shape sample({header.dims.begin() + 1, header.dims.end()}, header.dtype);
    add_file(name, role, sample, header.dims[0], file, begin + header.offset, is_f64);
  }

  // A sample would be as many reads as it has numbers.
  [[noreturn]] static void refuse_by_column(const support::SourceFile& source, uint64_t size) {
    const uint64_t mib = (size >> 20) + 1;
    fail(PLAIT_ERR_CONFIG,
         source.text() + ": the array is larger than memory_mib and lies column by column " +
             "(fortran_order), expected row by row to read samples from the file; save " +
             "numpy.ascontiguousarray(array), or set memory_mib = " + std::to_string(mib) +
             " to hold it in memory");
  }

  // An array in memory.
  void add_array(const support::SourceFile& source, const char* name, uint32_t role,
                 support::Bytes bytes) {
    data::npy::Header header = data::npy::parse(source, bytes.span(), bytes.size());
    if (header.by_column) bytes = data::npy::by_row(header, bytes.span());
    if (header.dtype == PLAIT_F64) {
      data::narrow_f64(bytes, header.offset);
      header.dtype = PLAIT_F32;
    }
    const Shape sample({header.dims.begin() + 1, header.dims.end()}, header.dtype);
    if (role == PLAIT_FIELD_WEIGHT && (sample.ndim() != 0 || sample.dtype != PLAIT_F32))
      source.bad(0, "the weights are " + Shape(header.dims, header.dtype).typed_text() +
                        ", expected one f4 or f8 per sample: shape (samples)");
    add(name, role, sample, header.dims[0], std::move(bytes), header.offset);
    if (role == PLAIT_FIELD_WEIGHT) check_weights(source);
    tell_of_ignored_labels(host_, source.option + " '" + source.path + "'");
  }

 private:
  const Host host_;
};

class Npy : public ArrayDataset {
 public:
  Npy(const Host& host, const Options& o) : Npy(host, o, false) {}
  Npy(const Host& host, const Options& o, MetadataOnly) : Npy(host, o, true) {}

 private:
  Npy(const Host& host, const Options& o, bool metadata)
      : ArrayDataset(host, "data.npy", metadata) {
    note_source(std::string(o.text("input")));
    open(o, "input", PLAIT_FIELD_INPUT);
    if (!o.text("target").empty()) open(o, "target", PLAIT_FIELD_TARGET);
    if (!o.text("weight").empty()) open(o, "weight", PLAIT_FIELD_WEIGHT);
  }
  void open(const Options& o, const char* name, uint32_t role) {
    const support::SourceFile source{"data.npy", name, std::string(o.text(name))};
    const auto file = std::make_shared<const support::SteadyFile>(source, "");
    const auto read = [&] {
      const bool whole =
          (role == PLAIT_FIELD_WEIGHT && !metadata_only()) || fits_memory(o, file->size());
      if (!whole) return add_placed(source, name, role, file, 0, file->size());
      support::Bytes bytes(file->size());
      file->read(0, bytes.data(), bytes.size());
      add_array(source, name, role, std::move(bytes));
    };
    support::in_memory(source, read, data::kLessMemory);
  }
};

class Npz : public ArrayDataset {
 public:
  Npz(const Host& host, const Options& o) : ArrayDataset(host, "data.npz"), path_(o.text("path")) {
    const support::SourceFile source{"data.npz", "path", path_};
    note_source(path_);
    file_ = std::make_shared<const support::SteadyFile>(source, "");
    members_ = support::in_memory(source, [&] { return data::npy::read_zip(source, *file_); });
    if (o.texts("input").empty())
      fail(PLAIT_ERR_CONFIG,
           std::string("[data.npz] input is empty, expected an array's name; set at ") +
               o.origin("input"));
    for (const std::string& name : inputs(o)) open(o, name, "input", PLAIT_FIELD_INPUT);
    for (const std::string& name : o.texts("target")) open(o, name, "target", PLAIT_FIELD_TARGET);
    if (const std::string name(o.text("weight")); !name.empty())
      open(o, name, "weight", PLAIT_FIELD_WEIGHT);
    members_.clear();
  }

 private:
  std::vector<std::string> inputs(const Options& o) const {
    std::vector<std::string> given = o.texts("input");
    const std::vector<std::string> targets = o.texts("target");
    if (given != std::vector<std::string>{"*"}) return given;
    std::vector<std::string> all;
    for (const data::npy::ZipMember& m : members_) {
      if (!m.name.ends_with(".npy")) continue;
      const std::string name = m.name.substr(0, m.name.size() - 4);
      if (name != o.text("weight") &&
          std::find(targets.begin(), targets.end(), name) == targets.end())
        all.push_back(name);
    }
    if (all.empty())
      fail(PLAIT_ERR_DATA, "[data.npz] path '" + path_ + "': no array is left for the input");
    return all;
  }

  const data::npy::ZipMember& find(const std::string& name, const char* option) const {
    std::string known;
    for (const data::npy::ZipMember& m : members_) {
      if (m.name == name + ".npy") return m;
      if (known.size() > 400 || !m.name.ends_with(".npy")) continue;
      known += (known.empty() ? "'" : ", '") + m.name.substr(0, m.name.size() - 4) + "'";
    }
    fail(PLAIT_ERR_CONFIG, "[data.npz] path '" + path_ + "': " + option + " names array '" + name +
                               "', which does not exist; " +
                               (known.empty() ? "it has none" : "the arrays are " + known));
  }

  void open(const Options& o, const std::string& name, const char* option, uint32_t role) {
    const data::npy::ZipMember& m = find(name, option);
    const support::SourceFile source{"data.npz", "array '" + name + "' of path", path_};
    const auto read = [&] {
      const bool placed = !m.deflated && role != PLAIT_FIELD_WEIGHT && !fits_memory(o, m.size);
      if (placed) return add_placed(source, name.c_str(), role, file_, m.offset, m.size);
      add_array(source, name.c_str(), role, data::npy::read_member(source, *file_, m));
    };
    support::in_memory(source, read, data::kLessMemory);
  }

  std::string path_;
  File file_;
  std::vector<data::npy::ZipMember> members_;  // only while the dataset opens
};
}  // namespace

PLAIT_PLUGIN("data-npy", "0.1.0", "Apache-2.0", "NumPy arrays") {
  static const auto npy = dataset<Npy>("npy", "arrays saved with numpy.save", kNpy);
  static const auto npz = dataset<Npz>("npz", "arrays of a file saved with numpy.savez", kNpz);
  host.add(npy);
  host.add(npz);
}
