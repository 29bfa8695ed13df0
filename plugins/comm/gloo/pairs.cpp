#include "plugins/comm/gloo/pairs.hpp"

#include <fcntl.h>
#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <plait/plugin.hpp>
#include <span>

namespace plait::comm_gloo {
namespace {

namespace transport = ::gloo::transport;
namespace tcp = ::gloo::transport::tcp;

// Of two addresses, the pair with the higher one connects: pairs always connect, within this
// process. Their connections are then replaced.
constexpr const char* kPairAddress = "127.0.0.2";
constexpr const char* kListenAddress = "127.0.0.1";
constexpr auto kConnectTimeout = std::chrono::seconds(10);  // within this process
// Pairs that connect before their connections are replaced: fewer than wait to be accepted on any
// Linux (net.core.somaxconn).
constexpr size_t kAtOnce = 64;

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

// While it lives, the loop of a device does not sleep: Gloo waits for its next turn, up to 10 ms,
// wherever another thread takes a descriptor from it.
class SleeplessLoop final : tcp::Handler {
 public:
  explicit SleeplessLoop(tcp::Device& device) : device_(device), event_(event(1)) {
    device_.registerDescriptor(event_.get(), EPOLLIN, this);
  }
  ~SleeplessLoop() override { device_.unregisterDescriptor(event_.get(), this); }

 private:
  void handleEvents(int) override {}
  tcp::Device& device_;
  const Fd event_;  // always readable
};

class Pairs {
 public:
  Pairs(const std::vector<Fd>& sockets, int rank)
      : sockets_(sockets),
        device_(std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(tcp::attr(kPairAddress)))),
        context_(device_->createContext(rank, static_cast<int>(sockets.size()))),
        listener_(listen_on(kListenAddress)),
        never_(event(0)) {
    for (size_t r = 0; r < sockets.size(); ++r)
      if (sockets[r]) peers_.push_back(r);
    context_->setTimeout(kConnectTimeout / 5);  // Gloo waits five times as long for a connection
  }

  // The device's thread replaces descriptors itself, so that it accepts nothing meanwhile.
  std::shared_ptr<transport::Context> connected() {
    const DeviceCall create(*device_, [&] { create_pairs(); });
    const SleeplessLoop sleepless(*device_);
    for (auto first = peers_.begin(); first != peers_.end();) {
      const auto left = static_cast<size_t>(peers_.end() - first);
      const std::span some(first, std::min(left, kAtOnce));
      for (const size_t r : some) pair(r).connect(gloo_address(listener_.address));
      const DeviceCall replace(*device_, [&] {
        replace_descriptors(some, listener_.address,
                            [&](size_t r) -> const Fd& { return sockets_[r]; });
      });
      while (accept_connection(listener_.socket.get())) {
      }
      first += some.size();
    }
    return context_;
  }

 private:
  transport::Pair& pair(size_t r) const { return *context_->getPair(static_cast<int>(r)); }

  void create_pairs() const {
    try {
      for (const size_t r : peers_) context_->createPair(static_cast<int>(r));
      // A descriptor that never becomes readable, instead of a socket that listens.
      replace_descriptors(peers_, "", [&](size_t) -> const Fd& { return never_; });
    } catch (...) {
      for (const size_t r : peers_)
        if (const auto& made = context_->getPair(static_cast<int>(r))) made->close();
      throw;
    }
  }

  // Makes the descriptor of each pair, whose other end is `other`, refer to what `by(r)` refers to.
  template <class By>
  void replace_descriptors(std::span<const size_t> peers, const std::string& other, By by) const {
    std::vector<std::vector<char>> addresses;
    for (const size_t r : peers) addresses.push_back(pair(r).address().bytes());
    const std::vector<int> descriptors = find_sockets(addresses, other);
    if (std::count(descriptors.begin(), descriptors.end(), -1) > 0)
      fail(PLAIT_ERR_IO, "[gloo] found no socket of a pair");
    for (size_t i = 0; i < peers.size(); ++i) {
      const int fd = descriptors[i];
      auto* const handler = dynamic_cast<tcp::Handler*>(&pair(peers[i]));
      device_->unregisterDescriptor(fd, handler);
      const bool replaced = dup3(by(peers[i]).get(), fd, O_CLOEXEC) >= 0;
      device_->registerDescriptor(fd, EPOLLIN, handler);  // the old one if not: close() expects one
      if (!replaced) fail_io("cannot replace a socket");
    }
  }

  const std::vector<Fd>& sockets_;
  const std::shared_ptr<tcp::Device> device_;
  const std::shared_ptr<transport::Context> context_;
  const Listener listener_;
  const Fd never_;
  std::vector<size_t> peers_;
};

}  // namespace

std::shared_ptr<transport::Context> pairs_over(const std::vector<Fd>& sockets, int rank) {
  return Pairs(sockets, rank).connected();
}

}  // namespace plait::comm_gloo
