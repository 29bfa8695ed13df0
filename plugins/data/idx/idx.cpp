// data-idx: the MNIST format, plain or .gz. Fields "image" u8 (rows, columns) and "label" u8 ().
#include "plugins/data/idx/idx_file.hpp"
#include "plugins/data/memory_dataset.hpp"

namespace {
using namespace plait;

constexpr plait_option kIdx[] = {
    opt_path("images", nullptr, "IDX file of u8 images, plain or gzip"),
    opt_path("labels", nullptr, "IDX file of u8 labels, plain or gzip"),
};

class Idx : public data::MemoryDataset {
 public:
  Idx(const Host&, const Options& o) : MemoryDataset("data.idx") {
    const support::SourceFile images{"data.idx", "images", std::string(o.text("images"))};
    const support::SourceFile labels{"data.idx", "labels", std::string(o.text("labels"))};
    add_field(images, "image", PLAIT_FIELD_INPUT, 2, PLAIT_MAX_NDIM);
    add_field(labels, "label", PLAIT_FIELD_TARGET, 1, 1);
  }

 private:
  void add_field(const support::SourceFile& source, const char* name, uint32_t role,
                 size_t min_ndim, size_t max_ndim) {
    data::idx::File file = support::in_memory(source, [&] { return data::idx::open(source); });
    const std::vector<int64_t>& dims = file.header.dims;
    if (dims.size() < min_ndim || dims.size() > max_ndim)
      source.bad(3, "ndim " + std::to_string(dims.size()) + ", expected " +
                        (max_ndim == 1 ? "1 for labels" : "at least 2 for images") +
                        "; are images and labels swapped?");
    const Shape sample({dims.begin() + 1, dims.end()}, PLAIT_U8);
    add(name, role, sample, dims[0], std::move(file.bytes), file.header.offset);
  }
};
}  // namespace

PLAIT_PLUGIN("data-idx", "0.1.0", "Apache-2.0", "IDX files, the format of MNIST") {
  static const auto idx = dataset<Idx>("idx", "images and labels in IDX files, plain or .gz", kIdx);
  host.add(idx);
}
