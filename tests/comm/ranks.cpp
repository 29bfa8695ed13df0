#include "tests/comm/ranks.hpp"

namespace comm_test {

std::vector<Outcome> each_rank(uint32_t size, const std::function<void(uint32_t rank)>& body) {
  std::vector<Outcome> outcomes(size);
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      Outcome& outcome = outcomes[r];
      try {
        body(r);
      } catch (const Failure& e) {
        outcome.code = e.code;
        outcome.text = e.what();
      } catch (const std::exception& e) {
        outcome.code = UINT32_MAX;
        outcome.text = e.what();
      }
      outcome.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<Outcome> run_group(const Plugin& plugin, uint32_t size,
                               const std::function<void(Comm&)>& body,
                               const GroupSettings& settings) {
  MemoryStore store(settings.connect_timeout);
  return each_rank(size, [&](uint32_t rank) {
    Comm comm(plugin, store.raw(), rank, size, settings);
    body(comm);
  });
}

void expect_all_ok(const std::vector<Outcome>& outcomes) {
  std::string failures;  // the first rank's text may only repeat the failure of another
  for (size_t r = 0; r < outcomes.size(); ++r)
    if (!outcomes[r].ok())
      failures += (failures.empty() ? "on rank " : "; on rank ") + std::to_string(r) + ": " +
                  outcomes[r].text;
  if (!failures.empty()) throw std::runtime_error(failures);
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace comm_test
