// Generation: a prompt of 256 ids in every slot, then --steps tokens each. Prints one JSON line:
// the time to the first token, tokens per second behind it, and the bytes that a token reads at
// least: all parameters, or their numbers of 8 bits.
#include <plait/generate.hpp>

#include <nlohmann/json.hpp>

#include "common.hpp"

namespace {

constexpr int kPrompt = 256;

std::vector<int32_t> prompt_of(int number) {
  std::vector<int32_t> ids;
  for (int i = 0; i < kPrompt; ++i) ids.push_back((i * 37 + number * 11) % 1000);
  return ids;
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
