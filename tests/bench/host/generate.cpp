// Generation: a prompt of 256 ids in every slot, then --steps tokens each. Prints one JSON line:
// the time to the first token, tokens per second behind it, and the bytes that a token reads at
// least: all parameters, or their numbers of 8 bits.
//   --mode switch  sequences of one token behind one id in one slot, --steps of each: with adapter
//   "a0" each time, and with "a0" and "a1" in turn; prints the median time of both
#include <plait/generate.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "common.hpp"

namespace {

constexpr int kPrompt = 256;

std::vector<int32_t> prompt_of(int number) {
  std::vector<int32_t> ids;
  for (int i = 0; i < kPrompt; ++i) ids.push_back((i * 37 + number * 11) % 1000);
  return ids;
}

// Both take turns, so that what disturbs the machine disturbs both.
void time_switch(plait::Generator& generator, int times) {
  const int32_t id = 7;
  const char* last = "a0";
  const auto sequence = [&](const char* adapter) {
    plait_prompt prompt{};
    prompt.max_tokens = 1;
    prompt.adapter = last = adapter;
    const double start = bench::now();
    generator.add(std::span<const int32_t>(&id, 1), prompt);
    while (generator.step([](const plait_token&) { return true; }) > 0) {
    }
    return bench::now() - start;
  };
  for (int i = 0; i < 4; ++i) sequence("a0");
  std::vector<double> same, other;
  for (int i = 0; i < times; ++i) {
    same.push_back(sequence(last));
    other.push_back(sequence(i % 2 == 0 ? "a1" : "a0"));
  }
  const auto median = [](std::vector<double>& all) {
    std::nth_element(all.begin(), all.begin() + static_cast<long>(all.size() / 2), all.end());
    return all[all.size() / 2];
  };
  std::printf(R"({"same_s": %.6f, "other_s": %.6f})", median(same), median(other));
  std::putchar('\n');
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    bench::Arguments a(count, values);
    const plait::Engine engine(bench::settings(a));
    const plait::Plan plan(plait::Experiment::read(engine, a.experiment, a.overrides));
    plait::SessionSettings settings;
    settings.no_files = true;
    plait::Session session(plan, std::move(settings));
    const auto memory = nlohmann::json::parse(plan.describe()).at("memory");
    const auto values_of = nlohmann::json::parse(
        plait::Experiment::read(engine, a.experiment, a.overrides).describe());
    const int slots = std::max(1, values_of.at("generate.slots").at("value").template get<int>());
    plait::Generator generator(session);
    if (a.mode == "switch") return time_switch(generator, a.steps);
    plait_prompt like{};
    like.max_tokens = a.steps + 1;
    const auto nothing = [](const plait_token&) { return true; };
    // Once to warm up: pages are touched, threads awake.
    double first = 0, rest = 0, cpus = 0;
    for (int round = 0; round < 2; ++round) {
      for (int s = 0; s < slots; ++s) generator.add(std::span<const int32_t>(prompt_of(s)), like);
      const double start = bench::now();
      generator.step(nothing);
      first = bench::now() - start;
      const double cpu = bench::cpu_seconds(), begin = bench::now();
      while (generator.step(nothing) > 0) {
      }
      rest = bench::now() - begin;
      cpus = (bench::cpu_seconds() - cpu) / rest;
    }
    const double int8_bytes = memory.at("int8_weights").get<double>();
    std::printf(
        R"({"slots": %d, "prompt": %d, "tokens": %d, "first_s": %.6f, "tokens_per_s": %.3f, )"
        R"("weight_bytes": %.0f, "cache_bytes": %.0f, "cpus": %.2f})",
        slots, kPrompt, a.steps, first, slots * a.steps / rest,
        int8_bytes > 0 ? int8_bytes : memory.at("parameters").get<double>(),
        memory.at("cache").get<double>(), cpus);
    std::putchar('\n');
  });
}
