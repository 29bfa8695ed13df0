// A device that stops working: every call that waits for it ends after run.device_timeout, and so
// does the close of the session.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/feeder.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

// A device that works may keep a busy machine's calls waiting, but not for so long.
constexpr double kTimeout = 2, kPrompt = 30;

// While it stands, the device does nothing.
class Hang {
 public:
  void begin() const { std::ofstream(path()).put('x'); }
  void end() const { std::filesystem::remove(path()); }
  // What was given up works on in memory that is still there.
  ~Hang() {
    end();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::string path() const { return folder_ / "hang"; }
  std::vector<std::string> keys() const {
    return {"run.device=async",      "device.pinned_only=true",
            "device.hang=" + path(), "run.device_timeout=" + std::to_string(kTimeout),
            "data.eval.samples=20",  "data.eval.type=synthetic",
            "data.eval.shape=[6]",   "data.eval.classes=4"};
  }

 private:
  Folder folder_;
};

void check_late(const Error& e, const std::string& launch) {
  CHECK(e.code() == PLAIT_ERR_DEVICE);
  CHECK(e.full_text().find("device 'async' has not finished") != std::string::npos);
  CHECK_MESSAGE(e.full_text().find(launch) != std::string::npos, e.full_text());
  CHECK(e.full_text().find("expected at most 2 (run.device_timeout)") != std::string::npos);
  CHECK(e.full_text().find("run.device_timeout") != std::string::npos);
}

// Of four samples of zeros.
void predict(Rank& r) {
  constexpr int64_t kSamples = 4, kInputs = 6, kOutputs = 4;
  std::vector<float> x(kSamples * kInputs), out(kSamples * kOutputs);
  int64_t shape[] = {kSamples, kInputs}, strides[] = {kInputs, 1};
  plait_dl_tensor tensor{};
  tensor.data = x.data();
  tensor.device = {1, 0};  // host memory
  tensor.ndim = 2;
  tensor.dtype = session::to_dl(PLAIT_F32);
  tensor.shape = shape;
  tensor.strides = strides;
  r.session->predict({{"x", &tensor}}, {{"output", out.data(), out.size() * sizeof(float)}});
}

std::vector<float> values_of(const plan::Parameter& p) {
  return std::vector<float>(static_cast<size_t>(program::elements(p.shape)));
}

}  // namespace

TEST_SUITE_BEGIN("device_timeout");

TEST_CASE(
    "each call that waits for a device that hangs ends with its name and that of the launch") {
  using Call = std::function<void(Rank&, const std::string& folder)>;
  const std::vector<std::pair<const char*, Call>> calls{
      {"step", [](Rank& r, const std::string&) { r.session->step(); }},
      {"evaluation", [](Rank& r, const std::string&) { r.session->evaluate("eval"); }},
      {"read",
       [](Rank& r, const std::string&) {
         std::vector<float> values = values_of(r.plan->parameters[0]);
         r.session->read(r.plan->parameters[0].name, values.data(), values.size() * sizeof(float));
       }},
      {"write",
       [](Rank& r, const std::string&) {
         const std::vector<float> values = values_of(r.plan->parameters[0]);
         r.session->write(r.plan->parameters[0].name, values.data(), values.size() * sizeof(float));
       }},
      {"save", [](Rank& r, const std::string& folder) { r.session->save(folder); }},
      {"run", [](Rank& r, const std::string&) { r.session->run(); }},
      {"predict", [](Rank& r, const std::string&) { predict(r); }},
  };
  for (const auto& each : calls) {
    const char* const name = each.first;
    const Call& call = each.second;
    CAPTURE(name);
    const Hang hang;
    const Folder folder;
    HookedFiles files;
    session::Settings s;
    s.no_files = true;
    const Stopwatch watch;
    {
      Rank one(hang.keys(), files, std::move(s));
      one.session->step();
      hang.begin();
      const std::string own = folder / "saved";
      const Error first = error_of([&] { call(one, own); });
      const std::set<std::string> evaluating{"evaluation", "predict"};
      check_late(first, evaluating.contains(name) ? "evaluate" : "update");
      CHECK(first.full_text().find("launch ") != std::string::npos);
      // The device was given up: no further call waits for it. Ten waits would take twice as long.
      constexpr int kPairs = 5;
      const Stopwatch again;
      for (int i = 0; i < kPairs; ++i) {
        CHECK(error_of([&] { one.session->step(); }).code() == PLAIT_ERR_DEVICE);
        CHECK(error_of([&] { one.session->evaluate("eval"); }).code() == PLAIT_ERR_DEVICE);
        CHECK(error_of([&] { predict(one); }).code() == PLAIT_ERR_DEVICE);
      }
      CHECK(again.seconds() < kPairs * kTimeout);
    }
    CHECK(watch.seconds() < kPrompt);
  }
}

TEST_CASE("a session whose device hangs does not open") {
  const Hang hang;
  hang.begin();
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  check_late(error_of([&] { const Rank one(hang.keys(), files, std::move(s)); }),
             "the copies before its first launch");
}

TEST_CASE("a session waits at its close for a device that is slow, and does not give it up") {
  const Hang hang;
  HookedFiles files;
  session::Settings s;
  s.no_files = true;
  auto keys = hang.keys();
  keys.emplace_back("run.device_timeout=20");
  auto one = std::make_unique<Rank>(keys, files, std::move(s));
  one->session->step();
  hang.begin();
  constexpr double kSlow = 0.4;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(kSlow));
    hang.end();
  });
  const Stopwatch watch;
  CHECK(error_of([&] { one->session->step(); }).code() == PLAIT_OK);
  one.reset();
  CHECK(watch.seconds() > kSlow / 2);
  CHECK(watch.seconds() < kPrompt);
  later.join();
}

TEST_CASE("a rank whose device opens late is named by the others, which do not wait for it") {
  HookedFiles files;
  const Folder rendezvous;
  std::vector<Error> errors(2, Error(PLAIT_OK, ""));
  on_threads(2, [&](int rank) {
    session::Settings s;
    s.no_files = true;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = 2;
    s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    std::vector<std::string> keys{"run.device=async", "topology.data=2",
                                  "topology.connect_timeout=3"};
    if (rank == 1) keys.emplace_back("device.open_pause=8000");
    errors[static_cast<size_t>(rank)] =
        error_of([&] { const Rank one(keys, files, std::move(s)); });
  });
  const std::string text = errors[0].full_text();
  CHECK_MESSAGE(errors[0].code() == PLAIT_ERR_PEER, text);
  CHECK_MESSAGE(text.find("rank 1 on ") != std::string::npos, text);
  CHECK_MESSAGE(text.find("did not get as far as this rank within 3 seconds") != std::string::npos,
                text);
  CHECK_MESSAGE(text.find("topology.connect_timeout") != std::string::npos, text);
  CHECK_MESSAGE(errors[1].code() == PLAIT_ERR_PEER, errors[1].full_text());
}

TEST_CASE("a rank whose device hangs ends the others, and both sessions close") {
  const Hang hang;
  const Folder folder, rendezvous;
  HookedFiles files;
  std::vector<Error> errors(2, Error(PLAIT_OK, ""));
  const Stopwatch watch;
  on_threads(2, [&](int rank) {
    session::Settings s;
    s.no_files = true;
    s.job.rank = s.job.local_rank = rank;
    s.job.size = s.job.local_size = 2;
    s.job.rendezvous = "file:" + (rendezvous / "rendezvous");
    auto keys = hang.keys();
    for (const char* key : {"topology.data=2", "topology.timeout=2", "run.device_timeout=3"})
      keys.emplace_back(key);
    if (rank == 1) keys.push_back("device.hang=" + (folder / "never"));
    errors[static_cast<size_t>(rank)] = error_of([&] {
      Rank one(keys, files, std::move(s));
      one.session->step();
      if (rank == 0) hang.begin();
      for (int i = 0; i < 3; ++i) one.session->step();
    });
  });
  CHECK(watch.seconds() < 3 * kPrompt);
  // The collective ends before the device's time does.
  CHECK(errors[1].code() == PLAIT_ERR_PEER);
  CHECK_MESSAGE(errors[1].full_text().find("rank 0") != std::string::npos, errors[1].full_text());
  CHECK_MESSAGE(errors[0].code() == PLAIT_ERR_DEVICE, errors[0].full_text());
  CHECK(errors[0].full_text().find("it hangs or waits for a rank that does") != std::string::npos);
  // The device may wait for the other rank: topology.timeout comes on top.
  CHECK_MESSAGE(
      errors[0].full_text().find("expected at most 5 (run.device_timeout + topology.timeout);") !=
          std::string::npos,
      errors[0].full_text());
}

TEST_SUITE_END();
