// Documents packed into one sample give the loss and the gradients that they give alone.
#include <cmath>
#include <cstring>
#include <fstream>

#include "tests/unit/host/host.hpp"

using host::Run;

namespace {

// Two documents, of 6 and of 4 tokens, as files of token ids.
void write_tokens(const host::TempFolder& folder) {
  const std::vector<uint16_t> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
  const int32_t lengths[] = {6, 4};
  const int64_t offsets[] = {0, 12}, starts[] = {0, 1, 2};
  std::ofstream(folder / "t.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), 20);
  std::ofstream idx(folder / "t.idx", std::ios::binary);
  const auto put = [&](const auto& value) {
    idx.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  idx.write("MMIDIDX\0\0", 9);
  put(uint64_t{1});
  put(uint8_t{8});
  put(uint64_t{2});
  put(uint64_t{3});
  put(lengths);
  put(offsets);
  put(starts);
}

std::string toml(const host::TempFolder& folder, const std::string& pack, int samples,
                 const std::string& learned) {
  return "[run]\nseed = 3\nthreads = 1\nsteps = 3\n[precision]\ncompute = \"f64\"\n[batch]\nglobal "
         "= " +
         std::to_string(samples) + R"(
[data.train]
type = "tokens"
length = 8
shuffle = false
reset_attention = true
reset_positions = true
pack = ")" +
         pack + "\"\npath = \"" + (folder / "t.bin") + R"("
[model]
layers = [
  {type = "embedding", name = "embed", vocabulary = 10, width = 16, std = 0.5},)" +
         learned +
         R"(
  {type = "decoder_block", name = "h", repeat = 2, heads = 4, kv_heads = 2, norm = "rms_norm", )"
         R"(rope = "half", documents = "first", std = 0.2},
  {type = "linear", name = "head", out = 10},
]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.1
)";
}

}  // namespace

TEST_CASE("packed documents are as if alone") {
  const host::TempFolder folder;
  write_tokens(folder);
  for (const std::string learned :
       {"", R"({type = "positions", length = 6, positions = "positions", std = 0.5},)"}) {
    const Run packed(toml(folder, "best_fit", 1, learned)), alone(toml(folder, "none", 2, learned));
    for (int step = 0; step < 3; ++step) {
      const plait_step_result a = packed.step(), b = alone.step();
      CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-6));
      CHECK(a.grad_norm == doctest::Approx(b.grad_norm).epsilon(1e-5));
      CHECK(std::isfinite(a.loss));
    }
  }
}

TEST_CASE("a field that does not say something for each token is refused") {
  const host::TempFolder folder;
  write_tokens(folder);
  const std::string good = toml(folder, "best_fit", 1, "");
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return host::failure_of([&] { const Run run(text); }).text;
  };
  CHECK(refusal("documents = \"first\"", "documents = \"embed\"")
            .find("documents names 'embed', which is f64 (1, 8, 16), expected an integer for each "
                  "token, (1, 8)") != std::string::npos);
  CHECK(
      refusal("documents = \"first\"", "documents = \"firts\"").find("there is no value 'firts'") !=
      std::string::npos);
  CHECK(refusal("reset_attention = true", "reset_attention = false")
            .find("there is no value 'first'") != std::string::npos);
}
