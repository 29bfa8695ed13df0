#include "tests/conformance/host.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

// The host's own error type.
struct plait_error {
  uint32_t code;
  std::string text;
};

// The host's own options: the declaration and the given values.
struct plait_options_table;
namespace conformance {
namespace {

std::atomic<long> errors{0};

plait_error* error_new(uint32_t code, const char* text, uint64_t size, plait_error* cause) {
  ++errors;
  auto* e = new plait_error{code, size == PLAIT_NTS ? std::string(text) : std::string(text, size)};
  if (cause) {
    e->text += ": " + cause->text;
    --errors;
    delete cause;
  }
  return e;
}
uint32_t error_code(const plait_error* e) { return e->code; }
const char* error_text(const plait_error* e) { return e->text.c_str(); }
void error_free(plait_error* e) {
  if (e) --errors;
  delete e;
}
void log(const plait_host*, uint32_t, const char*, uint64_t) {}
const void* extension(const plait_host*, const char*) { return nullptr; }

struct Options {
  plait_options head;
  std::map<std::string, std::string> values;
};

plait_error* find(const plait_options* o, const char* name, const std::string** out) {
  const auto& values = reinterpret_cast<const Options*>(o)->values;
  const auto it = values.find(name);
  if (it == values.end())
    return error_new(PLAIT_ERR_INVALID, "undeclared option", PLAIT_NTS, nullptr);
  *out = &it->second;
  return nullptr;
}

template <class T, class Convert>
plait_error* get(const plait_options* o, const char* name, T* out, Convert convert) {
  const std::string* v = nullptr;
  if (plait_error* e = find(o, name, &v)) return e;
  *out = convert(*v);
  return nullptr;
}
plait_error* get_bool(const plait_options* o, const char* name, uint32_t* out) {
  return get(o, name, out, [](const std::string& v) { return v == "true" ? 1u : 0u; });
}
plait_error* get_int(const plait_options* o, const char* name, int64_t* out) {
  return get(o, name, out,
             [](const std::string& v) { return static_cast<int64_t>(std::stoll(v)); });
}
plait_error* get_real(const plait_options* o, const char* name, double* out) {
  return get(o, name, out, [](const std::string& v) { return std::stod(v); });
}
plait_error* get_text(const plait_options* o, const char* name, const char** out, uint64_t* size) {
  const std::string* v = nullptr;
  if (plait_error* e = find(o, name, &v)) return e;
  const bool quoted = v->size() >= 2 && v->front() == '"';
  *out = v->data() + (quoted ? 1 : 0);
  *size = v->size() - (quoted ? 2 : 0);
  return nullptr;
}
template <class T>
plait_error* get_none(const plait_options*, const char*, const T** out, uint64_t* n) {
  *out = nullptr;
  *n = 0;
  return nullptr;
}
plait_error* get_texts(const plait_options*, const char*, uint64_t, const char** out,
                       uint64_t* size, uint64_t* n) {
  *out = nullptr;
  *size = *n = 0;
  return nullptr;
}
const char* origin(const plait_options*, const char*) { return "default"; }

const plait_options_table kTable = {
    sizeof(plait_options_table), get_bool,         get_int,   get_real, get_text,
    get_none<int64_t>,           get_none<double>, get_texts, origin};

Options options_of(const plait_device_item& item, const OptionValues& given) {
  Options o{{&kTable}, {}};
  for (uint32_t i = 0; i < item.n_options; ++i)
    o.values[item.options[i].name] = item.options[i].initial;
  for (const auto& [name, value] : given)
    if (o.values.count(name)) o.values[name] = value;
  return o;
}

std::unique_ptr<Plugin> the_reference;
std::vector<std::unique_ptr<Plugin>> the_plugins;

}  // namespace

std::string take(plait_error* e) {
  if (!e) return "";
  std::string text = e->text;
  error_free(e);
  return text;
}

void check(plait_error* e) {
  if (e) throw std::runtime_error(take(e));
}

long live_errors() { return errors; }

Plugin::Plugin(const std::string& path) {
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<plait_plugin_entry>(dlsym(library_, PLAIT_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error(path + " exports no " PLAIT_PLUGIN_ENTRY);
  table_ = entry(PLAIT_ABI_VERSION);
  if (!table_) throw std::runtime_error(path + " serves another ABI");
  host_ = {sizeof(plait_host), PLAIT_ABI_VERSION, 0,   error_new, error_code,
           error_text,         error_free,        log, add,       extension};
  check(table_->open(&host_, path.c_str(), &state_));
  if (!device_) throw std::runtime_error(path + " offers no device");
}

Plugin::~Plugin() {
  if (table_) table_->close(state_);
  if (library_) dlclose(library_);
}

plait_error* Plugin::add(const plait_host* host, const char* kind, const void* item) {
  auto* self = reinterpret_cast<Plugin*>(const_cast<plait_host*>(host));
  if (std::strcmp(kind, PLAIT_KIND_DEVICE) == 0)
    self->device_ = static_cast<const plait_device_item*>(item);
  if (std::strcmp(kind, PLAIT_KIND_KERNEL) == 0)
    self->kernels_.push_back(static_cast<const plait_kernel_item*>(item));
  return nullptr;
}

std::vector<const plait_kernel_item*> Plugin::kernels(std::string_view op) const {
  std::vector<const plait_kernel_item*> found;
  for (const auto* k : kernels_)
    if (op == k->op && name() == k->device) found.push_back(k);
  std::stable_sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->rank > b->rank; });
  return found;
}

Device::Device(const Plugin& plugin, const OptionValues& given) : plugin_(plugin) {
  const Options options = options_of(item(), given);
  threads_ = item().threads(&options.head);
  check(item().open(plugin.host(), &options.head, &device_));
  check(item().queue_open(device_, &queue_));
}

Device::~Device() {
  item().queue_close(queue_);
  item().close(device_);
}

namespace {
constexpr uint64_t kGuard = 64;
constexpr unsigned char kPoison = 0xA5, kGuardByte = 0x5C;
}  // namespace

Buffer::Buffer(const Device& device, uint64_t bytes) : device_(device), bytes_(bytes) {
  check(device.item().alloc(device.get(), bytes + 2 * kGuard, &base_));
  data_ = static_cast<char*>(base_) + kGuard;
  const std::vector<unsigned char> all(bytes + 2 * kGuard, kGuardByte);
  check(device.item().copy(device.queue(), PLAIT_COPY_TO_DEVICE, base_, all.data(), all.size()));
  check(device.item().sync(device.queue()));
  poison();
}

Buffer::~Buffer() { device_.item().free(device_.get(), base_); }

void Buffer::put(const std::vector<unsigned char>& bytes) {
  check(device_.item().copy(device_.queue(), PLAIT_COPY_TO_DEVICE, data_, bytes.data(),
                            bytes.size()));
  check(device_.item().sync(device_.queue()));
}

void Buffer::poison() { put(std::vector<unsigned char>(bytes_, kPoison)); }

std::vector<unsigned char> Buffer::read(const void* from, uint64_t bytes) const {
  std::vector<unsigned char> to(bytes);
  check(device_.item().copy(device_.queue(), PLAIT_COPY_TO_HOST, to.data(), from, bytes));
  check(device_.item().sync(device_.queue()));
  return to;
}

std::vector<unsigned char> Buffer::get() const { return read(data_, bytes_); }

bool Buffer::guards_intact() const {
  const auto all = read(base_, bytes_ + 2 * kGuard);
  const auto good = [](unsigned char c) { return c == kGuardByte; };
  return std::all_of(all.begin(), all.begin() + kGuard, good) &&
         std::all_of(all.end() - kGuard, all.end(), good);
}

const Plugin& reference() { return *the_reference; }
const std::vector<std::unique_ptr<Plugin>>& plugins() { return the_plugins; }

void load_plugins(const std::string& reference, const std::vector<std::string>& others) {
  the_reference = std::make_unique<Plugin>(reference);
  for (const std::string& path : others) the_plugins.push_back(std::make_unique<Plugin>(path));
}

void unload_plugins() {
  the_plugins.clear();
  the_reference.reset();
}

}  // namespace conformance
