#include "engine/session/parameters.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/probe_weights.hpp"
#include "engine/checkpoint/weights_hash.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/block_access.hpp"
#include "engine/session/compatibility.hpp"
#include "engine/session/initialize.hpp"
#include "engine/session/weight_fit.hpp"

namespace plait::session {

void Parameters::draw(const plan::Parameter& p) {
  std::vector<char> values;
  const auto seed = static_cast<uint64_t>(c_.plan.experiment.run.seed);
  for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
    plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
      const auto fill = [&](int64_t at, int64_t count, void* out) {
        session::initialize(p, seed, global + at, count, held.dtype, out, c_.plan.threads);
      };
      if (c_.host_visible() && held.is_plain())
        return fill(0, n, c_.executor.address(plan::offset_by(held.at, first, held.dtype)));
      // In pieces that are copied at once.
      const int64_t piece = piece_elements(
          held,
          static_cast<int64_t>(runtime::Transfers::kPiece / program::dtype_bytes(held.dtype)));
      for (int64_t at = 0; at < n; at += piece) {
        const int64_t count = std::min(piece, n - at);
        values.resize(program::bytes_of(count, held.dtype));
        fill(at, count, values.data());
        write_block(c_.executor, held, first + at, count, values.data());
      }
    });
}

void Parameters::initialize_states(const plan::Parameter& p, bool zero) {
  std::vector<char> values;
  for (const plan::StateBlocks& s : plan::local_states(c_.plan, p)) {
    if (zero && s.initial == 0) continue;
    // Padding stays zero: only the elements of parameters get the initial value.
    for (const plan::LocalBlock& held : s.blocks) {
      const int64_t n = topology::elements(held.box);
      values.resize(program::bytes_of(n, held.dtype));
      for (int64_t i = 0; i < n; ++i)
        program::store_element(held.dtype, values.data(), i, s.initial);
      write_block(c_.executor, held, 0, n, values.data());
      c_.executor.sync();
    }
  }
}

void Parameters::reset_states(const plan::Parameter& p) { initialize_states(p, false); }

void Parameters::initialize() {
  c_.parameters_changed();
  c_.executor.sync();
  for (const plan::Parameter& p : c_.plan.parameters) draw(p);
  for (const plan::Parameter& p : c_.plan.parameters) initialize_states(p, true);  // of the arena
  for (const auto& model : c_.plan.experiment.models) {
    if (!model.load.empty()) load_weights({model, nullptr, model.path + ".load", model.load});
    for (const auto& adapter : model.adapters)
      if (!adapter.load.empty())
        load_weights({model, &adapter, adapter.path + ".load", adapter.load});
  }
}

// A checkpoint of any topology: each block is put together from the slices that overlap it.
void Parameters::load_checkpoint(const WeightSource& source) {
  // Rank 0 decides which one: a run may be writing others.
  std::unique_ptr<checkpoint::Checkpoint> from;
  if (c_.ranks.is_leader()) from = checkpoint::open_checkpoint(c_.files, source.path, c_.log);
  const std::string path = c_.ranks.broadcast(from ? from->path() : "");
  if (!from)
    from = std::make_unique<checkpoint::Checkpoint>(c_.files, path,
                                                    checkpoint::Checkpoint::Verify::kLater);
  if (c_.ranks.is_leader() && !source.adapter && bases_.names(source.model))
    bases_.read(source.model, from->path(),
                checkpoint::hash_of_checkpoint(*from, source.model.load_names));
  std::vector<std::string> names;
  for (const checkpoint::TensorRecord& t : from->tensors())
    if (checkpoint::is_parameter(t)) names.push_back(t.name);
  Conversions conversions;
  for (const auto& [p, name] :
       tensors_of(source, c_.plan, names, from->state().bases, log_, initial_)) {
    if (!p->adapter.empty()) loaded_.emplace(p->model, p->adapter);
    conversions.add(from->find(name)->dtype, p->shape.dtype);
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, *p)) {
      std::vector<char> bytes(program::bytes_of(topology::elements(held.box), held.dtype));
      from->read_block(name, held.dtype, program::dims_of(p->shape), held.box, bytes.data());
      write_block(c_.executor, held, 0, topology::elements(held.box), bytes.data());
      c_.executor.sync();
    }
  }
  if (log_) conversions.log(*log_, from->path());
}

void Parameters::load_weights(const WeightSource& from) {
  checkpoint::require_weights(c_.files, from.key, from.path);
  if (checkpoint::names_checkpoint(c_.files, from.path)) return load_checkpoint(from);
  const checkpoint::Weights weights(c_.files, from.path);
  // Before the first byte is used, of the files that are open: one that takes the place of such a
  // file later is another one.
  if (c_.ranks.is_leader() && !from.adapter && bases_.names(from.model))
    bases_.read(from.model, c_.files.real_path(from.path),
                checkpoint::hash_of_files(weights, from.model.load_names));
  Conversions conversions;
  WeightSource given = from;
  given.beside = from.adapter && weights.is_mapped();
  for (const auto& [p, name] : tensors_of(given, c_.plan, weights.names(), {}, log_, initial_)) {
    if (!p->adapter.empty()) loaded_.emplace(p->model, p->adapter);
    if (given.beside && p->adapter.empty()) {
      const auto [at, is_first] = beside_.emplace(p->name, from.path);
      if (!is_first && at->second != from.path)
        fail_config("[session] '" + printable(p->name) + "' was trained beside the adapter of '" +
                    at->second + "' and beside the one of '" + from.path + "' (" + from.key +
                    "), and a model has it once; load one of both");
    }
    const checkpoint::Weights::Place place = weights.find(name);
    load_tensor(*p, place, from);
    conversions.add(place.entry->dtype, p->shape.dtype);
  }
  if (log_) conversions.log(*log_, from.path);
}

void Parameters::tell_initial() {
  if (log_)
    for (const std::string& line : initial_) log_->info(line);
  initial_.clear();
}

void Parameters::load_tensor(const plan::Parameter& p, const checkpoint::Weights::Place& from,
                             const WeightSource& source) {
  check_fit(p, from, source);
  c_.executor.sync();
  std::vector<std::byte> piece;
  for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p)) {
    const int64_t all = topology::elements(held.box);
    if (all == 0) continue;
    if (c_.host_visible() && held.is_plain()) {
      checkpoint::Weights::read(from, held.box, held.dtype,
                                reinterpret_cast<std::byte*>(c_.executor.address(held.at)));
      continue;
    }
    // Rows of the block, as many as a transfer takes at once.
    const int64_t rows = held.box.extent.empty() ? 1 : held.box.extent[0], width = all / rows;
    const auto most = std::max<int64_t>(
        1, static_cast<int64_t>(runtime::Transfers::kPiece / program::bytes_of(width, held.dtype)));
    for (int64_t row = 0; row < rows; row += most) {
      topology::Box part = held.box;
      const int64_t n = std::min(most, rows - row);
      if (!part.extent.empty()) {
        part.offset[0] += row;
        part.extent[0] = n;
      }
      piece.resize(program::bytes_of(n * width, held.dtype));
      checkpoint::Weights::read(from, part, held.dtype, piece.data());
      write_block(c_.executor, held, row * width, n * width, piece.data());
      c_.executor.sync();
    }
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
  if (plan::is_fully_local(c_.plan, p))
    return c_.abort_on_error("reading a parameter", [&] {
      for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
        read_block(c_.executor, held, 0, topology::elements(held.box), data);
    });
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
      read_block(c_.executor, held, 0, topology::elements(held.box), own.data());
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        std::memcpy(reinterpret_cast<char*>(whole.data()) + static_cast<uint64_t>(global) * size,
                    own.data() + static_cast<uint64_t>(first) * size,
                    static_cast<uint64_t>(n) * size);
      });
    }
    const std::span<int32_t> bits(whole);
    if (p.sharded) c_.ranks.communicators()->sum(topology::Axis::kTensor, bits);
    if (plan::is_divided(c_.plan, p)) c_.ranks.communicators()->sum(topology::Axis::kData, bits);
    if (c_.plan.grid.pipeline() > 1) c_.ranks.communicators()->sum(topology::Axis::kPipeline, bits);
    std::memcpy(data, whole.data(), bytes);
  });
}

void Parameters::write(const std::string& name, const void* data, uint64_t bytes) {
  const plan::Parameter& p = find(name);
  check_bytes(p, bytes);
  steps_.drain();
  c_.abort_on_error("writing a parameter", [&] { bases_.remember(c_.executor, p); });
  c_.state.modified();
  c_.parameters_changed();
  bases_.written(p);
  c_.abort_on_error("writing a parameter", [&] {
    for (const plan::LocalBlock& held : plan::local_parameter_blocks(c_.plan, p))
      plan::for_each_run(p.shape, held.box, [&](int64_t global, int64_t first, int64_t n) {
        write_block(c_.executor, held, first, n,
                    static_cast<const char*>(data) + program::bytes_of(global, held.dtype));
        c_.executor.sync();
      });
  });
}

}  // namespace plait::session
