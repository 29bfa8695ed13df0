// The same tests for groups that the engine composes of two plugins, over made-up hosts: LAYOUT:NEAR.so:FAR.so. Errors are the
// engine's. Layouts: "blocks", two ranks a host; "stripes", every other rank; "uneven", all but the last on one host.
#include "engine/runtime/composed.hpp"

#include "engine/base/c_error.hpp"
#include "engine/base/text.hpp"
#include "tests/comm/host.hpp"

namespace comm_test {
namespace {

class Composed : public Plugin {
 public:
  Composed(const std::string& layout, const std::string& near, const std::string& far)
      : Plugin(far), layout_(layout), near_(near), item_(plait::runtime::composed_item()) {
    item_.reach = Plugin::item().reach;
  }

  const plait_comm_item& item() const override { return item_; }
  std::string name() const override { return near_.name() + "+" + Plugin::name(); }

  std::string host_of_rank(uint32_t rank, uint32_t size) const override {
    const uint32_t host = layout_ == "blocks"    ? rank / 2
                          : layout_ == "stripes" ? rank % 2
                                                 : static_cast<uint32_t>(rank + 1 == size);
    return "127.0.0." + std::to_string(host + 1);
  }

  plait_comm* open(const plait_comm_setup& setup, const Terms& terms) const override {
    plait_comm* comm = nullptr;
    near_.with_options(terms, [&](const plait_options& near) {
      with_options(terms, [&](const plait_options& far) {
        const plait::runtime::Composition composition{
            name(),
            {&near_.item(), near_.host(), &near, near_.name()},
            {&Plugin::item(), host(), &far, Plugin::name()},
            true};
        try {
          comm = plait::runtime::open_composed(composition, setup);
        } catch (const plait::Error& e) {
          throw Failure(e.code(), e.full_text());
        }
      });
    });
    return comm;
  }

 private:
  const std::string layout_;
  const Plugin near_;
  plait_comm_item item_;
};

}  // namespace

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  const std::vector<std::string> parts = plait::split(argument, ':');
  if (parts.size() != 3) throw std::runtime_error("expected LAYOUT:NEAR.so:FAR.so");
  return std::make_unique<Composed>(parts[0], parts[1], parts[2]);
}

}  // namespace comm_test

namespace abi_host {

plait_error* error_new(uint32_t code, const char* text, uint64_t size, plait_error* cause) {
  return plait::new_c_error(code, text, size, cause);
}
uint32_t error_code(const plait_error* e) { return e->code; }
const char* error_text(const plait_error* e) { return e->text.c_str(); }
void error_free(plait_error* e) { plait::free_c_error(e); }
long live_errors() { return 0; }  // leak checkers see them

}  // namespace abi_host
