#include "engine/checkpoint/compare.hpp"

#include <plait/base.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "kit/dtype.hpp"
#include "kit/half.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;

struct Pair {
  MemoryFiles files;
  Lines lines;
  Checkpoint save(const std::string& folder, const RunState& state,
                  const std::vector<SaveTensor>& tensors) {
    return Checkpoint(files, CheckpointWriter(files, folder, 0, lines.log).save(state, tensors));
  }
  Comparison compare(const Checkpoint& a, const Checkpoint& b,
                     Compared what = Compared::kEverything) {
    uint64_t bytes = 0;
    Comparison c = compare_checkpoints(a, b, what, [&](uint64_t n) { bytes += n; });
    CHECK(bytes == bytes_to_compare(a, b, what));
    return c;
  }
};

std::vector<std::string> keys(const std::vector<ChangedValue>& changes) {
  std::vector<std::string> all;
  for (const ChangedValue& c : changes) all.push_back(c.key + ": " + c.a + " -> " + c.b);
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a checkpoint equals itself, however ranks divided it") {
  Pair p;
  const Sample sample(3);
  const Checkpoint one = p.save("one", sample.state(), sample.tensors());
  for (const int32_t ranks : {1, 2, 3, 7}) {
    const std::string path =
        save_sharded(p.files, "n" + std::to_string(ranks), 0, p.lines.log, sample, ranks);
    const Comparison c = p.compare(one, Checkpoint(p.files, path));
    CHECK(c.equal());
    CHECK(c.tensors == 3);
    CHECK(c.elements == 1401);
  }
}

TEST_CASE("each element that differs is counted, the greatest difference is found") {
  Pair p;
  Sample sample(3);
  const Checkpoint a = p.save("a", sample.state(), sample.tensors());
  sample.weight[8] += 0.5f;
  sample.weight[699] -= 2;
  sample.weight[3] = 0;
  sample.momentum[0] = std::numeric_limits<float>::quiet_NaN();
  const std::string path = save_sharded(p.files, "b", 0, p.lines.log, sample, 3);
  const Comparison c = p.compare(a, Checkpoint(p.files, path));
  REQUIRE(c.changed.size() == 2);
  const ChangedTensor& w = c.changed[0];
  CHECK(w.a->name == "fc.weight");
  CHECK(w.elements == 700);
  CHECK(w.different == 3);
  CHECK(w.at == 3);  // 3.003 became 0
  CHECK(w.max_abs == doctest::Approx(3.003));
  CHECK(w.max_rel == 1);
  CHECK(w.not_finite == 0);
  CHECK(c.changed[1].a->name == "fc.weight.momentum");
  CHECK(c.changed[1].different == 1);
  CHECK(c.changed[1].not_finite == 1);
  CHECK(c.changed[1].at == -1);
  CHECK_FALSE(c.equal());
  CHECK(c.state.empty());
  CHECK(p.compare(a, Checkpoint(p.files, path), Compared::kParameters).changed.size() == 1);
}

TEST_CASE("bits count, not values") {
  Pair p;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{0.0f, nan, 1, 0.0f}, b{-0.0f, nan, 1, -0.0f};
  const RunState state = Sample(3).state();
  const Checkpoint of_a = p.save("a", state, {{"w", PLAIT_F32, {4}, a.data()}});
  const Checkpoint of_b = p.save("b", state, {{"w", PLAIT_F32, {4}, b.data()}});
  const Comparison c = p.compare(of_a, of_b);
  REQUIRE(c.changed.size() == 1);
  CHECK(c.changed[0].different == 2);  // the zeros, and not the equal NaN
  CHECK(c.changed[0].max_abs == 0);
  CHECK(c.changed[0].at == 0);  // the first of equal differences
}

TEST_CASE("other types are compared as numbers, other shapes are not") {
  Pair p;
  const std::vector<float> wide{1, 2.5f, 1.0001f};
  const std::vector<double> wider{1, 2.5, 1.0001f};
  std::vector<uint16_t> half;
  for (const float v : wide) half.push_back(plait::kit::to_bf16(v));
  const std::vector<int32_t> whole{1, 2, 3}, other{1, 2, 5};
  const RunState state = Sample(3).state();
  const auto tensor = [](const char* name, uint32_t dtype, std::vector<int64_t> shape,
                         const void* data) {
    return SaveTensor{name, dtype, std::move(shape), data};
  };
  const Checkpoint a = p.save(
      "a", state,
      {tensor("same", PLAIT_F32, {3}, wide.data()), tensor("rounded", PLAIT_F32, {3}, wide.data()),
       tensor("shape", PLAIT_F32, {3}, wide.data()), tensor("kind", PLAIT_F32, {3}, wide.data()),
       tensor("whole", PLAIT_I32, {3}, whole.data()), tensor("gone", PLAIT_F32, {3}, wide.data())});
  const Checkpoint b = p.save(
      "b", state,
      {tensor("same", PLAIT_F64, {3}, wider.data()),
       tensor("rounded", PLAIT_BF16, {3}, half.data()),
       tensor("shape", PLAIT_F32, {1, 3}, wide.data()),
       tensor("kind", PLAIT_I32, {3}, whole.data()), tensor("whole", PLAIT_I32, {3}, other.data()),
       tensor("new", PLAIT_F32, {3}, wide.data())});
  const Comparison c = p.compare(a, b);
  REQUIRE(c.changed.size() == 5);  // by name
  CHECK((c.changed[0].a->name == "kind" && !c.changed[0].compared));
  CHECK((c.changed[1].a->name == "rounded" && c.changed[1].different == 1));
  CHECK(c.changed[1].max_abs == doctest::Approx(0.0001).epsilon(0.01));
  CHECK((c.changed[2].a->name == "same" && c.changed[2].different == 0));
  CHECK((c.changed[3].a->name == "shape" && !c.changed[3].compared));
  CHECK((c.changed[4].a->name == "whole" && c.changed[4].max_abs == 2));
  REQUIRE(c.only_a.size() == 1);
  CHECK(c.only_a[0]->name == "gone");
  REQUIRE(c.only_b.size() == 1);
  CHECK(c.only_b[0]->name == "new");
}

TEST_CASE("floats of each two types are compared by value, whole numbers of one type") {
  // 1, 2.5 and -3 in each type; in the last element they differ by 0.5.
  struct Values {
    uint32_t dtype;
    std::vector<std::byte> bytes;
  };
  const auto values = [](uint32_t dtype, float last) {
    Values v{dtype, {}};
    for (const float f : {1.0f, 2.5f, last}) {
      const auto add = [&v](auto number) {
        const auto* const p = reinterpret_cast<const std::byte*>(&number);
        v.bytes.insert(v.bytes.end(), p, p + sizeof number);
      };
      switch (dtype) {
        case PLAIT_F64:
          add(static_cast<double>(f));
          break;
        case PLAIT_F32:
          add(f);
          break;
        case PLAIT_BF16:
          add(plait::kit::to_bf16(f));
          break;
        case PLAIT_F16:
          add(plait::kit::to_f16(f));
          break;
        case PLAIT_I64:
          add(static_cast<int64_t>(f * 2));
          break;
        case PLAIT_I32:
          add(static_cast<int32_t>(f * 2));
          break;
        default:
          add(static_cast<uint8_t>(f * -2 + 100));
      }
    }
    return v;
  };
  const uint32_t kFloats[] = {PLAIT_F64, PLAIT_F32, PLAIT_BF16, PLAIT_F16};
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const uint32_t a : kFloats)
    for (const uint32_t b : kFloats) pairs.emplace_back(a, b);
  for (const uint32_t whole : {PLAIT_I64, PLAIT_I32, PLAIT_U8}) pairs.emplace_back(whole, whole);
  for (const auto& pair : pairs) {
    CAPTURE(pair.first);
    CAPTURE(pair.second);
    Pair p;
    const Values x = values(pair.first, -3), y = values(pair.second, -3.5f);
    const RunState state = Sample(3).state();
    const Checkpoint a = p.save("a", state, {{"w", x.dtype, {3}, x.bytes.data()}}),
                     b = p.save("b", state, {{"w", y.dtype, {3}, y.bytes.data()}});
    const Comparison c = p.compare(a, b);
    REQUIRE(c.changed.size() == 1);
    CHECK(c.changed[0].compared);
    CHECK(c.changed[0].elements == 3);
    CHECK(c.changed[0].different == 1);
    CHECK(c.changed[0].at == 2);
    CHECK(c.changed[0].max_abs == (plait::kit::is_float(x.dtype) ? 0.5 : 1));
  }
  Pair p;
  const Values x = values(PLAIT_I64, -3), y = values(PLAIT_F64, -3);
  const Checkpoint a = p.save("a", Sample(3).state(), {{"w", PLAIT_I64, {3}, x.bytes.data()}}),
                   b = p.save("b", Sample(3).state(), {{"w", PLAIT_F64, {3}, y.bytes.data()}});
  const Comparison c = p.compare(a, b);
  REQUIRE(c.changed.size() == 1);
  CHECK(!c.changed[0].compared);
}

TEST_CASE("state and settings that differ are named") {
  Pair p;
  const Sample sample(3);
  RunState s = sample.state();
  s.settings = {{"run.seed", "42"}, {"device", "cpu"}};
  s.extra = "{\"updates\":3,\"best\":\"0x1.8p+1\"}";
  const Checkpoint a = p.save("a", s, sample.tensors());
  s.step = 4;
  s.world.tensor = 2;
  s.cursors["train"] = 9;
  s.settings = {{"run.seed", "43"}, {"mode", "x"}};
  s.extra = "{\"updates\":3,\"best\":\"0x1.8p+2\"}";
  s.lineage = "other";
  s.engine_version = "9";
  s.saved_at = 5;
  const Checkpoint b = p.save("b", s, sample.tensors());
  const Comparison c = p.compare(a, b);
  CHECK(keys(c.state) == Texts{"best: 3.0 -> 6.0", "position in train: 3 -> 9", "step: 3 -> 4",
                               "topology.tensor: 1 -> 2"});
  CHECK(keys(c.settings) == Texts{"device: cpu -> ", "run.seed: 42 -> 43", "mode:  -> x"});
  CHECK(c.changed.empty());
  CHECK_FALSE(c.equal());
  CHECK(p.compare(a, b, Compared::kTensors).equal());
}

TEST_CASE("words that are hexadecimal numbers as a whole are shown as decimal ones") {
  Pair p;
  const Sample sample(3);
  const auto with = [&](const char* folder, const std::string& words) {
    RunState s = sample.state();
    s.extra = "{\"words\":\"" + words + "\"}";
    return p.save(folder, s, sample.tensors());
  };
  const Checkpoint a = with("a", "0x1.8p+1 -0x1p-1 0x1p+0y 0x 007 -2 x0x1p+0"),
                   b = with("b", "0x1.8p+2");
  CHECK(keys(p.compare(a, b).state) == Texts{"words: 3.0 -0.5 0x1p+0y 0x 007 -2 x0x1p+0 -> 6.0"});
}

TEST_CASE("damage is an error, never a difference") {
  Pair p;
  const Sample sample(3);
  const Checkpoint a = p.save("a", sample.state(), sample.tensors());
  p.save("b", sample.state(), sample.tensors());
  const std::string path = "b/step-0000000003/model.safetensors";
  std::string text = p.files.content(path);
  text.back() ^= 1;
  p.files.set_content(path, text);
  const Checkpoint b(p.files, "b/step-0000000003", Checkpoint::Verify::kLater);
  CHECK(error_of([&] { compare_checkpoints(a, b, Compared::kEverything, {}); }, PLAIT_ERR_DATA)
            .find("tensor 'fc.weight' does not match its checksum") != std::string::npos);
}
