#include "engine/runtime/executor.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/c_error.hpp"
#include "engine/base/checked.hpp"
#include "engine/program/rule.hpp"

namespace plait::runtime {

Device::Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
               const config::OptionSet& options)
    : registry_(std::move(registry)),
      item_(registry_->device(name)),
      plugin_(registry_->plugin_of(&item_)) {
  check_plugin(item_.open(registry_->host_of(&item_), &options, &handle_), plugin_,
               "opening device '" + name + "'");
  info_.struct_size = sizeof info_;
  try {
    check_plugin(item_.info(handle_, &info_), plugin_, "info() of device '" + name + "'");
  } catch (...) {
    item_.close(handle_);
    throw;
  }
}

Device::~Device() { item_.close(handle_); }

Arena::Arena(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  check_plugin(device_->item().alloc(device_->handle(), bytes, &data_), device_->plugin(),
               "allocating the arena of " + human_bytes(bytes));
}

Arena::~Arena() { device_->item().free(device_->handle(), data_); }

namespace {

uint64_t arena_bytes(const plan::Plan& plan) {
  uint64_t bytes = plan.transient_bytes;
  for (const auto& s : plan.storage.segments())
    bytes = checked_add(bytes, s.all_bytes(), "[runtime] bytes of the arena");
  return bytes;
}

}  // namespace

Executor::Executor(std::shared_ptr<const plan::Plan> plan, const Connect& connect)
    : plan_(std::move(plan)),
      device_(std::make_shared<Device>(plan_->registry, plan_->device, plan_->device_options)),
      arena_(std::make_shared<Arena>(device_, arena_bytes(*plan_))),
      communicators_(connect ? connect(*device_) : nullptr) {
  transient_ = arena_->data() + (arena_->bytes() - plan_->transient_bytes);
  try {
    check(device_->item().queue_open(device_->handle(), &queue_), "queue_open");
    programs_.resize(plan_->programs.size());
    for (size_t i = 0; i < programs_.size(); ++i) load(programs_[i], plan_->programs[i]);
  } catch (...) {
    release();
    throw;
  }
}

Executor::~Executor() { release(); }

void Executor::release() noexcept {
  for (Loaded& p : programs_) {
    for (plait_graph* graph : p.graphs) device_->item().graph_close(graph);
    for (Prepared& c : p.calls)
      if (c.kernel && c.item->release) c.item->release(c.kernel);
    p = {};
  }
  if (queue_) device_->item().queue_close(queue_);
  queue_ = nullptr;
}

void Executor::check(plait_error* e, const char* call) const {
  check_plugin(e, device_->plugin(), call);
}

char* Executor::address(plan::Place at, int32_t slot) const {
  if (at.segment == plan::kTransient) return transient_ + at.offset;
  const plan::Segment& s = plan_->storage.segments()[static_cast<size_t>(at.segment)];
  const uint64_t copy = s.slots > 1 ? static_cast<uint64_t>(slot) * s.bytes : 0;
  return arena_->data() + s.offset + copy + at.offset;
}

void Executor::load(Loaded& into, const plan::Program& program) {
  into.program = &program;
  if (program.empty()) return;
  into.calls.reserve(program.calls.size());  // no kernel may get lost on its way into the list
  for (const plan::Call& call : program.calls) into.calls.push_back(prepare(program, call));
  for (size_t slot = 0; slot < static_cast<size_t>(program.slots); ++slot) {
    check(device_->item().capture_begin(queue_), "capture_begin");
    for (const Prepared& p : into.calls) enqueue(into, p, slot);
    plait_graph* graph = nullptr;
    check(device_->item().capture_end(queue_, &graph), "capture_end");
    into.graphs.push_back(graph);
  }
}

plait_kernel* Executor::prepare_exchange(const plan::Call& call, const program::Op& op,
                                         int32_t slot, const std::vector<void*>& operands) {
  if (!communicators_)
    fail_internal("[runtime] a plan of " + std::to_string(plan_->grid.ranks()) +
                  " ranks without communicators");
  if (op.rule->exchange == program::Exchange::kStart)
    return communicators_->prepare(call.exchange, slot, operands.front(), operands.back());
  return communicators_->prepared(call.exchange,
                                  static_cast<int32_t>(op.attrs.integer("slot", slot)));
}

Executor::Prepared Executor::prepare(const plan::Program& program, const plan::Call& call) {
  const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
  Prepared p{
      call.kernel, nullptr, call.workspace_bytes ? transient_ + call.workspace : nullptr, {}};
  for (int32_t k = 0; k < program.slots; ++k) {
    Bound& bound = p.slots.emplace_back();
    for (const plan::Place& at : call.operands)
      bound.operands.push_back(address(at, program.first_slot + k));
    if (call.exchange >= 0)
      bound.kernel = prepare_exchange(call, op, program.first_slot + k, bound.operands);
  }
  if (call.exchange >= 0) {
    const bool starts = op.rule->exchange == program::Exchange::kStart;
    p.item = starts ? &Communicators::start_item() : &Communicators::wait_item();
    return p;
  }
  const program::Desc desc(*program.graph, op, plan_->threads);
  if (plait_error* e = call.kernel->prepare(plan_->registry->host_of(call.kernel),
                                            device_->handle(), desc.get(), &p.kernel))
    check_plugin(e, plan_->registry->plugin_of(call.kernel),
                 "preparing " + op.name + " of " + op.scope);
  for (Bound& bound : p.slots) bound.kernel = p.kernel;
  return p;
}

void Executor::enqueue(const Loaded& program, const Prepared& call, size_t slot) {
  const Bound& bound = call.slots[slot];
  if (plait_error* e =
          device_->item().enqueue(queue_, call.item, bound.kernel, bound.operands.data(),
                                  static_cast<uint32_t>(bound.operands.size()), call.workspace)) {
    const auto index = static_cast<size_t>(&call - program.calls.data());
    const auto& op =
        program.program->graph->ops()[static_cast<size_t>(program.program->calls[index].op)];
    check_plugin(e, device_->plugin(), "running " + op.name + " of " + op.scope);
  }
}

void Executor::launch(int32_t program, int32_t slot) {
  if (program < 0) return;
  const Loaded& p = programs_[static_cast<size_t>(program)];
  if (p.graphs.empty()) return;
  check(device_->item().graph_launch(p.graphs[static_cast<size_t>(slot - p.program->first_slot)],
                                     queue_),
        "graph_launch");
}

void Executor::write(plan::Place at, const void* data, uint64_t bytes, int32_t slot) {
  check(device_->item().copy(queue_, PLAIT_COPY_TO_DEVICE, address(at, slot), data, bytes), "copy");
}

void Executor::read(plan::Place at, void* data, uint64_t bytes) {
  check(device_->item().copy(queue_, PLAIT_COPY_TO_HOST, data, address(at), bytes), "copy");
  sync();
}

void Executor::sync() { check(device_->item().sync(queue_), "sync"); }

Executor::Finding Executor::first_non_finite(int32_t program, int32_t slot) {
  Finding first;
  if (program < 0) return first;
  const Loaded& p = programs_[static_cast<size_t>(program)];
  for (size_t i = 0; i < p.calls.size(); ++i) {
    enqueue(p, p.calls[i], static_cast<size_t>(slot - p.program->first_slot));
    if (!first.text.empty()) continue;  // the other ranks go on, too
    const plan::Call& call = p.program->calls[i];
    const program::Op& op = p.program->graph->ops()[static_cast<size_t>(call.op)];
    // What ranks exchange was not made here, or is still that of the run before.
    if (op.rule->exchange != program::Exchange::kNone) continue;
    for (size_t k = 0; k < op.out.size() && first.text.empty(); ++k)
      if (!finite(call.operands[op.in.size() + k], p.program->graph->shape(op.out[k]), slot))
        first = {i, op.scope + " (op " + op.name + ", result " +
                        program::text(p.program->graph->shape(op.out[k])) + ")"};
  }
  return first;
}

bool Executor::finite(plan::Place at, const plait_shape& shape, int32_t slot) {
  if (shape.dtype != PLAIT_F32) return true;
  std::vector<float> values(static_cast<size_t>(program::elements(shape)));
  check(device_->item().copy(queue_, PLAIT_COPY_TO_HOST, values.data(), address(at, slot),
                             values.size() * sizeof(float)),
        "copy");
  sync();
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace plait::runtime
