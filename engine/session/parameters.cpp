#include "engine/session/parameters.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/initialize.hpp"

namespace plait::session {

void Parameters::initialize() {
  std::vector<char> values;
  c_.executor.sync();
  const auto seed = static_cast<uint64_t>(c_.plan.experiment.run.seed);
  for (const plan::Parameter& p : c_.plan.parameters)
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        const auto fill = [&](int64_t at, int64_t count, void* out) {
          session::initialize(p, seed, global + at, count, held.dtype, out, c_.plan.threads);
        };
        if (c_.host_visible())
          return fill(0, n, c_.executor.address(plan::offset_by(held.at, first, held.dtype)));
        // In pieces that are copied at once.
        const auto piece =
            static_cast<int64_t>(runtime::Transfers::kPiece / program::dtype_bytes(held.dtype));
        for (int64_t at = 0; at < n; at += piece) {
          const int64_t count = std::min(piece, n - at);
          values.resize(program::bytes_of(count, held.dtype));
          fill(at, count, values.data());
          c_.executor.write(plan::offset_by(held.at, first + at, held.dtype), values.data(),
                            values.size());
        }
      });
  for (const plan::Parameter& p : c_.plan.parameters) {
    for (const plan::StateBlocks& s : plan::local_states(c_.plan, p)) {
      if (s.initial == 0) continue;  // the arena is zero
      // Padding stays zero: only the elements of parameters get the initial value.
      for (const plan::LocalBlock& held : s.blocks) {
        const int64_t n = topology::elements(held.box);
        values.resize(program::bytes_of(n, held.dtype));
        for (int64_t i = 0; i < n; ++i)
          program::store_element(held.dtype, values.data(), i, s.initial);
        c_.executor.write(held.at, values.data(), values.size());
        c_.executor.sync();
      }
    }
  }
  for (const auto& model : c_.plan.experiment.models)
    if (!model.load.empty()) load_weights(model);
}

// A checkpoint of any topology: each block is put together from the slices that overlap it.
void Parameters::load_weights_of(const checkpoint::Checkpoint& from,
                                 const config::ModelConfig& model) {
  for (const plan::Parameter& p : c_.plan.parameters) {
    if (p.model != model.name) continue;
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p)) {
      std::vector<char> bytes(program::bytes_of(topology::elements(held.box), held.dtype));
      from.read_block(p.name, held.dtype, program::dims_of(p.shape), held.box, bytes.data());
      c_.executor.write(held.at, bytes.data(), bytes.size());
      c_.executor.sync();
    }
  }
}

void Parameters::load_weights(const config::ModelConfig& model) {
  if (c_.files.is_folder(model.load))
    return load_weights_of(*checkpoint::open_checkpoint(c_.files, model.load, c_.log), model);
  const checkpoint::SafetensorsFile file(c_.files, model.load);
  for (const plan::Parameter& p : c_.plan.parameters) {
    if (p.model != model.name) continue;
    // Names with the model's name in front, as Plait writes them, or without.
    const checkpoint::TensorEntry* entry = file.header().find(p.name);
    if (!entry) entry = file.header().find(p.name.substr(model.name.size() + 1));
    if (!entry) {
      std::vector<std::string> names;
      for (const auto& t : file.header().tensors) names.push_back(t.name);
      fail_data("[session] '" + model.load + "' (" + model.path + ".load) has no tensor '" +
                p.name + "'" + did_you_mean(nearest(p.name, names)));
    }
    if (entry->dtype != p.shape.dtype || entry->shape != program::dims_of(p.shape)) {
      std::string found = entry->dtype_text + " (";
      for (size_t i = 0; i < entry->shape.size(); ++i)
        found += (i ? ", " : "") + std::to_string(entry->shape[i]);
      fail_data("[session] tensor '" + entry->name + "' of '" + model.load + "' is " + found +
                "), expected " + program::text(p.shape));
    }
    std::vector<char> piece(checkpoint::SafetensorsFile::kPiece);
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        const uint64_t bytes = program::bytes_of(n, held.dtype);
        const uint64_t skipped = program::bytes_of(global, held.dtype);
        const plan::BufferRef to = plan::offset_by(held.at, first, held.dtype);
        for (uint64_t at = 0; at < bytes; at += piece.size()) {
          const size_t size = std::min<uint64_t>(piece.size(), bytes - at);
          file.read(*entry, skipped + at, piece.data(), size);
          c_.executor.write({to.segment, to.offset + at}, piece.data(), size);
          c_.executor.sync();
        }
      });
  }
}

const plan::Parameter& Parameters::find(const std::string& name) const {
  if (const plan::Parameter* p = c_.plan.parameter(name)) return *p;
  std::vector<std::string> names;
  for (const auto& p : c_.plan.parameters) names.push_back(p.name);
  fail_not_found("[session] there is no parameter '" + name + "'" +
                 did_you_mean(nearest(name, names)) + "; there are: " + join(names));
}

namespace {
void check_bytes(const plan::Parameter& p, uint64_t bytes) {
  if (bytes != program::bytes(p.shape))
    fail_invalid(strf("[session] parameter '%s' is %s, %lu bytes; the call gives %lu",
                      p.name.c_str(), program::text(p.shape).c_str(),
                      static_cast<unsigned long>(program::bytes(p.shape)),
                      static_cast<unsigned long>(bytes)));
}
}  // namespace

void Parameters::read(const std::string& name, void* data, uint64_t bytes) {
  const plan::Parameter& p = find(name);
  check_bytes(p, bytes);
  steps_.drain();
  if (plan::is_fully_local(c_.plan, p)) return c_.executor.read(p.value, data, bytes);
  // Every rank contributes its part in a tensor of zeros, summed as integers, which preserves the
  // bits. The caller's memory is written last, so it is unchanged if a rank fails.
  c_.on_all_ranks("reading a parameter", [&] {
    std::vector<int32_t> whole((bytes + sizeof(int32_t) - 1) / sizeof(int32_t), 0);
    std::vector<char> own;
    const uint64_t size = program::dtype_bytes(p.shape.dtype);
    const bool counts = p.holders[0] == c_.plan.at.pipeline;  // one of the holders
    for (const plan::LocalBlock& held :
         counts ? plan::local_parameter_blocks(c_.plan, p) : std::vector<plan::LocalBlock>{}) {
      own.resize(program::bytes_of(topology::elements(held.box), held.dtype));
      c_.executor.read(held.at, own.data(), own.size());
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        std::memcpy(reinterpret_cast<char*>(whole.data()) + static_cast<uint64_t>(global) * size,
                    own.data() + static_cast<uint64_t>(first) * size,
                    static_cast<uint64_t>(n) * size);
      });
    }
    const std::span<int32_t> bits(whole);
    if (p.sharded) c_.ranks.communicators()->sum(topology::Axis::kTensor, bits);
    if (p.group >= 0 && c_.plan.zero == 3)
      c_.ranks.communicators()->sum(topology::Axis::kData, bits);
    if (c_.plan.grid.pipeline() > 1) c_.ranks.communicators()->sum(topology::Axis::kPipeline, bits);
    std::memcpy(data, whole.data(), bytes);
  });
}

void Parameters::write(const std::string& name, const void* data, uint64_t bytes) {
  const plan::Parameter& p = find(name);
  check_bytes(p, bytes);
  steps_.drain();
  c_.state.modified();
  for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
    plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
      c_.executor.write(plan::offset_by(held.at, first, held.dtype),
                        static_cast<const char*>(data) + program::bytes_of(global, held.dtype),
                        program::bytes_of(n, held.dtype));
      c_.executor.sync();
    });
}

}  // namespace plait::session
