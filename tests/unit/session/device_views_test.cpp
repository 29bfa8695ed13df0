// Tensors of the host on the session's device, and views of the session's memory there: a program
// that computes beside the session on the device `async`, which takes its time.
#include <algorithm>
#include <cstring>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

const std::vector<std::string> kAsync{"run.device=async", "device.pinned_only=true",
                                      "device.delay=1000"};
constexpr plait_dl_device kOwn{12, 0};  // of that device
const std::string kWeight = "model.linear1.weight";

std::vector<std::string> with(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

session::Settings no_files() {
  session::Settings s;
  s.no_files = true;
  return s;
}

void good(plait_error* e) { REQUIRE(e == nullptr); }

// Memory and a stream of the host's on the session's device.
class Neighbour {
 public:
  explicit Neighbour(session::Session& s) : held_(s.view(kWeight, read_only())) {
    good(item().queue_open(handle(), &queue_));
  }
  ~Neighbour() {
    good(item().sync(queue_));
    item().queue_close(queue_);
    for (void* p : memory_) item().free(handle(), p);
    for (void* p : pinned_) item().host_free(handle(), p);
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  static session::ViewRequest read_only() {
    session::ViewRequest r;
    r.read_only = true;
    return r;
  }
  void* stream() const { return queue_; }
  void* alloc(uint64_t bytes) {
    void* p = nullptr;
    good(item().alloc(handle(), bytes, &p));
    return memory_.emplace_back(p);
  }
  // What the stream does next; it is late.
  void write(void* to, const void* from, uint64_t bytes) {
    void* const source = pinned(bytes);
    std::memcpy(source, from, bytes);
    void* const other = alloc(64);
    for (int i = 0; i < 20; ++i) good(item().copy(queue_, PLAIT_COPY_ON_DEVICE, other, other, 64));
    good(item().copy(queue_, PLAIT_COPY_TO_DEVICE, to, source, bytes));
  }
  std::vector<float> read(const session::View& view) {
    const auto n = static_cast<size_t>(program::elements(view.shape));
    auto* const target = static_cast<float*>(pinned(n * sizeof(float)));
    good(item().copy(queue_, PLAIT_COPY_TO_HOST, target, view.data, n * sizeof(float)));
    good(item().sync(queue_));
    return {target, target + n};
  }

 private:
  const runtime::Device& device() const { return held_.arena->device(); }
  const plait_device_item& item() const { return device().item(); }
  plait_device* handle() const { return device().handle(); }
  void* pinned(uint64_t bytes) {
    void* p = nullptr;
    good(item().host_alloc(handle(), bytes, &p));
    return pinned_.emplace_back(p);
  }
  const session::View held_;
  plait_queue* queue_ = nullptr;
  std::vector<void*> memory_, pinned_;
};

// n samples with weights, and tensors of them in host memory.
struct Samples {
  std::vector<float> x, weight;
  std::vector<int32_t> label;
  int64_t x_shape[2], shape[1];
  plait_dl_tensor tensors[3] = {};
  Samples(int64_t n, int seed) : x_shape{n, 6}, shape{n} {
    for (int64_t i = 0; i < n * 6; ++i)
      x.push_back(static_cast<float>((i * 37 + seed * 11) % 23) / 23 - 0.5F);
    for (int64_t i = 0; i < n; ++i) {
      label.push_back(static_cast<int32_t>((i + seed) % 4));
      weight.push_back(static_cast<float>(1 + (i + seed) % 3));
    }
    tensors[0] = {x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
    tensors[1] = {label.data(), {1, 0}, 1, {0, 32, 1}, shape, nullptr, 0};
    tensors[2] = {weight.data(), {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  }
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;
  std::vector<session::HostField> fields() const {
    return {{"x", &tensors[0]}, {"label", &tensors[1]}, {"weight", &tensors[2]}};
  }
  // Has the stream write those fields to memory of the device, where the tensors are then.
  void move(Neighbour& to, const std::vector<int>& which) {
    for (const int i : which) {
      plait_dl_tensor& t = tensors[i];
      const uint64_t bytes = 4 * static_cast<uint64_t>(t.shape[0]) * (t.ndim == 2 ? 6 : 1);
      const void* const from = t.data;
      t.data = to.alloc(bytes + 64);
      t.byte_offset = 8;
      t.device = kOwn;
      to.write(static_cast<char*>(t.data) + 8, from, bytes);
    }
  }
};

std::string error_of(const std::function<void()>& f, uint32_t code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.full_text();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a step on tensors of the device is the step on the same samples of the host") {
  for (const char* micro : {"batch.micro=8", "batch.micro=2"}) {
    CAPTURE(micro);
    HookedFiles files;
    Rank host(with(kAsync, {micro}), files, no_files()),
        device(with(kAsync, {micro}), files, no_files());
    Neighbour neighbour(*device.session);
    const std::vector<int> fields[] = {{0, 1, 2}, {0}, {1, 2}, {0, 1}};
    for (int step = 0; step < 8; ++step) {
      CAPTURE(step);
      // A micro-batch may be whole, in part, or zeros alone.
      Samples own(step % 3 == 2 ? 3 : 8, step), moved(step % 3 == 2 ? 3 : 8, step);
      moved.move(neighbour, fields[step % 4]);
      const session::StepResult a = host.session->step(own.fields());
      device.session->wait_stream(neighbour.stream());
      const session::StepResult b = device.session->step(moved.fields());
      CHECK(a.loss == b.loss);
      CHECK(a.grad_norm == b.grad_norm);
    }
  }
}

TEST_CASE("a prediction from the device, and views of its outputs") {
  HookedFiles files;
  Rank rank(kAsync, files, no_files());
  Neighbour neighbour(*rank.session);
  Samples samples(5, 1), moved(5, 1);
  std::vector<float> expected(5 * 4), found(5 * 4);
  rank.session->predict({samples.fields()[0]}, {{"output", expected.data(), expected.size() * 4}});
  moved.move(neighbour, {0});
  rank.session->wait_stream(neighbour.stream());
  rank.session->predict({moved.fields()[0]}, {{"output", found.data(), found.size() * 4}});
  CHECK(found == expected);

  // Nothing is copied to the host: the view shows the rows of the batch.
  const Samples other(5, 2);
  rank.session->predict({other.fields()[0]}, {{"output", nullptr, 0}});
  session::ViewRequest request;
  request.kind = PLAIT_VIEW_OUTPUT;
  request.stream = neighbour.stream();
  const session::View output = rank.session->view("output", request);
  CHECK(output.device.type == kOwn.type);
  CHECK(output.read_only);
  CHECK(output.shape.dims[1] == 4);
  const std::vector<float> rows = neighbour.read(output);
  rank.session->predict({other.fields()[0]}, {{"output", expected.data(), expected.size() * 4}});
  CHECK(std::equal(expected.begin(), expected.end(), rows.begin()));
  CHECK(expected != found);
}

TEST_CASE("views of parameters and results are what the host reads") {
  HookedFiles files;
  Rank rank(kAsync, files, no_files());
  Neighbour neighbour(*rank.session);
  session::ViewRequest request;
  request.stream = neighbour.stream();
  const session::View weight = rank.session->view(kWeight, request);
  CHECK(!weight.read_only);
  std::vector<float> values(static_cast<size_t>(program::elements(weight.shape)));
  const auto read = [&] {
    rank.session->read(kWeight, values.data(), values.size() * sizeof(float));
    return values;
  };
  request.kind = PLAIT_VIEW_RESULT;
  const session::View loss = rank.session->view("model.loss", request),
                      norm = rank.session->view("model.grad_norm", request);
  CHECK(loss.shape.ndim == 0);
  for (int step = 0; step < 4; ++step) {
    const session::StepResult r = rank.session->step();
    CHECK(neighbour.read(weight) == read());
    CHECK(neighbour.read(loss)[0] == static_cast<float>(r.loss));
    CHECK(neighbour.read(norm)[0] == static_cast<float>(r.grad_norm));
  }
  // What the host's stream writes is what the session reads next.
  std::fill(values.begin(), values.end(), 0.125F);
  const std::vector<float> written = values;
  neighbour.write(weight.data, written.data(), written.size() * sizeof(float));
  rank.session->wait_stream(neighbour.stream());
  CHECK(read() == written);
}

TEST_CASE("a view may outlive its session, and end on another thread") {
  HookedFiles files;
  session::View view;
  {
    Rank rank(kAsync, files, no_files());
    view = rank.session->view(kWeight, {});
    rank.session->step();
  }
  CHECK(view.arena->device().info().dl_type == kOwn.type);
  std::thread([last = std::move(view)]() mutable { last = {}; }).join();
}

TEST_CASE("while a host may write through a view, 16-bit copies are made anew") {
  HookedFiles files;
  Rank rank(with(kAsync, {"precision.compute=bf16"}), files, no_files());
  Neighbour neighbour(*rank.session);
  const Samples samples(8, 3);
  std::vector<float> before(8 * 4), after(8 * 4);
  const auto predict = [&](std::vector<float>& out) {
    rank.session->predict({samples.fields()[0]}, {{"output", out.data(), out.size() * 4}});
  };
  const session::View weight = rank.session->view(kWeight, {});
  predict(before);
  const std::vector<float> zeros(static_cast<size_t>(program::elements(weight.shape)), 0.0F);
  neighbour.write(weight.data, zeros.data(), zeros.size() * sizeof(float));
  rank.session->wait_stream(neighbour.stream());
  predict(after);
  CHECK(before != after);
  CHECK(std::equal(after.begin() + 4, after.end(), after.begin()));  // every row is the bias
  CHECK(rank.session->view(kWeight, Neighbour::read_only()).share == nullptr);
  CHECK(rank.session->view(kWeight, {}).share != nullptr);
}

TEST_CASE("feeds and views on other devices are refused, with both named") {
  HookedFiles files;
  Rank rank(kAsync, files, no_files()), reference({"run.device=reference"}, files, no_files());
  Samples samples(8, 4);
  const auto step = [&](Rank& on, plait_dl_device device) {
    samples.tensors[0].device = device;
    return error_of([&] { on.session->step(samples.fields()); }, PLAIT_ERR_INVALID);
  };
  CHECK(contains(step(rank, {2, 1}),
                 "[feed] field 'x' lies on CUDA device 1, expected host memory or DLPack device of "
                 "type 12, index 0, where this session is; copy it there"));
  CHECK(contains(step(rank, {12, 3}), "or open the session on that device"));
  CHECK(contains(step(reference, {2, 0}), "lies on CUDA device 0, expected host memory; copy"));
  samples.tensors[0].device = {3, 0};  // pinned
  CHECK_NOTHROW(rank.session->step(samples.fields()));

  session::ViewRequest request;
  request.device = {1, 0};
  CHECK(contains(error_of([&] { rank.session->view(kWeight, request); }, PLAIT_ERR_UNIMPLEMENTED),
                 "lies in memory of DLPack device of type 12, index 0, and a view of it was asked "
                 "for in host memory"));
  CHECK_NOTHROW(reference.session->view(kWeight, request));
  request.device = {};
  request.kind = PLAIT_VIEW_RESULT;
  CHECK(contains(error_of([&] { rank.session->view("model.los", request); }, PLAIT_ERR_NOT_FOUND),
                 "did you mean 'model.loss'"));
  request.kind = PLAIT_VIEW_OUTPUT;
  CHECK(contains(error_of([&] { rank.session->view("logit", request); }, PLAIT_ERR_NOT_FOUND),
                 "output"));
  request.kind = 7;
  CHECK(contains(error_of([&] { rank.session->view(kWeight, request); }, PLAIT_ERR_INVALID),
                 "a view of kind 7 is not known"));
  CHECK(contains(error_of([&] { reference.session->wait_stream(&files); }, PLAIT_ERR_UNIMPLEMENTED),
                 "device 'reference' knows no streams of the host; wait until the stream's work is "
                 "done, then make the next call"));
  request.kind = PLAIT_VIEW_PARAMETER;
  request.stream = &files;
  CHECK(contains(
      error_of([&] { reference.session->view(kWeight, request); }, PLAIT_ERR_UNIMPLEMENTED),
      "knows no streams of the host; pass NULL as the stream"));
}

TEST_CASE("memory of an extension device that the host can use is host memory as well") {
  HookedFiles files;
  Rank rank({"run.device=async", "device.visible=true", "device.extension=true"}, files,
            no_files());
  const auto view_in = [&](plait_dl_device wanted) {
    session::ViewRequest request;
    request.device = wanted;
    return rank.session->view(kWeight, request);
  };
  const session::View host = view_in({1, 0}), own = view_in(kOwn), any = view_in({});
  CHECK(host.device.type == 1);
  CHECK(host.device.id == 0);
  CHECK(own.device.type == kOwn.type);
  CHECK(any.device.type == kOwn.type);
  CHECK(host.data == own.data);
  std::vector<float> values(static_cast<size_t>(program::elements(host.shape)));
  rank.session->read(kWeight, values.data(), values.size() * sizeof(float));
  CHECK(std::memcmp(values.data(), host.data, values.size() * sizeof(float)) == 0);
  for (const plait_dl_device& other : {plait_dl_device{1, 1}, {2, 0}, {12, 1}})
    error_of([&] { view_in(other); }, PLAIT_ERR_UNIMPLEMENTED);
}

TEST_CASE("values of tensors on the device are checked as those of the host are") {
  HookedFiles files;
  const std::vector<std::string> tokens{
      "model.layers=[{type = \"flatten\"}, {type = \"linear\", name = \"linear1\", out = 4}]"};
  Rank rank(with(kAsync, tokens), files, no_files());
  Neighbour neighbour(*rank.session);
  {
    Samples bad(8, 5);
    bad.label[3] = 9;
    bad.move(neighbour, {1});
    rank.session->wait_stream(neighbour.stream());
    CHECK(contains(error_of([&] { rank.session->step(bad.fields()); }, PLAIT_ERR_DATA),
                   "field 'label' is 9"));
  }
  Samples nan(5, 6);
  nan.x[7] = std::numeric_limits<float>::quiet_NaN();
  nan.move(neighbour, {0});
  rank.session->wait_stream(neighbour.stream());
  CHECK(rank.session->step(nan.fields()).skipped);
  const auto said = [](const std::string& line) {
    return contains(line, "field 'x' of its sample 1 is nan");
  };
  CHECK(std::any_of(rank.lines.begin(), rank.lines.end(), said));
}
