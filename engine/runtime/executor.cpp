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
    bytes = checked_add(bytes, s.bytes, "[runtime] bytes of the arena");
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
    const auto load_as = [&](Step step, const plan::Program& program) {
      load(programs_[static_cast<size_t>(step)], program);
    };
    load_as(Step::kBegin, plan_->begin);
    load_as(Step::kMicro, plan_->micro);
    load_as(Step::kLast, plan_->last);
    load_as(Step::kUpdate, plan_->update);
    load_as(Step::kEvaluate, plan_->evaluate);
    load_as(Step::kTotal, plan_->total);
  } catch (...) {
    release();
    throw;
  }
}

Executor::~Executor() { release(); }

void Executor::release() noexcept {
  for (Loaded& p : programs_) {
    if (p.graph) device_->item().graph_close(p.graph);
    for (Prepared& c : p.calls)
      if (c.item->release) c.item->release(c.kernel);
    p = {};
  }
  if (queue_) device_->item().queue_close(queue_);
  queue_ = nullptr;
}

void Executor::check(plait_error* e, const char* call) const {
  check_plugin(e, device_->plugin(), call);
}

char* Executor::address(plan::Place at) const {
  if (at.segment == plan::kTransient) return transient_ + at.offset;
  return arena_->data() + plan_->storage.segments()[static_cast<size_t>(at.segment)].offset +
         at.offset;
}

void Executor::load(Loaded& into, const plan::Program& program) {
  into.program = &program;
  if (program.empty()) return;
  into.calls.reserve(program.calls.size());  // no kernel may get lost on its way into the list
  for (const plan::Call& call : program.calls) into.calls.push_back(prepare(program, call));
  check(device_->item().capture_begin(queue_), "capture_begin");
  for (const Prepared& p : into.calls) enqueue(into, p);
  check(device_->item().capture_end(queue_, &into.graph), "capture_end");
}

Executor::Prepared Executor::prepare(const plan::Program& program, const plan::Call& call) {
  const program::Op& op = program.graph->ops()[static_cast<size_t>(call.op)];
  Prepared p{
      call.kernel, nullptr, {}, call.workspace_bytes ? transient_ + call.workspace : nullptr};
  for (const plan::Place& at : call.operands) p.operands.push_back(address(at));
  if (call.exchange >= 0) {
    if (!communicators_)
      fail_internal("[runtime] a plan of " + std::to_string(plan_->grid.ranks()) +
                    " ranks without communicators");
    const bool starts = op.rule->exchange == program::Exchange::kStart;
    p.item = starts ? &Communicators::start_item() : &Communicators::wait_item();
    p.kernel = starts
                   ? communicators_->prepare(call.exchange, p.operands.front(), p.operands.back())
                   : communicators_->prepared(call.exchange);
    return p;
  }
  const program::Desc desc(*program.graph, op, plan_->threads);
  if (plait_error* e = call.kernel->prepare(plan_->registry->host_of(call.kernel),
                                            device_->handle(), desc.get(), &p.kernel))
    check_plugin(e, plan_->registry->plugin_of(call.kernel),
                 "preparing " + op.name + " of " + op.scope);
  return p;
}

void Executor::enqueue(const Loaded& program, const Prepared& call) {
  if (plait_error* e =
          device_->item().enqueue(queue_, call.item, call.kernel, call.operands.data(),
                                  static_cast<uint32_t>(call.operands.size()), call.workspace)) {
    const auto index = static_cast<size_t>(&call - program.calls.data());
    const auto& op =
        program.program->graph->ops()[static_cast<size_t>(program.program->calls[index].op)];
    check_plugin(e, device_->plugin(), "running " + op.name + " of " + op.scope);
  }
}

void Executor::launch(Step step) {
  const Loaded& p = programs_[static_cast<size_t>(step)];
  if (p.graph) check(device_->item().graph_launch(p.graph, queue_), "graph_launch");
}

void Executor::write(plan::Place at, const void* data, uint64_t bytes) {
  check(device_->item().copy(queue_, PLAIT_COPY_TO_DEVICE, address(at), data, bytes), "copy");
}

void Executor::read(plan::Place at, void* data, uint64_t bytes) {
  check(device_->item().copy(queue_, PLAIT_COPY_TO_HOST, data, address(at), bytes), "copy");
  sync();
}

void Executor::sync() { check(device_->item().sync(queue_), "sync"); }

Executor::Finding Executor::first_non_finite(Step step) {
  const Loaded& p = programs_[static_cast<size_t>(step)];
  Finding first;
  for (size_t i = 0; i < p.calls.size(); ++i) {
    enqueue(p, p.calls[i]);
    if (!first.text.empty()) continue;  // the other ranks go on, too
    const plan::Call& call = p.program->calls[i];
    const program::Op& op = p.program->graph->ops()[static_cast<size_t>(call.op)];
    // What has only been started means nothing yet.
    if (op.rule->exchange == program::Exchange::kStart) continue;
    for (size_t k = 0; k < op.out.size() && first.text.empty(); ++k)
      if (!finite(call.operands[op.in.size() + k], p.program->graph->shape(op.out[k])))
        first = {i, op.scope + " (op " + op.name + ", result " +
                        program::text(p.program->graph->shape(op.out[k])) + ")"};
  }
  return first;
}

bool Executor::finite(plan::Place at, const plait_shape& shape) {
  if (shape.dtype != PLAIT_F32) return true;
  std::vector<float> values(static_cast<size_t>(program::elements(shape)));
  read(at, values.data(), values.size() * sizeof(float));
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace plait::runtime
