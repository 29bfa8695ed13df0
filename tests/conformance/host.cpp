#include "tests/conformance/host.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace conformance {
namespace {

std::unique_ptr<Plugin> the_reference;
std::vector<std::unique_ptr<Plugin>> the_plugins;

}  // namespace

std::string take(plait_error* e) {
  if (!e) return "";
  std::string text = abi_host::error_text(e);
  abi_host::error_free(e);
  return text;
}

void check(plait_error* e) {
  if (e) throw std::runtime_error(take(e));
}

Plugin::Plugin(const std::string& path) : host_(abi_host::table_of(add)), file_(path) {
  check(file_.open(&host_));
  if (!device_) throw std::runtime_error(path + " offers no device");
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
  std::stable_sort(found.begin(), found.end(),
                   [](auto* a, auto* b) { return a->priority > b->priority; });
  return found;
}

Device::Device(const Plugin& plugin, const OptionValues& given) : plugin_(plugin) {
  const auto options = abi_host::options_of(item().options, item().n_options, given);
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
uint64_t guard_behind = kGuard;
}  // namespace

void set_bounds() { guard_behind = 0; }
bool bounds() { return guard_behind == 0; }

Buffer::Buffer(const Device& device, uint64_t bytes) : device_(device), bytes_(bytes) {
  const std::vector<unsigned char> all(kGuard + bytes + guard_behind, kGuardByte);
  check(device.item().alloc(device.get(), all.size(), &base_));
  data_ = static_cast<char*>(base_) + kGuard;
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
  const auto all = read(base_, kGuard + bytes_ + guard_behind);
  const auto good = [](unsigned char c) { return c == kGuardByte; };
  return std::all_of(all.begin(), all.begin() + kGuard, good) &&
         std::all_of(all.begin() + static_cast<ptrdiff_t>(kGuard + bytes_), all.end(), good);
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
