#include "engine/runtime/executor.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/c_error.hpp"
#include "engine/base/checked.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/program/elements.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_desc.hpp"

namespace plait::runtime {

Executor::Executor(std::shared_ptr<const plan::Plan> plan, const Connect& connect,
                   const AllGather& all_gather)
    : plan_(std::move(plan)),
      device_(std::make_shared<Device>(plan_->registry, plan_->device, plan_->device_options)),
      communicators_(connect ? connect(*device_) : nullptr) {
  try {
    allocate();
    queue_ = std::make_unique<Queue>(device_);
    // A device may wait for a rank, whose loss is the better reason: that one comes first.
    const double waits = communicators_ ? communicators_->device_timeout() : 0;
    queue_->set_timeout(plan_->experiment.run.device_timeout + waits);
    if (waits > 0) queue_->watch([this] { communicators_->check(); });
    transfers_ = std::make_unique<Transfers>(*queue_);
    kernels_ = std::make_unique<KernelCache>(plan_->registry, device_);
    programs_.resize(plan_->programs.size());
    for (size_t i = 0; i < programs_.size(); ++i) load(programs_[i], plan_->programs[i]);
    if (plan_->experiment.precision.tune) {
      const AllGather alone = [](const std::string& text) { return std::vector{text}; };
      tune(kernels_->tunables(), device_->handle(), plan_->rank,
           plan_->grid.ranks() > 1 ? all_gather : alone);
    }
    plan_units();
    for (Unit& unit : units_) capture(unit);
  } catch (...) {
    release();
    throw;
  }
}

Executor::~Executor() { release(); }

// Allocates one arena: the segments, except those in memory shared by ranks, and behind them the
// transient memory of programs.
void Executor::allocate() {
  const auto add = [](uint64_t a, uint64_t b) {
    return checked_add(a, b, "[runtime] bytes of the arena");
  };
  const std::vector<plan::Segment>& segments = plan_->storage.segments();
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;  // in the arena
  for (const plan::Segment& s : segments) {
    offsets.push_back(bytes);
    const bool shares = communicators_ && s.reduced_along && s.all_bytes() > 0;
    segments_.push_back(shares ? communicators_->memory(*s.reduced_along, s.all_bytes()) : nullptr);
    uint64_t& sum = segments_.back() ? shared_bytes_ : bytes;
    sum = add(sum, s.all_bytes());
  }
  arena_ = std::make_shared<Arena>(device_, add(bytes, plan_->transient_bytes));
  for (size_t i = 0; i < segments.size(); ++i)
    if (!segments_[i]) segments_[i] = arena_->data() + offsets[i];
  transient_ = arena_->data() + bytes;
}

void Executor::release() noexcept {
  settle();
  programs_.clear();
  kernels_.reset();
  transfers_.reset();
  queue_.reset();
}

char* Executor::address(plan::BufferRef at, int32_t slot) const {
  if (at.segment == plan::kTransient) return transient_ + at.offset;
  const plan::Segment& s = plan_->storage.segments()[static_cast<size_t>(at.segment)];
  const uint64_t copy = s.slots > 1 ? static_cast<uint64_t>(slot) * s.bytes : 0;
  return segments_[static_cast<size_t>(at.segment)] + copy + at.offset;
}

void Executor::load(LoadedProgram& into, const plan::Program& program) {
  into.program = &program;
  into.units.assign(static_cast<size_t>(program.slots), -1);
  into.calls.reserve(program.calls.size());
  for (const plan::KernelCall& call : program.calls) into.calls.push_back(prepare(program, call));
}

plait_kernel* Executor::prepare_collective(const plan::KernelCall& call, const program::Op& op,
                                           int32_t slot, const std::vector<void*>& operands) {
  if (!communicators_)
    fail_internal("[runtime] a plan of " + std::to_string(plan_->grid.ranks()) +
                  " ranks without communicators");
  if (op.def->collective == program::CollectiveOp::kStart)
    return communicators_->prepare(call.collective, slot, operands.front(), operands.back());
  return communicators_->prepared(call.collective,
                                  static_cast<int32_t>(op.attrs.integer("slot", slot)));
}

Executor::PreparedKernel Executor::prepare(const plan::Program& program,
                                           const plan::KernelCall& call) {
  const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
  PreparedKernel p{call.kernel,
                   call.collective >= 0,
                   op.def->collective == program::CollectiveOp::kStart,
                   call.workspace_bytes ? transient_ + call.workspace : nullptr,
                   {}};
  for (int32_t k = 0; k < program.slots; ++k) {
    SlotKernel& bound = p.slots.emplace_back();
    for (const plan::BufferRef& at : call.operands)
      bound.operands.push_back(address(at, program.first_slot + k));
    if (p.collective)
      bound.kernel = prepare_collective(call, op, program.first_slot + k, bound.operands);
  }
  if (p.collective) {
    p.item = p.starts ? &Communicators::start_item() : &Communicators::wait_item();
    return p;
  }
  const program::OpDesc desc(*program.graph, op, plan_->threads);
  plait_kernel* const kernel =
      kernels_->get(*call.kernel, *desc.get(), op.name + " of " + op.scope);
  for (SlotKernel& bound : p.slots) bound.kernel = kernel;
  return p;
}

void Executor::write(plan::BufferRef at, const void* data, uint64_t bytes, int32_t slot) {
  transfers_->write(address(at, slot), data, bytes);
}

void Executor::read(plan::BufferRef at, void* data, uint64_t bytes) {
  read_device(address(at), data, bytes);
}

void Executor::read_device(const void* at, void* data, uint64_t bytes) {
  transfers_->read(data, at, bytes);
}

Executor::NonFiniteValue Executor::first_non_finite(int32_t program, int32_t slot) {
  NonFiniteValue first;
  if (program < 0) return first;
  const LoadedProgram& p = programs_[static_cast<size_t>(program)];
  for (size_t i = 0; i < p.calls.size(); ++i) {
    run_eagerly({&p, &p.calls[i], static_cast<size_t>(slot - p.program->first_slot)});
    if (!first.text.empty()) continue;  // the other ranks run the rest, too
    const plan::KernelCall& call = p.program->calls[i];
    const program::Op& op = p.program->graph->ops()[static_cast<size_t>(call.op)];
    // The result of a collective comes from other ranks, or is still that of the previous run.
    if (op.def->collective != program::CollectiveOp::kNone) continue;
    for (size_t k = 0; k < op.out.size() && first.text.empty(); ++k)
      if (!finite(call.operands[op.in.size() + k], p.program->graph->shape(op.out[k]), slot))
        first = {i, op.scope + " (op " + op.name + program::owner_of(*op.def) + ", result " +
                        program::text(p.program->graph->shape(op.out[k])) + ")"};
  }
  return first;
}

bool Executor::finite(plan::BufferRef at, const plait_shape& shape, int32_t slot) {
  if (!program::is_float(shape.dtype)) return true;
  const auto size = static_cast<int64_t>(program::dtype_bytes(shape.dtype));
  bool all = true;
  transfers_->each_piece(
      address(at, slot), program::bytes(shape), [&](const char* piece, uint64_t bytes) {
        all = program::all_finite(shape.dtype, piece, static_cast<int64_t>(bytes) / size);
        return all;
      });
  return all;
}

}  // namespace plait::runtime
