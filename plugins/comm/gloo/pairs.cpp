#include "plugins/comm/gloo/pairs.hpp"

#include <fcntl.h>
#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <plait/plugin.hpp>

namespace plait::comm_gloo {
namespace {

namespace transport = ::gloo::transport;
namespace tcp = ::gloo::transport::tcp;

// Of two addresses, the pair with the higher one connects: pairs always connect, within this
// process. Their connections are then replaced.
constexpr const char* kPairAddress = "127.0.0.2";
constexpr const char* kListenAddress = "127.0.0.1";
constexpr auto kConnectTimeout = std::chrono::seconds(10);  // within this process

Fd event(unsigned value) {
  Fd fd(eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) fail_io("cannot make an event");
  return fd;
}

// Calls a function once on the thread of a device.
class DeviceCall final : tcp::Handler {
 public:
  DeviceCall(tcp::Device& device, std::function<void()> f)
      : device_(device), f_(std::move(f)), event_(event(1)) {
    auto result = promise_.get_future();
    device_.registerDescriptor(event_.get(), EPOLLIN, this);
    result.get();
  }

 private:
  void handleEvents(int) override {
    std::promise<void> promise = std::move(promise_);  // outlives this object
    try {
      device_.unregisterDescriptor(event_.get(), this);
      f_();
      promise.set_value();
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }

  tcp::Device& device_;
  const std::function<void()> f_;
  const Fd event_;
  std::promise<void> promise_;
};

class Pairs {
 public:
  Pairs(const std::vector<Fd>& sockets, int rank)
      : sockets_(sockets),
        device_(std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(tcp::attr(kPairAddress)))),
        context_(device_->createContext(rank, static_cast<int>(sockets.size()))),
        listener_(listen_on(kListenAddress)),
        never_(event(0)) {
    context_->setTimeout(kConnectTimeout / 5);  // Gloo waits five times as long for a connection
  }

  // The device's thread replaces descriptors itself, so that it accepts nothing meanwhile.
  std::shared_ptr<transport::Context> connected() {
    const DeviceCall create(*device_, [&] {
      for_all([&](size_t r) { context_->createPair(static_cast<int>(r)); });
      // A descriptor that never becomes readable, instead of a socket that listens.
      replace_descriptors("", [&](size_t) -> const Fd& { return never_; });
    });
    for_all([&](size_t r) { pair(r).connect(gloo_address(listener_.address)); });
    const DeviceCall replace(*device_, [&] {
      replace_descriptors(listener_.address, [&](size_t r) -> const Fd& { return sockets_[r]; });
    });
    return context_;
  }

 private:
  template <class F>
  void for_all(F f) const {
    for (size_t r = 0; r < sockets_.size(); ++r)
      if (sockets_[r]) f(r);
  }
  transport::Pair& pair(size_t r) const { return *context_->getPair(static_cast<int>(r)); }

  // Makes the descriptor of each pair, whose other end is `other`, refer to what `by(r)` refers to.
  template <class By>
  void replace_descriptors(const std::string& other, By by) const {
    std::vector<std::vector<char>> addresses(sockets_.size());
    for_all([&](size_t r) { addresses[r] = pair(r).address().bytes(); });
    const std::vector<int> descriptors = find_sockets(addresses, other);
    for_all([&](size_t r) {
      const int fd = descriptors[r];
      if (fd < 0) fail(PLAIT_ERR_IO, "[gloo] found no socket of a pair");
      auto* const handler = dynamic_cast<tcp::Handler*>(&pair(r));
      device_->unregisterDescriptor(fd, handler);
      if (dup3(by(r).get(), fd, O_CLOEXEC) < 0) fail_io("cannot replace a socket");
      device_->registerDescriptor(fd, EPOLLIN, handler);
    });
  }

  const std::vector<Fd>& sockets_;
  const std::shared_ptr<tcp::Device> device_;
  const std::shared_ptr<transport::Context> context_;
  const Listener listener_;
  const Fd never_;
};

}  // namespace

std::shared_ptr<transport::Context> pairs_over(const std::vector<Fd>& sockets, int rank) {
  return Pairs(sockets, rank).connected();
}

}  // namespace plait::comm_gloo
