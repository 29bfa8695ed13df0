#include "engine/runtime/executor.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/c_error.hpp"
#include "engine/base/checked.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/program/elements.hpp"
#include "engine/program/op_def.hpp"

namespace plait::runtime {

Device::Device(std::shared_ptr<const plugin::Registry> registry, const std::string& name,
               const config::OptionSet& options)
    : registry_(std::move(registry)),
      item_(registry_->device(name)),
      plugin_(registry_->plugin_of(&item_)) {
  check_plugin(try_plugin({plugin_, "open", "device", name},
                          [&] { return item_.open(host(), &options, &handle_); }),
               plugin_, "opening device '" + name + "'");
  info_.struct_size = sizeof info_;
  try {
    check_plugin(
        try_plugin({plugin_, "info", "device", name}, [&] { return item_.info(handle_, &info_); }),
        plugin_, "info() of device '" + name + "'");
  } catch (...) {
    close();
    throw;
  }
}

Device::~Device() { close(); }

void Device::close() noexcept {
  call_plugin_noexcept(host(), {"", "close", "device", item_.name}, [&] { item_.close(handle_); });
}

Arena::Arena(std::shared_ptr<Device> device, uint64_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  const auto call = [&] { return device_->item().alloc(device_->handle(), bytes, &data_); };
  check_plugin(try_plugin({device_->plugin(), "alloc", "device", device_->item().name}, call),
               device_->plugin(), "allocating the arena of " + human_bytes(bytes));
}

Arena::~Arena() {
  call_plugin_noexcept(device_->host(), {"", "free", "device", device_->item().name},
                       [&] { device_->item().free(device_->handle(), data_); });
}

Executor::Executor(std::shared_ptr<const plan::Plan> plan, const Connect& connect)
    : plan_(std::move(plan)),
      device_(std::make_shared<Device>(plan_->registry, plan_->device, plan_->device_options)),
      communicators_(connect ? connect(*device_) : nullptr) {
  try {
    allocate();
    call("queue_open", [&] { return device_->item().queue_open(device_->handle(), &queue_); });
    programs_.resize(plan_->programs.size());
    for (size_t i = 0; i < programs_.size(); ++i) load(programs_[i], plan_->programs[i]);
  } catch (...) {
    release();
    throw;
  }
}

Executor::~Executor() { release(); }

// One arena: the segments, but for those in memory that ranks share, and behind them what programs use while they run.
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
  const plait_device_item& device = device_->item();
  const auto leave = [&](const char* function, auto&& f) {
    call_plugin_noexcept(device_->host(), {"", function, "device", device.name}, f);
  };
  for (LoadedProgram& p : programs_) {
    for (plait_graph* graph : p.graphs) leave("graph_close", [&] { device.graph_close(graph); });
    for (PreparedKernel& c : p.calls)
      if (c.kernel && c.item->release)
        call_plugin_noexcept(plan_->registry->host_of(c.item),
                             {"", "release", "kernel", c.item->name},
                             [&] { c.item->release(c.kernel); });
    p = {};
  }
  if (queue_) leave("queue_close", [&] { device.queue_close(queue_); });
  queue_ = nullptr;
}

// What an exchange said comes through the device, which is not to blame for it.
void Executor::check(plait_error* e, const std::string& call) const {
  if (e && Communicators::is_collective_error(*e)) throw from_c(e);
  check_plugin(e, device_->plugin(), call);
}

template <class F>
void Executor::call(const char* function, F&& f) const {
  if (plait_error* e = try_plugin({device_->plugin(), function, "device", device_->item().name}, f))
    check(e, function);
}

char* Executor::address(plan::BufferRef at, int32_t slot) const {
  if (at.segment == plan::kTransient) return transient_ + at.offset;
  const plan::Segment& s = plan_->storage.segments()[static_cast<size_t>(at.segment)];
  const uint64_t copy = s.slots > 1 ? static_cast<uint64_t>(slot) * s.bytes : 0;
  return segments_[static_cast<size_t>(at.segment)] + copy + at.offset;
}

void Executor::load(LoadedProgram& into, const plan::Program& program) {
  into.program = &program;
  if (program.empty()) return;
  into.calls.reserve(program.calls.size());  // no kernel may get lost on its way into the list
  for (const plan::KernelCall& call : program.calls) into.calls.push_back(prepare(program, call));
  for (size_t slot = 0; slot < static_cast<size_t>(program.slots); ++slot) {
    this->call("capture_begin", [&] { return device_->item().capture_begin(queue_); });
    for (const PreparedKernel& p : into.calls) enqueue(into, p, slot);
    plait_graph* graph = nullptr;
    this->call("capture_end", [&] { return device_->item().capture_end(queue_, &graph); });
    into.graphs.push_back(graph);
  }
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
  PreparedKernel p{
      call.kernel, nullptr, call.workspace_bytes ? transient_ + call.workspace : nullptr, {}};
  for (int32_t k = 0; k < program.slots; ++k) {
    SlotKernel& bound = p.slots.emplace_back();
    for (const plan::BufferRef& at : call.operands)
      bound.operands.push_back(address(at, program.first_slot + k));
    if (call.collective >= 0)
      bound.kernel = prepare_collective(call, op, program.first_slot + k, bound.operands);
  }
  if (call.collective >= 0) {
    const bool starts = op.def->collective == program::CollectiveOp::kStart;
    p.item = starts ? &Communicators::start_item() : &Communicators::wait_item();
    return p;
  }
  const program::OpDesc desc(*program.graph, op, plan_->threads);
  const std::string& plugin = plan_->registry->plugin_of(call.kernel);
  const auto prepare = [&] {
    return call.kernel->prepare(plan_->registry->host_of(call.kernel), device_->handle(),
                                desc.get(), &p.kernel);
  };
  check_plugin(try_plugin({plugin, "prepare", "kernel", call.kernel->name}, prepare), plugin,
               "preparing " + op.name + " of " + op.scope);
  for (SlotKernel& bound : p.slots) bound.kernel = p.kernel;
  return p;
}

void Executor::enqueue(const LoadedProgram& program, const PreparedKernel& call, size_t slot) {
  const SlotKernel& bound = call.slots[slot];
  const auto put = [&] {
    return device_->item().enqueue(queue_, call.item, bound.kernel, bound.operands.data(),
                                   static_cast<uint32_t>(bound.operands.size()), call.workspace);
  };
  if (plait_error* e =
          try_plugin({device_->plugin(), "enqueue", "device", device_->item().name}, put)) {
    const auto index = static_cast<size_t>(&call - program.calls.data());
    const auto& op =
        program.program->graph->ops()[static_cast<size_t>(program.program->calls[index].op)];
    check(e, "running " + op.name + " of " + op.scope);
  }
}

void Executor::launch(int32_t program, int32_t slot) {
  if (program < 0) return;
  const LoadedProgram& p = programs_[static_cast<size_t>(program)];
  if (p.graphs.empty()) return;
  plait_graph* const graph = p.graphs[static_cast<size_t>(slot - p.program->first_slot)];
  call("graph_launch", [&] { return device_->item().graph_launch(graph, queue_); });
}

void Executor::write(plan::BufferRef at, const void* data, uint64_t bytes, int32_t slot) {
  call("copy", [&] {
    return device_->item().copy(queue_, PLAIT_COPY_TO_DEVICE, address(at, slot), data, bytes);
  });
}

void Executor::read(plan::BufferRef at, void* data, uint64_t bytes) {
  call("copy",
       [&] { return device_->item().copy(queue_, PLAIT_COPY_TO_HOST, data, address(at), bytes); });
  sync();
}

void Executor::sync() {
  call("sync", [&] { return device_->item().sync(queue_); });
}

Executor::NonFiniteValue Executor::first_non_finite(int32_t program, int32_t slot) {
  NonFiniteValue first;
  if (program < 0) return first;
  const LoadedProgram& p = programs_[static_cast<size_t>(program)];
  for (size_t i = 0; i < p.calls.size(); ++i) {
    enqueue(p, p.calls[i], static_cast<size_t>(slot - p.program->first_slot));
    if (!first.text.empty()) continue;  // the other ranks go on, too
    const plan::KernelCall& call = p.program->calls[i];
    const program::Op& op = p.program->graph->ops()[static_cast<size_t>(call.op)];
    // What ranks exchange was not made here, or is still that of the run before.
    if (op.def->collective != program::CollectiveOp::kNone) continue;
    for (size_t k = 0; k < op.out.size() && first.text.empty(); ++k)
      if (!finite(call.operands[op.in.size() + k], p.program->graph->shape(op.out[k]), slot))
        first = {i, op.scope + " (op " + op.name + ", result " +
                        program::text(p.program->graph->shape(op.out[k])) + ")"};
  }
  return first;
}

bool Executor::finite(plan::BufferRef at, const plait_shape& shape, int32_t slot) {
  if (!program::is_float(shape.dtype)) return true;
  std::vector<char> values(program::bytes(shape));
  call("copy", [&] {
    return device_->item().copy(queue_, PLAIT_COPY_TO_HOST, values.data(), address(at, slot),
                                values.size());
  });
  sync();
  return program::all_finite(shape.dtype, values.data(), program::elements(shape));
}

}  // namespace plait::runtime
