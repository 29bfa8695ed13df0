// Megabytes of text per second that a tokenizer makes ids of, on the calling thread.
//   bench_tokenize TOKENIZER.json TEXT [SECONDS]     one round for every line on stdin
// The documents of TEXT end with NUL. The first line tells the number of ids, and a sum over them
// in order with which a peer can be compared.
#include <plait/encode.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

#include "common.hpp"

namespace {

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("[bench] ") + path + " can't be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string_view> documents_of(std::string_view text) {
  std::vector<std::string_view> documents;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    documents.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return documents;
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    if (count < 3)
      throw std::runtime_error(
          "[bench] expected: bench_tokenize TOKENIZER.json TEXT [SECONDS]; TEXT has documents that "
          "end with NUL");
    const double seconds = count > 3 ? std::atof(values[3]) : 1;
    const plait::Engine engine(plait::EngineSettings{});
    const plait::Tokenizer tokenizer(
        engine, "type = \"hf\"\npath = " + nlohmann::json(values[1]).dump());  // a TOML string, too
    const std::string text = read_file(values[2]);
    const auto documents = documents_of(text);
    uint64_t sum = 0, n = 0;
    for (const auto document : documents)
      for (const int32_t id : tokenizer.encode(document)) {
        sum = sum * 31 + static_cast<uint64_t>(id);
        ++n;
      }
    const std::string members =
        ", \"ids\": " + std::to_string(n) + ", \"sum\": " + std::to_string(sum);
    bench::rounds_on_input(members, [&] {
      const auto all = [&](long times) {
        for (long i = 0; i < times; ++i)
          for (const auto document : documents) tokenizer.encode(document);
      };
      const bench::Rate rate = bench::rate_of(all, seconds);
      std::printf("{\"mb_per_s\": %.3f, \"cpus\": %.2f}\n",
                  rate.per_second * static_cast<double>(text.size()) * 1e-6, rate.cpus);
    });
  });
}
