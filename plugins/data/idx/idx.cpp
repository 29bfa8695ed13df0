// data-idx: the MNIST format, plain or .gz. Fields "image" u8 (rows, columns) and "label" u8 ().
#include "plugins/data/column_dataset.hpp"
#include "plugins/data/idx/idx_file.hpp"

namespace {
using namespace plait;

constexpr plait_option kIdx[] = {
    opt_path("images", nullptr, "IDX file of u8 images, plain or gzip"),
    opt_path("labels", "\"\"", "IDX file of u8 labels, plain or gzip; empty: none"),
    data::kMemoryMib,
};

class Idx : public data::ColumnDataset {
 public:
  Idx(const Host&, const Options& o) : Idx(o, false) {}
  Idx(const Host&, const Options& o, MetadataOnly) : Idx(o, true) {}

 private:
  Idx(const Options& o, bool metadata) : ColumnDataset("data.idx", metadata) {
    const support::SourceFile images{"data.idx", "images", std::string(o.text("images"))};
    const support::SourceFile labels{"data.idx", "labels", std::string(o.text("labels"))};
    add_field(o, images, "image", PLAIT_FIELD_INPUT, 2, PLAIT_MAX_NDIM);
    if (!labels.path.empty()) add_field(o, labels, "label", PLAIT_FIELD_TARGET, 1, 1);
  }
  void add_field(const Options& o, const support::SourceFile& source, const char* name,
                 uint32_t role, size_t min_ndim, size_t max_ndim) {
    const auto file = std::make_shared<const support::SteadyFile>(source, "");
    const bool packed = data::idx::is_packed(*file);
    const bool whole = fits_memory(o, file->size()) || (packed && !metadata_only());
    data::idx::File all;
    if (whole)
      all = support::in_memory(
          source, [&] { return data::idx::open(source); }, data::kLessMemory);
    else
      all.header =
          packed ? data::idx::packed_header_of(source, *file) : data::idx::header_of(source, *file);
    const std::vector<int64_t>& dims = all.header.dims;
    if (dims.size() < min_ndim || dims.size() > max_ndim)
      source.bad(3, "ndim " + std::to_string(dims.size()) + ", expected " +
                        (max_ndim == 1 ? "1 for labels" : "at least 2 for images") +
                        "; are images and labels swapped?");
    const Shape sample({dims.begin() + 1, dims.end()}, PLAIT_U8);
    if (whole)
      add(name, role, sample, dims[0], std::move(all.bytes), all.header.offset);
    else
      add_file(name, role, sample, dims[0], file, all.header.offset, false);
  }
};
}  // namespace

PLAIT_PLUGIN("data-idx", "0.1.0", "Apache-2.0", "IDX files, the format of MNIST") {
  static const auto idx = dataset<Idx>("idx", "images and labels in IDX files, plain or .gz", kIdx);
  host.add(idx);
}
