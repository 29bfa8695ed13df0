#include "tests/conformance/runner.hpp"

#include <cmath>
#include <stdexcept>

#include "kit/shape.hpp"
#include "plugins/support/elements.hpp"

namespace conformance {

Desc::Desc(const Case& c, uint32_t threads, bool in_place) {
  for (const Input& in : c.inputs) inputs_.push_back(in.shape);
  for (const auto* list : {&c.attrs, &c.permits})
    for (const Attr& a : *list)
      attrs_.push_back({a.name.c_str(), a.type, static_cast<uint32_t>(a.ints.size()), a.i, a.f,
                        a.text.c_str(), a.ints.data()});
  map_ = {sizeof(plait_map),
          static_cast<uint32_t>(inputs_.size()),
          static_cast<uint32_t>(c.map.instrs.size()),
          static_cast<uint32_t>(c.map.outputs.size()),
          0,
          c.map.instrs.data(),
          c.map.outputs.data()};
  desc_ = {sizeof(plait_op_desc),
           c.op.c_str(),
           static_cast<uint32_t>(inputs_.size()),
           static_cast<uint32_t>(c.outputs.size()),
           static_cast<uint32_t>(attrs_.size()),
           threads,
           inputs_.data(),
           c.outputs.data(),
           attrs_.data(),
           in_place && !c.in_place.empty() ? c.in_place.data() : nullptr,
           c.map.outputs.empty() ? nullptr : &map_};
}

Selection select(const plait_kernel_item& kernel, const Desc& desc) {
  char detail[512] = "";
  plait_choice choice{sizeof(plait_choice), 0, detail, sizeof(detail)};
  Selection s;
  s.taken = kernel.select(&desc.get(), &choice) == 1;
  s.workspace = choice.workspace;
  s.detail = detail;
  return s;
}

namespace {

// A prepared kernel with its operands in device memory.
struct Prepared {
  const Device& device;
  const plait_kernel_item& item;
  plait_kernel* kernel = nullptr;
  std::vector<std::unique_ptr<Buffer>> inputs,
      outputs;  // outputs[i] is null where it lies on an input
  std::unique_ptr<Buffer> workspace;
  std::vector<void*> operands;

  Prepared(const Device& d, const plait_kernel_item& k, const Case& c, uint32_t threads,
           bool in_place)
      : device(d), item(k) {
    const Desc desc(c, threads, in_place);
    const Selection s = select(k, desc);
    check(k.prepare(d.plugin().host(), d.get(), &desc.get(), &kernel));
    for (const Bytes& data : fill(c)) {
      inputs.push_back(std::make_unique<Buffer>(d, data.size()));
      inputs.back()->put(data);
      operands.push_back(inputs.back()->data());
    }
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const int32_t on = in_place && i < c.in_place.size() ? c.in_place[i] : -1;
      outputs.push_back(on < 0 ? std::make_unique<Buffer>(d, bytes_of(c.outputs[i])) : nullptr);
      operands.push_back(on < 0 ? outputs.back()->data() : operands[static_cast<size_t>(on)]);
    }
    workspace = std::make_unique<Buffer>(d, s.workspace);
  }
  ~Prepared() { item.release(kernel); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  void enqueue() {
    check(device.item().enqueue(device.queue(), &item, kernel, operands.data(),
                                static_cast<uint32_t>(operands.size()), workspace->data()));
  }
  void poison() {
    for (auto& o : outputs)
      if (o) o->poison();
  }
};

void run_captured(Prepared& p) {
  const plait_device_item& d = p.device.item();
  check(d.capture_begin(p.device.queue()));
  p.enqueue();
  plait_graph* graph = nullptr;
  check(d.capture_end(p.device.queue(), &graph));
  for (int i = 0; i < 2; ++i) {
    p.poison();
    check(d.graph_launch(graph, p.device.queue()));
    check(d.sync(p.device.queue()));
  }
  d.graph_close(graph);
}

}  // namespace

std::vector<Bytes> run(const Device& device, const plait_kernel_item& kernel, const Case& c,
                       uint32_t threads, RunMode mode) {
  const bool in_place = mode == RunMode::in_place || c.must_alias;
  Prepared p(device, kernel, c, threads, in_place);
  if (mode == RunMode::captured && !in_place) {
    run_captured(p);
  } else {
    p.enqueue();
    check(device.item().sync(device.queue()));
  }
  std::vector<Bytes> found;
  std::vector<bool> written(c.inputs.size(), false);
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const auto on = p.outputs[i] ? c.inputs.size() : static_cast<size_t>(c.in_place[i]);
    if (!p.outputs[i]) written[on] = true;
    found.push_back((p.outputs[i] ? p.outputs[i] : p.inputs[on])->get());
    if (p.outputs[i] && !p.outputs[i]->guards_intact())
      throw std::runtime_error("writes outside of output " + std::to_string(i));
  }
  const auto before = fill(c);
  for (size_t i = 0; i < before.size(); ++i) {
    if (!written[i] && p.inputs[i]->get() != before[i])
      throw std::runtime_error("changes input " + std::to_string(i));
    if (!p.inputs[i]->guards_intact())
      throw std::runtime_error("writes outside of input " + std::to_string(i));
  }
  if (!p.workspace->guards_intact()) throw std::runtime_error("writes outside of its workspace");
  return found;
}

std::vector<Bytes> expected(const Device& reference, const Case& given) {
  Case c = given;
  c.permits.clear();
  for (const auto* k : reference.plugin().kernels(c.op))
    if (select(*k, Desc(c, 1)).taken) return run(reference, *k, c, 1, RunMode::direct);
  throw std::runtime_error("the reference has no kernel for it");
}

namespace {

// What one rounding to the type may add, relative.
double precision(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F64:
      return 1e-7;  // of the f32 tolerance
    case PLAIT_BF16:
      return 2000;
    case PLAIT_F16:
      return 250;
    default:
      return 1;
  }
}

}  // namespace

std::string difference(const Case& c, const std::vector<Bytes>& found,
                       const std::vector<Bytes>& wanted) {
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    const uint32_t type = c.outputs[o].dtype;
    const int64_t n = plait::kit::elements(c.outputs[o]);
    for (int64_t i = 0; i < n; ++i) {
      const double got = plait::support::read_element(type, found[o].data(), i);
      const double want = plait::support::read_element(type, wanted[o].data(), i);
      const bool same = got == want || (std::isnan(got) && std::isnan(want));
      const double allowed = c.tolerance * precision(type) * std::max(c.scale, std::fabs(want));
      if (!same && !(std::fabs(got - want) <= allowed))
        return "output " + std::to_string(o) + " element " + std::to_string(i) + " is " +
               std::to_string(got) + ", expected " + std::to_string(want) + " within " +
               std::to_string(allowed);
    }
  }
  return "";
}

}  // namespace conformance
