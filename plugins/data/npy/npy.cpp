// data-npy: arrays saved by NumPy, samples along the first axis. Fields "input", "target" and
// "weight"; f8 becomes f32.
#include "plugins/data/column_dataset.hpp"
#include "plugins/data/npy/npy_file.hpp"

namespace {
using namespace plait;

constexpr plait_option kNpy[] = {
    opt_path("input", nullptr, ".npy file of the inputs, (samples, …)"),
    opt_path("target", "\"\"", ".npy file of the targets, (samples, …); empty: none"),
    opt_path("weight", "\"\"",
             ".npy file of the samples' weights, (samples), real numbers; empty: all 1"),
    data::kMemoryMib,
};

class Npy : public data::ColumnDataset {
 public:
  Npy(const Host&, const Options& o) : ColumnDataset("data.npy") {
    open(o, "input", PLAIT_FIELD_INPUT);
    if (!o.text("target").empty()) open(o, "target", PLAIT_FIELD_TARGET);
    if (!o.text("weight").empty()) open(o, "weight", PLAIT_FIELD_WEIGHT);
  }

 private:
  void open(const Options& o, const char* name, uint32_t role) {
    const support::SourceFile source{"data.npy", name, std::string(o.text(name))};
    const auto file = std::make_shared<const support::SteadyFile>(source, "");
    const uint64_t size = file->size();
    const bool whole = role == PLAIT_FIELD_WEIGHT || data::fits_memory(o, size);
    support::in_memory(
        source,
        [&] {
          support::Bytes bytes(whole ? size : std::min<uint64_t>(size, data::npy::kMaxHead));
          file->read(0, bytes.data(), bytes.size());
          data::npy::Header header = data::npy::parse(source, bytes.span(), size);
          const bool is_f64 = header.dtype == PLAIT_F64;
          if (is_f64) header.dtype = PLAIT_F32;
          const Shape sample({header.dims.begin() + 1, header.dims.end()}, header.dtype);
          if (!whole)
            return add_file(name, role, sample, header.dims[0], file, header.offset, is_f64);
          if (is_f64) data::narrow_f64(bytes, header.offset);
          if (role == PLAIT_FIELD_WEIGHT && (sample.ndim() != 0 || sample.dtype != PLAIT_F32))
            source.bad(0, "the weights are " + Shape(header.dims, header.dtype).typed_text() +
                              ", expected one f4 or f8 per sample: shape (samples)");
          add(name, role, sample, header.dims[0], std::move(bytes), header.offset);
          if (role == PLAIT_FIELD_WEIGHT) check_weights(source);
        },
        data::kLessMemory);
  }
};
}  // namespace

PLAIT_PLUGIN("data-npy", "0.1.0", "Apache-2.0", "NumPy arrays") {
  static const auto npy = dataset<Npy>("npy", "arrays saved with numpy.save", kNpy);
  host.add(npy);
}
