// data-npy: arrays saved by NumPy, samples along the first axis. Fields "input", "target" and
// "weight"; f8 becomes f32.
#include "plugins/data/memory_dataset.hpp"
#include "plugins/data/npy/npy_file.hpp"

namespace {
using namespace plait;

constexpr plait_option kNpy[] = {
    opt_path("input", nullptr, ".npy file of the inputs, (samples, …)"),
    opt_path("target", "\"\"", ".npy file of the targets, (samples, …); empty: none"),
    opt_path("weight", "\"\"",
             ".npy file of the samples' weights, (samples), real numbers; empty: all 1"),
};

class Npy : public data::MemoryDataset {
 public:
  Npy(const Host&, const Options& o) : MemoryDataset("data.npy") {
    add_file(o, "input", PLAIT_FIELD_INPUT);
    if (!o.text("target").empty()) add_file(o, "target", PLAIT_FIELD_TARGET);
    if (!o.text("weight").empty()) add_file(o, "weight", PLAIT_FIELD_WEIGHT);
  }

 private:
  void add_file(const Options& o, const char* name, uint32_t role) {
    const support::SourceFile source{"data.npy", name, std::string(o.text(name))};
    support::in_memory(source, [&] { add_file(source, name, role); });
  }

  void add_file(const support::SourceFile& source, const char* name, uint32_t role) {
    support::Bytes file = support::read_file(source);
    data::npy::Header header = data::npy::parse(source, file.span());
    if (header.dtype == PLAIT_F64) {
      data::narrow_f64(file, header.offset);
      header.dtype = PLAIT_F32;
    }
    const Shape sample({header.dims.begin() + 1, header.dims.end()}, header.dtype);
    if (role == PLAIT_FIELD_WEIGHT && (sample.ndim() != 0 || sample.dtype != PLAIT_F32))
      source.bad(0, "the weights are " + Shape(header.dims, header.dtype).typed_text() +
                        ", expected one f4 or f8 per sample: shape (samples)");
    add(name, role, sample, header.dims[0], std::move(file), header.offset);
    if (role == PLAIT_FIELD_WEIGHT) check_weights(source);
  }
};
}  // namespace

PLAIT_PLUGIN("data-npy", "0.1.0", "Apache-2.0", "NumPy arrays") {
  static const auto npy = dataset<Npy>("npy", "arrays saved with numpy.save", kNpy);
  host.add(npy);
}
