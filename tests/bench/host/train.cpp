// Steps per second of an experiment, or its result.
//   --mode loader    (default) batches come from [data.train]; one round for every line on stdin
//   --mode fed       the host feeds views of 60,000 preloaded samples of 784 numbers, like the
//   PyTorch peer
//   --mode accuracy  runs to the end, evaluates on [data.eval], prints one line
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>

#include "common.hpp"

namespace {

using bench::Arguments;

class Opened {
 public:
  explicit Opened(const Arguments& a)
      : engine_(bench::settings(a)),
        plan_(plait::Experiment::read(engine_, a.experiment, a.overrides)),
        session(plan_, no_files()) {}
  // What a session takes on its device, bytes: as planned, and as it says.
  std::string memory() const {
    const auto planned = nlohmann::json::parse(plan_.describe()).at("memory").at("arena");
    const auto used = nlohmann::json::parse(session.describe()).at("arena_bytes");
    return ", \"planned\": " + planned.dump() + ", \"used\": " + used.dump();
  }

 private:
  static plait::SessionSettings no_files() {
    plait::SessionSettings s;
    s.no_files = true;
    return s;
  }
  plait::Engine engine_;
  plait::Plan plan_;

 public:
  plait::Session session;
};

template <class Step>
void time_rounds(const Arguments& a, const Opened& opened, Step&& step) {
  plait_step_result last{};
  const auto run = [&](long n) {
    for (long i = 0; i < n; ++i) last = step();
  };
  const double start = bench::now();  // to warm up: 20 steps, of a large model fewer
  for (int i = 0; i < 20 && (i < 2 || bench::now() - start < a.seconds); ++i) run(1);
  bench::rounds_on_input(opened.memory(), [&] {
    const bench::Rate r = bench::rate_of(run, a.seconds);
    std::printf(R"({"steps_per_s": %.5g, "cpus": %.2f, "loss": %.5f, "peak_mib": %.1f})",
                r.per_second, r.cpus, last.loss, bench::peak_mib());
    std::putchar('\n');
  });
}

void fed(const Arguments& a) {
  constexpr int64_t kSamples = 60000, kFeatures = 784, kBatch = 32;
  std::mt19937 random(1);
  std::vector<float> x(kSamples * kFeatures);
  std::vector<int32_t> label(kSamples);
  for (float& v : x) v = static_cast<float>(random() >> 8) * 0x1p-24f;
  for (int32_t& v : label) v = static_cast<int32_t>(random() % 10);
  Opened opened(a);
  int64_t at = 0;
  time_rounds(a, opened, [&] {
    const plait::Feed feeds[] = {
        {"x",
         std::span<const float>(&x[static_cast<size_t>(at * kFeatures)], kBatch * kFeatures),
         {kBatch, kFeatures}},
        {"label", std::span<const int32_t>(&label[static_cast<size_t>(at)], kBatch), {kBatch}}};
    at = (at + kBatch) % kSamples;
    return opened.session.step(feeds);
  });
}

void accuracy(const Arguments& a) {
  Opened opened(a);
  const double start = bench::now();
  const plait_step_result last = opened.session.run();
  std::printf(R"({"steps": %ld, "last_loss": %.5f, "seconds": %.3f, "evaluation": %s})",
              static_cast<long>(last.step), last.loss, bench::now() - start,
              opened.session.evaluate("eval").c_str());
  std::putchar('\n');
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    const Arguments a(count, values);
    if (a.mode == "accuracy") return accuracy(a);
    if (a.mode == "fed") return fed(a);
    Opened opened(a);
    time_rounds(a, opened, [&] { return opened.session.step(); });
  });
}
