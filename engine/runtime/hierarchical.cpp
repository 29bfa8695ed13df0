#include "engine/runtime/hierarchical.hpp"

#include <cstring>
#include <exception>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/runtime/collective_log.hpp"
#include "engine/runtime/hierarchical_group.hpp"

namespace plait::runtime {
namespace {

class HierarchicalCall : private kit::SerialWorker::Task {
 public:
  HierarchicalCall(HierarchicalGroup& group, const plait_comm_desc& desc)
      : group_(group),
        what_(described(group, desc)),
        message_(desc.kind == PLAIT_COMM_SEND || desc.kind == PLAIT_COMM_RECEIVE),
        steps_(group.subgroups(), desc) {}
  ~HierarchicalCall() override {
    if (!started_) return;
    group_.abort(text("was released before its end by " + own_name()));
    if (!message_) group_.worker().wait(*this);
  }

  void start() {
    group_.check();
    if (started_) fail(PLAIT_ERR_STATE, text("is started again before finish(); finish it first"));
    error_ = nullptr;
    if (message_)
      abort_on_error([&] { start(step()); });
    else
      group_.worker().push(*this);
    started_ = true;
  }

  void finish() {
    if (!started_) fail(PLAIT_ERR_STATE, text("is finished without start(); start it first"));
    started_ = false;
    if (message_)
      abort_on_error([&] { finish(step()); });
    else
      group_.worker().wait(*this);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(uint64_t) noexcept override {
    try {
      abort_on_error([&] {
        for (const HierarchicalStep& step : steps_.all()) {
          group_.check();
          if (!step.call) {
            std::memcpy(step.to, step.from, step.bytes);
            continue;
          }
          start(step);
          finish(step);
        }
      });
    } catch (const Error&) {
      error_ = std::current_exception();
    } catch (...) {
      error_ = std::current_exception();
      group_.abort("out of memory");  // nothing else is thrown here; short enough for no allocation
    }
  }

  // A failure in one subgroup ends all of them: other members wait there for this rank.
  template <class F>
  void abort_on_error(F f) {
    try {
      f();
    } catch (const Error& e) {
      group_.check();
      group_.abort(text("failed: " + e.text()));
      if (e.code() == PLAIT_ERR_PEER) group_.throw_failure();
      throw;
    }
  }
  static void start(const HierarchicalStep& s) {
    const PluginCall at{"", "start", "backend", s.item->name};
    if (plait_error* e = try_plugin(at, [&] { return s.item->start(s.call, nullptr); }))
      throw from_c(e);
  }
  static void finish(const HierarchicalStep& s) {
    const PluginCall at{"", "finish", "backend", s.item->name};
    if (plait_error* e = try_plugin(at, [&] { return s.item->finish(s.call, nullptr); }))
      throw from_c(e);
  }
  const HierarchicalStep& step() const { return steps_.all()[0]; }
  std::string text(const std::string& rest) const {
    return group_.head() + ": " + what_ + " " + rest;
  }
  const std::string& own_name() const { return group_.name(group_.subgroups().rank); }
  static std::string described(const HierarchicalGroup& group, const plait_comm_desc& desc);

  HierarchicalGroup& group_;
  const std::string what_;
  const bool message_;
  const HierarchicalSteps steps_;
  bool started_ = false;
  std::exception_ptr error_;  // of the last run
};

std::string HierarchicalCall::described(const HierarchicalGroup& group, const plait_comm_desc& d) {
  std::string text = text_of(d);
  const bool sends = d.kind == PLAIT_COMM_SEND;
  if (sends || d.kind == PLAIT_COMM_RECEIVE || d.kind == PLAIT_COMM_BROADCAST)
    text += (sends ? " to " : " from ") + group.name(d.peer);
  return text;
}

HierarchicalGroup& of(plait_comm* comm) { return *reinterpret_cast<HierarchicalGroup*>(comm); }
HierarchicalCall& of(plait_comm_call* call) { return *reinterpret_cast<HierarchicalCall*>(call); }

}  // namespace

plait_comm* open_hierarchical(const HierarchicalConfig& config, const plait_comm_setup& setup) {
  return reinterpret_cast<plait_comm*>(new HierarchicalGroup(config, setup));
}

const plait_comm_item& hierarchical_item() {
  static const plait_comm_item kItem = {
      .struct_size = sizeof(plait_comm_item),
      .name = "hierarchical",
      .help = "",
      .options = nullptr,
      .n_options = 0,
      .reach = PLAIT_COMM_REACH_NETWORK,
      .device = nullptr,
      .open = nullptr,
      .close = [](plait_comm* comm) { delete &of(comm); },
      .prepare =
          [](plait_comm* comm, const plait_comm_desc* desc, plait_comm_call** out) {
            return guard_c([&] {
              *out = reinterpret_cast<plait_comm_call*>(new HierarchicalCall(of(comm), *desc));
            });
          },
      .release = [](plait_comm_call* call) { delete &of(call); },
      .start = [](plait_comm_call* call,
                  plait_queue*) { return guard_c([&] { of(call).start(); }); },
      .finish = [](plait_comm_call* call,
                   plait_queue*) { return guard_c([&] { of(call).finish(); }); },
      .abort =
          [](plait_comm* comm, const char* text, uint64_t size) {
            try {
              of(comm).abort(std::string(text, size));
            } catch (const std::bad_alloc&) {
              of(comm).abort({});
            }
          },
      .memory = nullptr,
      .status = nullptr,
      .probe = nullptr,
      .shared_memory = nullptr};
  return kItem;
}

}  // namespace plait::runtime
