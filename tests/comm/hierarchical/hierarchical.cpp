// The same tests for hierarchical groups over two plugins, over simulated hosts:
// LAYOUT:INTRA.so:INTER.so. Errors come from the engine. Layouts: "blocks", two ranks per host;
// "stripes", every other rank; "uneven", all but the last on one host.
#include "engine/runtime/hierarchical.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/comm/host.hpp"

namespace comm_test {
namespace {

class Hierarchical : public Plugin {
 public:
  Hierarchical(const std::string& layout, const std::string& intra, const std::string& inter)
      : Plugin(inter), layout_(layout), intra_(intra), item_(plait::runtime::hierarchical_item()) {
    item_.reach = Plugin::item().reach;
  }

  const plait_comm_item& item() const override { return item_; }
  std::string name() const override { return intra_.name() + "+" + Plugin::name(); }

  std::string host_of_rank(uint32_t rank, uint32_t size) const override {
    const uint32_t host = layout_ == "blocks"    ? rank / 2
                          : layout_ == "stripes" ? rank % 2
                                                 : static_cast<uint32_t>(rank + 1 == size);
    return "127.0.0." + std::to_string(host + 1);
  }

  plait_comm* open(const plait_comm_setup& setup, const GroupSettings& settings) const override {
    plait_comm* comm = nullptr;
    intra_.with_options(settings, [&](const plait_options& intra) {
      with_options(settings, [&](const plait_options& inter) {
        const plait::runtime::HierarchicalConfig config{
            name(),
            {&intra_.item(), intra_.host(), &intra, intra_.name()},
            {&Plugin::item(), host(), &inter, Plugin::name()},
            true};
        try {
          comm = plait::runtime::open_hierarchical(config, setup);
        } catch (const plait::Error& e) {
          throw Failure(e.code(), e.full_text());
        }
      });
    });
    return comm;
  }

 private:
  const std::string layout_;
  const Plugin intra_;
  plait_comm_item item_;
};

}  // namespace

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  const std::vector<std::string> parts = plait::split(argument, ':');
  if (parts.size() != 3) throw std::runtime_error("expected LAYOUT:INTRA.so:INTER.so");
  return std::make_unique<Hierarchical>(parts[0], parts[1], parts[2]);
}

}  // namespace comm_test
