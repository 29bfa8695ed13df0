#include "engine/runtime/communicators.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "engine/base/c_error.hpp"
#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/program/shape.hpp"
#include "engine/runtime/backend_selection.hpp"
#include "engine/runtime/hierarchical.hpp"
#include "engine/runtime/staged.hpp"

namespace plait::runtime {

namespace {
// The same on all members of a group.
bool defer_start(const plan::Plan& plan, const plait_comm_item& item, const plan::Collective& e) {
  return defers(item) && plan::may_be_deferred(plan.grid, e);
}
}  // namespace

// One group of this rank.
struct Communicators::CommGroup {
  topology::Axis axis;
  uint32_t channel = 0;
  bool beside_host = false;  // for small values of the host, beside a group on device memory
  std::string prefix;        // of its keys in the store: "data.0."
  const plait_comm_item* item = nullptr;
  std::string backend, plugin;       // their names in messages
  const plait_host* host = nullptr;  // for the log; null for a hierarchical group
  plait_comm* comm = nullptr;
  std::atomic<Control*> control{nullptr};  // null once the group is abandoned
  Control& live_control() const {
    if (Control* c = control.load(std::memory_order_acquire)) return *c;
    fail(PLAIT_ERR_PEER, "[runtime] the job of group '" + prefix + "' is over");
  }
  double connect_timeout = 0;
  plait_store store{};
  CollectiveLog calls;                       // the calls that all members start in the same order
  std::map<size_t, CallDescription> sums{};  // the calls of sum(), by size

  std::string name(const topology::ProcessGroup& members) const {
    return members.name() + (channel > 0 ? ".back" : "") + (beside_host ? ".host" : "");
  }
};

// One prepared collective; a kernel as devices see it.
struct Communicators::PreparedCall {
  const plait_comm_item* item = nullptr;
  const plait_host* host = nullptr;  // as the group's
  plait_comm_call* call = nullptr;
  const std::string* name = nullptr;  // of the plan's collective
  std::string_view plugin = {};       // name of the group's plugin in messages
  const void* in = nullptr;
  void* out = nullptr;
  CollectiveLog* log = nullptr;  // nullptr for sends and receives
  std::optional<CallDescription> description;
  uint32_t kind = 0;      // PLAIT_COMM_*
  bool deferred = false;  // starts when its result is needed
  std::atomic<uint64_t>* waited_ns = nullptr;
  mutable bool start_pending = false, in_flight = false;

  plait_error* start(plait_queue* queue) const {
    start_pending = deferred;
    return deferred ? nullptr : begin(queue);
  }
  plait_error* begin(plait_queue* queue) const {
    if (log) log->add(*description);
    plait_error* error = try_plugin({plugin, "start", "backend", item->name},
                                    [&] { return item->start(call, queue); });
    in_flight = !error;
    return with_collective_name(error);
  }
  plait_error* finish(plait_queue* queue) const {
    if (!start_pending && !in_flight) return nullptr;
    const uint64_t begin_ns = monotonic_ns();
    plait_error* error = wait(queue);
    waited_ns->fetch_add(monotonic_ns() - begin_ns, std::memory_order_relaxed);
    return error;
  }
  plait_error* wait(plait_queue* queue) const {
    if (start_pending) {
      start_pending = false;
      if (plait_error* error = begin(queue)) return error;
    }
    if (!in_flight) return nullptr;
    in_flight = false;
    plait_error* error = try_plugin({plugin, "finish", "backend", item->name},
                                    [&] { return item->finish(call, queue); });
    if (log && !error) log->finish();
    return with_collective_name(error);
  }
  // A backend's error names the kind of call; this adds its purpose in the plan.
  plait_error* with_collective_name(plait_error* error) const {
    if (!error) return nullptr;
    try {
      const std::string text = "[runtime] the collective of " + *name + " failed in backend '" +
                               item->name + "' of plugin " + std::string(plugin);
      plait_error* named = new_c_error(error->code, text.data(), text.size(), error);
      mark_collective(named);
      return named;
    } catch (const std::bad_alloc&) {
      return error;
    }
  }
  plait_kernel* kernel() { return reinterpret_cast<plait_kernel*>(this); }
  static const PreparedCall& of(const plait_kernel* k) {
    return *reinterpret_cast<const PreparedCall*>(k);
  }
  using Action = plait_error* (PreparedCall::*)(plait_queue*) const;
  template <Action action>
  static plait_kernel_item item_of(const char* name) {
    return {.struct_size = sizeof(plait_kernel_item),
            .name = name,
            .op = name,
            .device = "",
            .priority = 0,
            .reserved = 0,
            .select = nullptr,
            .prepare = nullptr,
            .run = [](const plait_kernel* k, plait_queue* queue, void* const*,
                      void*) { return (of(k).*action)(queue); },
            .release = nullptr,
            .flags = PLAIT_KERNEL_HOST,
            .reserved2 = 0,
            .tune = nullptr,
            .adopt = nullptr};
  }
};

const plait_kernel_item& Communicators::start_item() {
  static const plait_kernel_item kItem =
      PreparedCall::item_of<&PreparedCall::start>("collective_start");
  return kItem;
}

const plait_kernel_item& Communicators::wait_item() {
  static const plait_kernel_item kItem =
      PreparedCall::item_of<&PreparedCall::finish>("collective_done");
  return kItem;
}

bool Communicators::can_be_recorded(const plait_kernel& collective) {
  const PreparedCall& call = PreparedCall::of(&collective);
  return call.item && call.item->device && call.kind != PLAIT_COMM_SEND &&
         call.kind != PLAIT_COMM_RECEIVE;
}

bool Communicators::on_host(const plait_kernel& collective) {
  const PreparedCall& call = PreparedCall::of(&collective);
  return call.item && !call.item->device;
}

plait_error* Communicators::record_start(const plait_kernel& collective, plait_queue* queue) {
  const PreparedCall& call = PreparedCall::of(&collective);
  return call.with_collective_name(try_plugin({call.plugin, "start", "backend", call.item->name},
                                              [&] { return call.item->start(call.call, queue); }));
}

plait_error* Communicators::record_wait(const plait_kernel& collective, plait_queue* queue) {
  const PreparedCall& call = PreparedCall::of(&collective);
  return call.with_collective_name(try_plugin({call.plugin, "finish", "backend", call.item->name},
                                              [&] { return call.item->finish(call.call, queue); }));
}

void Communicators::launched(const plait_kernel& collective) noexcept {
  const PreparedCall& call = PreparedCall::of(&collective);
  if (call.log) call.log->add(*call.description);
}

void Communicators::check() {
  constexpr size_t kSize = offsetof(plait_comm_item, status) + sizeof(plait_comm_item::status);
  for (const CommGroup& g : groups_) {
    if (!g.item->device || g.item->struct_size < kSize || !g.item->status) continue;
    check_plugin({g.plugin, "status", "backend", g.backend}, "exchanging",
                 [&] { return g.item->status(g.comm); });
  }
}

double Communicators::device_timeout() const {
  const bool waits = std::any_of(groups_.begin(), groups_.end(),
                                 [](const CommGroup& g) { return g.item->device != nullptr; });
  return waits ? control_.timeout() : 0;
}

bool Communicators::is_collective_error(const plait_error& error) { return error.collective; }

namespace {

std::string rank_name(const plan::Plan& plan, int32_t rank) {
  const topology::Coordinates c = plan.grid.at(rank);
  return strf("rank %d (pipeline %d, data %d, tensor %d)", rank, c.pipeline, c.data, c.tensor);
}

}  // namespace

Communicators::Communicators(std::shared_ptr<const plan::Plan> plan, Control& control,
                             std::shared_ptr<const Device> device,
                             std::set<std::string> passed_over)
    : plan_(std::move(plan)),
      control_(control),
      device_(std::move(device)),
      passed_over_(std::move(passed_over)) {
  control_.on_end([this](const std::string& reason) { end(reason); });
  try {
    const bool host_memory = !device_ || device_->host_visible();
    for (const NeededGroup& g : needed_groups(*plan_)) {
      open(g.members, g.channel, host_memory ? GroupMemory::kHost : GroupMemory::kDevice);
      if (!host_memory && g.channel == 0) open(g.members, g.channel, GroupMemory::kBesideHost);
    }
  } catch (...) {
    close();
    throw;
  }
}

Communicators::~Communicators() { close(); }

namespace {

// A value of the store, to its caller.
void deliver(const std::string& key, const std::string& value, void* data, uint64_t capacity,
             uint64_t* size) {
  if (value.size() > capacity)
    fail_invalid(strf("[runtime] the value of '%s' has %zu bytes, the caller has room for %lu",
                      key.c_str(), value.size(), static_cast<unsigned long>(capacity)));
  std::memcpy(data, value.data(), value.size());
  *size = value.size();
}

}  // namespace

void Communicators::open(const topology::ProcessGroup& members, uint32_t channel,
                         GroupMemory memory) {
  std::unique_lock opening(mutex_);
  CommGroup& g = groups_.emplace_back();  // end() may be iterating over the groups
  opening.unlock();
  g.axis = members.axis;
  g.channel = channel;
  g.beside_host = memory == GroupMemory::kBesideHost;
  const std::string name = g.name(members);
  g.prefix = name + ".";
  g.control = &control_;
  g.connect_timeout = control_.connect_timeout();
  g.store.struct_size = sizeof g.store;
  g.store.self = &g;
  g.store.set = [](void* self, const char* key, const void* data, uint64_t size) {
    return guard_c([&] {
      const CommGroup& of = *static_cast<CommGroup*>(self);
      of.live_control().set(of.prefix + key, {static_cast<const char*>(data), size});
    });
  };
  g.store.get = [](void* self, const char* key, void* data, uint64_t capacity, uint64_t* size) {
    return guard_c([&] {
      const CommGroup& of = *static_cast<CommGroup*>(self);
      deliver(of.prefix + key, of.live_control().get(of.prefix + key, of.connect_timeout), data,
              capacity, size);
    });
  };
  g.store.get_within = [](void* self, const char* key, double seconds, void* data,
                          uint64_t capacity, uint64_t* size, uint32_t* found) {
    return guard_c([&] {
      const CommGroup& of = *static_cast<CommGroup*>(self);
      const auto value = of.live_control().get_within(of.prefix + key, seconds);
      if (value) deliver(of.prefix + key, *value, data, capacity, size);
      *found = value ? 1 : 0;
    });
  };
  std::vector<std::string> names, hosts;
  for (const int32_t r : members.members) {
    names.push_back(rank_name(*plan_, r));
    hosts.push_back(control_.peers()[static_cast<size_t>(r)].host);
  }
  const BackendSelection selection =
      select_backend(*plan_, control_.peers(), members, memory, passed_over_);
  g.backend = selection.name + (selection.staged ? ", staged" : "");
  g.item = selection.hierarchical() ? &hierarchical_item()
           : selection.staged       ? &staged_item()
                                    : selection.flat;
  g.plugin = selection.hierarchical() ? selection.name : plan_->registry->plugin_of(selection.flat);
  std::vector<const char*> c_names, c_hosts;
  for (size_t i = 0; i < names.size(); ++i) {
    c_names.push_back(names[i].c_str());
    c_hosts.push_back(hosts[i].c_str());
  }
  plait_comm_setup setup{};
  setup.struct_size = sizeof setup;
  setup.name = name.c_str();
  setup.rank = static_cast<uint32_t>(members.position(plan_->rank));
  setup.size = static_cast<uint32_t>(members.size());
  setup.hosts = c_hosts.data();
  setup.ranks = c_names.data();
  setup.store = &g.store;
  setup.connect_timeout = g.connect_timeout;
  setup.timeout = control_.timeout();
  setup.device = selection.flat->device ? device_->handle() : nullptr;
  // The options under [comm] belong to the backend that topology.backend names.
  config::Problems problems;
  std::deque<config::OptionSet> options;
  const auto backend = [&](const plait_comm_item* item) -> CommBackend {
    if (!item) return {};
    options.push_back(config::comm_options(plan_->experiment, *plan_->registry, item->name,
                                           config::PathResolver(), problems));
    return {item, plan_->registry->host_of(item), &options.back(),
            plan_->registry->plugin_of(item)};
  };
  const CommBackend whole = backend(selection.flat);
  if (!selection.hierarchical()) g.host = whole.host;
  plait_comm* comm = nullptr;
  if (selection.hierarchical())
    comm = open_hierarchical({selection.name, backend(selection.intra), whole,
                              plan_needs_flat_group(*plan_, members.axis, channel)},
                             setup);
  else if (selection.staged)
    comm = open_staged(whole, device_, setup);
  else
    check_plugin({g.plugin, "open", "backend", g.backend}, "connecting group '" + name + "'",
                 [&] { return whole.item->open(whole.host, whole.options, &setup, &comm); });
  {
    const std::lock_guard lock(mutex_);
    g.comm = comm;
    if (!ended_.empty()) abort_group(g, ended_);
  }
  control_.watch(name, g.calls);
}

// On a thread of the control channel.
void Communicators::end(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    ended_ = reason;
  } catch (const std::bad_alloc&) {
    ended_ = "out of memory";  // short enough for no allocation
  }
  for (const CommGroup& g : groups_)
    if (g.comm) abort_group(g, reason);
}

void Communicators::abort_group(const CommGroup& g, const std::string& reason) noexcept {
  call_plugin_noexcept(g.host, {"", "abort", "backend", g.backend},
                       [&] { g.item->abort(g.comm, reason.data(), reason.size()); });
}

void Communicators::abandon(std::unique_ptr<Communicators> groups) noexcept {
  groups->control_.on_end({});
  groups->control_.unwatch();
  for (CommGroup& g : groups->groups_) g.control.store(nullptr, std::memory_order_release);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    groups->end("the device of this rank has not finished its work");
    static auto& kept = *new std::vector<std::unique_ptr<Communicators>>;
    kept.reserve(kept.size() + 1);
    kept.push_back(std::move(groups));
  } catch (const std::bad_alloc&) {
    static_cast<void>(groups.release());  // kept all the same
  }
}

void Communicators::close() noexcept {
  control_.on_end({});
  control_.unwatch();
  for (const auto& entry : calls_) {
    const PreparedCall& call = *entry.second;
    if (call.call)
      call_plugin_noexcept(call.host, {"", "release", "backend", call.item->name},
                           [&] { call.item->release(call.call); });
  }
  calls_.clear();
  for (CommGroup& g : groups_)
    if (g.comm)
      call_plugin_noexcept(g.host, {"", "close", "backend", g.backend},
                           [&] { g.item->close(g.comm); });
  groups_.clear();
}

Communicators::CommGroup& Communicators::group_of(topology::Axis axis, uint32_t channel) {
  const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const CommGroup& g) {
    return g.axis == axis && g.channel == channel && !g.beside_host;
  });
  if (group == groups_.end())
    fail_internal(std::string("[runtime] no group along ") + topology::axis_name(axis));
  return *group;
}

Communicators::CommGroup& Communicators::host_group_of(topology::Axis axis) {
  for (CommGroup& g : groups_)
    if (g.axis == axis && g.beside_host) return g;
  return group_of(axis);
}

Communicators::PreparedCall& Communicators::call_of(int32_t collective, int32_t slot) {
  const plan::Collective& e = plan_->collectives[static_cast<size_t>(collective)];
  auto& call = calls_[{collective, e.slotted ? slot : 0}];
  if (!call) {
    call = std::make_unique<PreparedCall>();
    call->name = &e.name;
    call->waited_ns = &waited_ns_;
  }
  return *call;
}

plait_kernel* Communicators::prepared(int32_t collective, int32_t slot) {
  return call_of(collective, slot).kernel();
}

plait_kernel* Communicators::prepare(int32_t collective, int32_t slot, const void* in, void* out) {
  PreparedCall& call = call_of(collective, slot);
  if (call.call) {
    if (call.in != in || call.out != out)
      fail_internal("[runtime] the collective of " + *call.name + " is started from two places");
    return call.kernel();
  }
  const plan::Collective& e = plan_->collectives[static_cast<size_t>(collective)];
  CommGroup& group = group_of(e.axis, e.channel);
  plait_comm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = e.kind;
  desc.dtype = e.dtype;
  desc.reduction = e.reduction;
  desc.peer = e.peer;
  desc.n = e.n;
  desc.in = e.kind == PLAIT_COMM_RECEIVE ? nullptr : in;
  desc.out = e.kind == PLAIT_COMM_SEND ? nullptr : out;
  const auto prepare = [&] { return group.item->prepare(group.comm, &desc, &call.call); };
  const PluginCall at{group.plugin, "prepare", "backend", group.backend};
  check_plugin(at, "preparing the collective of " + e.name, prepare);
  if (!call.call)
    fail(PLAIT_ERR_PLUGIN, "[plugin " + group.plugin + "] " + text_of(at) +
                               " gave no call for the collective of " + e.name +
                               "; tell its author");
  if (e.kind != PLAIT_COMM_SEND && e.kind != PLAIT_COMM_RECEIVE) {
    const std::string root =
        e.kind == PLAIT_COMM_BROADCAST ? " from member " + std::to_string(e.peer) : "";
    call.log = &group.calls;
    call.description.emplace(text_of(desc) + root + ", " + e.name);
  }
  call.deferred = defer_start(*plan_, *group.item, e);
  call.kind = e.kind;
  call.item = group.item;
  call.host = group.host;
  call.plugin = group.plugin;
  call.in = in;
  call.out = out;
  return call.kernel();
}

char* Communicators::memory(topology::Axis axis, uint64_t bytes) {
  constexpr size_t kSize = offsetof(plait_comm_item, memory) + sizeof(plait_comm_item::memory);
  const CommGroup& group = group_of(axis);
  const plait_comm_item& item = *group.item;
  if (item.struct_size < kSize || !item.memory) return nullptr;
  void* memory = nullptr;
  check_plugin({group.plugin, "memory", "backend", group.backend},
               "sharing memory of " + human_bytes(bytes),
               [&] { return item.memory(group.comm, bytes, &memory); });
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0)
    fail(PLAIT_ERR_PLUGIN, "[plugin " + group.plugin + "] memory() of backend '" + group.backend +
                               "' begins at no multiple of 64; correct the plugin");
  return static_cast<char*>(memory);
}

topology::ProcessGroup Communicators::members_of(const CommGroup& g) const {
  const auto groups = plan_->grid.groups_of(plan_->rank);
  return *std::find_if(groups.begin(), groups.end(),
                       [&](const topology::ProcessGroup& m) { return m.axis == g.axis; });
}

std::vector<Communicators::Connected> Communicators::connected() const {
  std::vector<Connected> all;
  for (const CommGroup& g : groups_) {
    const topology::ProcessGroup members = members_of(g);
    all.push_back({g.name(members), g.backend, members.size()});
  }
  return all;
}

std::vector<Communicators::GroupCalls> Communicators::last_calls() const {
  std::vector<GroupCalls> all;
  for (const CommGroup& g : groups_) {
    const topology::ProcessGroup members = members_of(g);
    GroupCalls& one = all.emplace_back();
    one.group = g.name(members);
    one.backend = g.backend;
    one.ranks.assign(members.members.begin(), members.members.end());
    if (!g.item->device) one.finished = g.calls.finished();
    one.started = g.calls.recent();
  }
  return all;
}

void Communicators::sum(topology::Axis axis, std::span<int32_t> numbers) {
  CommGroup& group = host_group_of(axis);
  if (group.item->device)  // a device backend; the device memory is host memory
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[runtime] backend '" + group.backend + "' exchanges no host memory");
  plait_comm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = PLAIT_COMM_ALL_REDUCE;
  desc.dtype = PLAIT_I32;
  desc.reduction = PLAIT_COMM_SUM;
  desc.n = numbers.size();
  desc.in = desc.out = numbers.data();
  plait_comm_call* call = nullptr;
  const auto check = [&](const char* function, auto&& f) {
    check_plugin({group.plugin, function, "backend", group.backend}, "adding numbers of all ranks",
                 f);
  };
  const auto release = [&](plait_comm_call* c) {
    call_plugin_noexcept(group.host, {"", "release", "backend", group.backend},
                         [&] { group.item->release(c); });
  };
  check("prepare", [&] { return group.item->prepare(group.comm, &desc, &call); });
  const std::unique_ptr<plait_comm_call, decltype(release)> owner(call, release);
  group.calls.add(group.sums.try_emplace(numbers.size(), text_of(desc)).first->second);
  check("start", [&] { return group.item->start(call, nullptr); });
  check("finish", [&] { return group.item->finish(call, nullptr); });
  group.calls.finish();
}

}  // namespace plait::runtime
