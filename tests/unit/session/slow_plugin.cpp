#include "tests/unit/session/slow_plugin.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <plait/plugin.hpp>
#include <plait/plugin/op.hpp>
#include <thread>

namespace {

std::atomic<int> first_rank{0};
thread_local int this_rank = 0;  // 1: the slow one, 2: another

struct CrawlOp {
  static constexpr uint32_t kOutputs = 1;
  static std::vector<plait::Shape> infer(const plait_op_desc& desc) {
    return {plait::Shape(desc.inputs[0])};
  }
  static void gradient(const plait::OpUse& use) { use.set(0, use.d_output()); }
};

class Crawl {
 public:
  static bool select(const plait_op_desc&, plait_choice&, std::string&) { return true; }
  Crawl(plait_device*, const plait_op_desc& desc)
      : bytes_(static_cast<size_t>(plait::Shape(desc.inputs[0]).count()) * sizeof(float)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    if (this_rank == 0) this_rank = first_rank.exchange(2) == 1 ? 1 : 2;
    if (this_rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    std::memcpy(operands[1], operands[0], bytes_);
  }

 private:
  size_t bytes_;
};

plait::Value build_crawl(plait::Builder& b, const plait::Options&,
                         std::span<const plait::Value> in) {
  return b.op("test.crawl", {in[0]});
}

plait_error* open_plugin(const plait_host* h, const char*, void** state) {
  *state = nullptr;
  return plait::detail::guard(plait::detail::maker(h), [&] {
    static const auto item = plait::layer<build_crawl>("test.crawl", "slow");
    static const plait_op_item op = plait::op_item<CrawlOp>("test.crawl", "slow");
    static const auto kernel = plait::kernel<Crawl>("test.crawl", "test.crawl", "reference", 0);
    const plait::Host host(h);
    host.add(op);
    host.add(kernel);
    host.add(item);
  });
}
constexpr plait_plugin kPlugin{sizeof kPlugin, PLAIT_ABI_VERSION, 0,
                               "crawl",        "1.0.0",           "Apache-2.0",
                               "slow",         open_plugin,       [](void*) {}};

}  // namespace

const plait_plugin* plait::test::slow_plugin() {
  first_rank = 1;
  return &kPlugin;
}
