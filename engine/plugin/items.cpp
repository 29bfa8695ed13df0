#include "engine/plugin/items.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/config/schema.hpp"
#include "engine/plugin/host.hpp"

namespace plait::plugin {
namespace {

// Sizes that the tables had in ABI 1, the least that is ever accepted: up to the last member of
// then. They never change.
#define PLAIT_SIZE_TO(type, last) (offsetof(type, last) + sizeof(type::last))
constexpr size_t kLayerV1 = PLAIT_SIZE_TO(plait_layer_item, build);
constexpr size_t kLossV1 = PLAIT_SIZE_TO(plait_loss_item, build);
constexpr size_t kMetricV1 = PLAIT_SIZE_TO(plait_metric_item, finish);
constexpr size_t kOpV1 = PLAIT_SIZE_TO(plait_op_item, gradient);
constexpr size_t kOptimizerV1 = PLAIT_SIZE_TO(plait_optimizer_item, build);
constexpr size_t kPeftV1 = PLAIT_SIZE_TO(plait_peft_item, start);
constexpr size_t kScheduleV1 = PLAIT_SIZE_TO(plait_schedule_item, close);
constexpr size_t kDatasetV1 = PLAIT_SIZE_TO(plait_dataset_item, close);
constexpr size_t kTokenizerV1 = PLAIT_SIZE_TO(plait_tokenizer_item, close);
constexpr size_t kFormatV1 = PLAIT_SIZE_TO(plait_format_item, write);
constexpr size_t kDeviceV1 = PLAIT_SIZE_TO(plait_device_item, graph_close);
constexpr size_t kKernelV1 = PLAIT_SIZE_TO(plait_kernel_item, release);
constexpr size_t kCommV1 = PLAIT_SIZE_TO(plait_comm_item, abort);

[[noreturn]] void malformed(const ItemHead& head, const std::string& what) {
  const std::string name = head.name.empty() ? "" : " '" + printable(head.name) + "'";
  fail(PLAIT_ERR_PLUGIN, "[plugin " + head.host->plugin() + "] " +
                             std::string(short_kind(head.kind)) + name + " " + what +
                             "; correct the table of the plugin");
}

constexpr size_t kMostBytes = 65536;  // of a table: more is no size, in whatever version

template <class T>
const T& sized(ItemHead& head, size_t least) {
  const T& item = *static_cast<const T*>(head.table);
  // A table too small for its kind may still be large enough to tell its name.
  if (item.struct_size >= offsetof(T, name) + sizeof(item.name) && item.name) head.name = item.name;
  if (item.struct_size < least || item.struct_size > kMostBytes)
    malformed(head, "has struct_size " + std::to_string(item.struct_size) + ", expected at least " +
                        std::to_string(least));
  if (head.name.empty()) malformed(head, "has no name");
  const std::string fault = fault_of_name(head.name);
  if (!fault.empty()) malformed(head, "has a name that " + fault);
  return item;
}

struct Function {
  const char* name;
  bool there;
};
void need(const ItemHead& head, std::initializer_list<Function> functions) {
  for (const Function& f : functions)
    if (!f.there) malformed(head, std::string("lacks ") + f.name + "()");
}
#define PLAIT_FUNCTION(f) \
  Function { #f, item.f != nullptr }

void check_list(const ItemHead& head, const plait_option* list, uint32_t n, const char* what) {
  constexpr uint32_t kMost = 1000;
  if (n > kMost) malformed(head, strf("declares %u %s, expected at most %u", n, what, kMost));
  if (n > 0 && !list) malformed(head, strf("declares %u %s, but their list is NULL", n, what));
}

void check_outputs(const ItemHead& head, uint32_t n) {
  constexpr uint32_t kMost = 64;
  if (n == 0 || n > kMost) malformed(head, strf("has %u outputs, expected 1 to %u", n, kMost));
}

template <class T>
void common(ItemHead& head, const T& item) {
  if (!item.help) malformed(head, "has no help text");
  check_list(head, item.options, item.n_options, "options");
  head.help = item.help;
  head.options = config::OptionView(item.options, item.n_options);
  const std::string defect = config::defect_of(head.options);
  if (!defect.empty()) malformed(head, "is declared wrongly: " + defect);
  for (const std::string_view key : config::reserved_keys(head.kind))
    if (head.options.find(key))
      malformed(head, "declares '" + std::string(key) + "', which is a key of the engine");
}

template <class T>
void inputs(const ItemHead& head, const T& item) {
  if (item.min_inputs > item.max_inputs)
    malformed(head, "takes at least " + std::to_string(item.min_inputs) + " inputs and at most " +
                        std::to_string(item.max_inputs));
}

void read_layer(ItemHead& head) {
  const auto& item = sized<plait_layer_item>(head, kLayerV1);
  common(head, item);
  inputs(head, item);
  need(head, {PLAIT_FUNCTION(build)});
  check_outputs(head, item.n_outputs);
}
void read_loss(ItemHead& head) {
  const auto& item = sized<plait_loss_item>(head, kLossV1);
  common(head, item);
  inputs(head, item);
  need(head, {PLAIT_FUNCTION(build)});
}
void read_metric(ItemHead& head) {
  const auto& item = sized<plait_metric_item>(head, kMetricV1);
  common(head, item);
  inputs(head, item);
  need(head, {PLAIT_FUNCTION(build), PLAIT_FUNCTION(finish)});
  if (item.n_state == 0 || item.n_state > 65536)
    malformed(head, "has a state of " + std::to_string(item.n_state) + " numbers");
}
void read_op(ItemHead& head) {
  const auto& item = sized<plait_op_item>(head, kOpV1);
  head.help = item.help ? item.help : "";
  need(head, {PLAIT_FUNCTION(infer)});
  check_outputs(head, item.n_outputs);
  if (head.name.find('.') == std::string::npos)
    malformed(head, "has a name without a dot, which only core ops have: call it '" +
                        head.host->plugin() + "." + head.name + "'");
  if (item.struct_size < offsetof(plait_op_item, n_attrs) + sizeof(item.n_attrs)) return;
  check_list(head, item.attrs, item.n_attrs, "attributes");
  const std::string defect = config::defect_of(config::OptionView(item.attrs, item.n_attrs));
  if (!defect.empty()) malformed(head, "declares an attribute wrongly: " + defect);
  const config::OptionView attrs(item.attrs, item.n_attrs);
  for (uint32_t i = 0; i < item.n_attrs; ++i)
    if (attrs[i].type < PLAIT_OPT_BOOL || attrs[i].type > PLAIT_OPT_INTS)
      malformed(head, std::string("declares the attribute '") + attrs[i].name +
                          "' of a type that attributes do not have");
}
void read_optimizer(ItemHead& head) {
  const auto& item = sized<plait_optimizer_item>(head, kOptimizerV1);
  common(head, item);
  need(head, {PLAIT_FUNCTION(build)});
  if (!std::isfinite(item.default_learning_rate) || item.default_learning_rate < 0 ||
      !std::isfinite(item.default_weight_decay) || item.default_weight_decay < 0)
    malformed(head,
              strf("has a default learning rate of %g and weight decay of %g, expected finite "
                   "numbers that are not below 0",
                   item.default_learning_rate, item.default_weight_decay));
}
void read_peft(ItemHead& head) {
  const auto& item = sized<plait_peft_item>(head, kPeftV1);
  common(head, item);
  need(head, {PLAIT_FUNCTION(wrap)});
  constexpr uint32_t kAll =
      PLAIT_PEFT_PRODUCT | PLAIT_PEFT_LOOKUP | PLAIT_PEFT_LAYER | PLAIT_PEFT_GROUPED;
  if (item.targets == 0 || (item.targets & ~kAll) != 0)
    malformed(head, strf("has the targets 0x%x, expected a sum of PLAIT_PEFT_*", item.targets));
}
void read_schedule(ItemHead& head) {
  const auto& item = sized<plait_schedule_item>(head, kScheduleV1);
  common(head, item);
  need(head, {PLAIT_FUNCTION(open), PLAIT_FUNCTION(factor), PLAIT_FUNCTION(close)});
}
void read_dataset(ItemHead& head) {
  const auto& item = sized<plait_dataset_item>(head, kDatasetV1);
  common(head, item);
  need(head,
       {PLAIT_FUNCTION(open), PLAIT_FUNCTION(info), PLAIT_FUNCTION(read), PLAIT_FUNCTION(close)});
}
void read_tokenizer(ItemHead& head) {
  const auto& item = sized<plait_tokenizer_item>(head, kTokenizerV1);
  common(head, item);
  need(head, {PLAIT_FUNCTION(open), PLAIT_FUNCTION(info), PLAIT_FUNCTION(encode),
              PLAIT_FUNCTION(decode), PLAIT_FUNCTION(close)});
}
void read_format(ItemHead& head) {
  const auto& item = sized<plait_format_item>(head, kFormatV1);
  common(head, item);
  if (!item.read && !item.write) malformed(head, "lacks both read() and write()");
}
void read_device(ItemHead& head) {
  const auto& item = sized<plait_device_item>(head, kDeviceV1);
  common(head, item);
  need(head,
       {PLAIT_FUNCTION(threads),      PLAIT_FUNCTION(open),          PLAIT_FUNCTION(close),
        PLAIT_FUNCTION(info),         PLAIT_FUNCTION(alloc),         PLAIT_FUNCTION(free),
        PLAIT_FUNCTION(queue_open),   PLAIT_FUNCTION(queue_close),   PLAIT_FUNCTION(enqueue),
        PLAIT_FUNCTION(copy),         PLAIT_FUNCTION(sync),          PLAIT_FUNCTION(event_open),
        PLAIT_FUNCTION(event_close),  PLAIT_FUNCTION(event_record),  PLAIT_FUNCTION(event_wait),
        PLAIT_FUNCTION(event_query),  PLAIT_FUNCTION(capture_begin), PLAIT_FUNCTION(capture_end),
        PLAIT_FUNCTION(graph_launch), PLAIT_FUNCTION(graph_close)});
  if (item.struct_size >= PLAIT_SIZE_TO(plait_device_item, host_free) && item.host_alloc &&
      !item.host_free)
    malformed(head, "has host_alloc() but no host_free()");
}
void read_kernel(ItemHead& head) {
  const auto& item = sized<plait_kernel_item>(head, kKernelV1);
  if (!item.op || !*item.op || !item.device || !*item.device)
    malformed(head, std::string("does not say its ") + (!item.op || !*item.op ? "op" : "device"));
  head.name = std::string(item.device) + "/" + item.op + "/" + item.name;
  constexpr size_t kSize = PLAIT_SIZE_TO(plait_kernel_item, flags);
  if (item.struct_size >= kSize && (item.flags & ~PLAIT_KERNEL_HOST) != 0)
    malformed(head, strf("has the unknown flags 0x%x", item.flags & ~PLAIT_KERNEL_HOST));
  need(head, {PLAIT_FUNCTION(select), PLAIT_FUNCTION(prepare), PLAIT_FUNCTION(run),
              PLAIT_FUNCTION(release)});
  if (item.struct_size >= PLAIT_SIZE_TO(plait_kernel_item, adopt) && !item.tune != !item.adopt)
    malformed(head, item.tune ? "has tune() but no adopt()" : "has adopt() but no tune()");
}
void read_comm(ItemHead& head) {
  const auto& item = sized<plait_comm_item>(head, kCommV1);
  common(head, item);
  need(head, {PLAIT_FUNCTION(open), PLAIT_FUNCTION(close), PLAIT_FUNCTION(prepare),
              PLAIT_FUNCTION(release), PLAIT_FUNCTION(start), PLAIT_FUNCTION(finish),
              PLAIT_FUNCTION(abort)});
  if (item.device && !*item.device) malformed(head, "names a device without a name");
  if (item.reach < PLAIT_COMM_REACH_PROCESS || item.reach > PLAIT_COMM_REACH_NETWORK)
    malformed(head, strf("has reach %u, expected PLAIT_COMM_REACH_*", item.reach));
}

#undef PLAIT_SIZE_TO
#undef PLAIT_FUNCTION

struct KindReader {
  std::string_view kind;
  void (*read)(ItemHead&);
};
constexpr KindReader kKinds[] = {
    {PLAIT_KIND_LAYER, read_layer},         {PLAIT_KIND_LOSS, read_loss},
    {PLAIT_KIND_METRIC, read_metric},       {PLAIT_KIND_OP, read_op},
    {PLAIT_KIND_OPTIMIZER, read_optimizer}, {PLAIT_KIND_SCHEDULE, read_schedule},
    {PLAIT_KIND_DATASET, read_dataset},     {PLAIT_KIND_DEVICE, read_device},
    {PLAIT_KIND_KERNEL, read_kernel},       {PLAIT_KIND_COMM, read_comm},
    {PLAIT_KIND_TOKENIZER, read_tokenizer}, {PLAIT_KIND_FORMAT, read_format},
    {PLAIT_KIND_PEFT, read_peft},
};

bool better(const plait_kernel_item* a, const plait_kernel_item* b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  return std::strcmp(a->name, b->name) < 0;
}

std::string kernel_key(std::string_view op, std::string_view device) {
  return std::string(device) + "/" + std::string(op);
}

}  // namespace

std::string_view short_kind(std::string_view kind) {
  const size_t dot = kind.find('.') + 1;
  return kind.substr(dot, kind.find('/') - dot);
}

std::string Items::add(std::string_view kind, const void* table, const Host& host) {
  const std::string who = "[plugin " + host.plugin() + "] ";
  const KindReader* reader = std::find_if(std::begin(kKinds), std::end(kKinds),
                                          [&](const KindReader& r) { return r.kind == kind; });
  if (reader == std::end(kKinds)) {
    std::vector<std::string> known;
    for (const KindReader& one : kKinds) known.emplace_back(one.kind);
    fail(PLAIT_ERR_PLUGIN, who + "unknown kind of item '" + printable(kind) +
                               "'; this engine supports " + join(known) +
                               "; use one of them, or a newer engine");
  }
  if (!table)
    fail(PLAIT_ERR_PLUGIN,
         who + "added NULL as a " + std::string(short_kind(kind)) + "; pass the item's table");

  ItemHead head{std::string(kind), "", table, &host, "", {}};
  reader->read(head);
  const ItemHead* old = find(kind, head.name);
  if (old && old->host != &host)
    return std::string(short_kind(kind)) + " '" + head.name + "' is offered already by plugin '" +
           old->host->plugin() + "'";
  if (old || by_table_.contains(table)) malformed(head, "was added twice");

  const ItemHead& kept = kinds_[head.kind].emplace(head.name, head).first->second;
  by_table_.emplace(table, &kept);
  if (kind == PLAIT_KIND_KERNEL) {
    const auto* kernel = static_cast<const plait_kernel_item*>(table);
    auto& list = kernels_[kernel_key(kernel->op, kernel->device)];
    list.insert(std::upper_bound(list.begin(), list.end(), kernel, better), kernel);
  }
  return "";
}

void Items::remove(const Host& host) {
  for (auto& [key, list] : kernels_)
    std::erase_if(
        list, [&](const plait_kernel_item* kernel) { return by_table_.at(kernel)->host == &host; });
  std::erase_if(by_table_, [&](const auto& entry) { return entry.second->host == &host; });
  for (auto& [kind, items] : kinds_)
    std::erase_if(items, [&](const auto& entry) { return entry.second.host == &host; });
}

const ItemHead* Items::find(std::string_view kind, std::string_view name) const {
  const auto items = kinds_.find(kind);
  if (items == kinds_.end()) return nullptr;
  const auto item = items->second.find(name);
  return item == items->second.end() ? nullptr : &item->second;
}

const ItemHead* Items::head_of(const void* table) const {
  const auto found = by_table_.find(table);
  return found == by_table_.end() ? nullptr : found->second;
}

std::vector<std::string> Items::names(std::string_view kind) const {
  std::vector<std::string> names;
  if (const auto items = kinds_.find(kind); items != kinds_.end())
    for (const auto& [name, head] : items->second) names.push_back(name);
  return names;
}

std::vector<const ItemHead*> Items::all() const {
  std::vector<const ItemHead*> all;
  for (const auto& [kind, items] : kinds_)
    for (const auto& [name, head] : items) all.push_back(&head);
  return all;
}

std::vector<std::string> Items::of(const Host& host) const {
  std::vector<std::string> names;
  for (const ItemHead* head : all())
    if (head->host == &host)
      names.push_back(std::string(short_kind(head->kind)) + " " + head->name);
  return names;
}

const std::vector<const plait_kernel_item*>& Items::kernels(std::string_view op,
                                                            std::string_view device) const {
  const auto found = kernels_.find(kernel_key(op, device));
  return found == kernels_.end() ? no_kernels_ : found->second;
}

}  // namespace plait::plugin
