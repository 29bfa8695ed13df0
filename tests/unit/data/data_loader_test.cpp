#include "engine/data/data_loader.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "engine/base/c_error.hpp"
#include "engine/data/sample_order.hpp"
#include "tests/support/own_threads.hpp"

namespace {

using plait::Error;
using plait::data::Batch;
using plait::data::DataLoader;
using plait::data::DataLoaderConfig;
using plait::data::DatasetSource;

// Sample i: x (3) f32 = i, i+0.5, -i; optionally a weight 1/(i+1); label u8 = i % 251.
struct FakeData {
  int64_t n = 10;
  bool weighted = false;
  std::atomic<int64_t> fail_at{-1};  // reading this sample fails
  std::atomic<bool> no_memory{false};
  std::atomic<int64_t> reads{0};
  std::vector<plait_field> fields;

  explicit FakeData(int64_t samples, bool with_weight = false) : n(samples), weighted(with_weight) {
    fields.push_back({"x", PLAIT_FIELD_INPUT, 0, {PLAIT_F32, 1, {3}}});
    if (weighted) fields.push_back({"w", PLAIT_FIELD_WEIGHT, 0, {PLAIT_F32, 0, {}}});
    fields.push_back({"label", PLAIT_FIELD_TARGET, 0, {PLAIT_U8, 0, {}}});
  }
};

plait_error* fake_info(const void* dataset, plait_dataset_info* out) {
  const auto* d = static_cast<const FakeData*>(dataset);
  out->n_samples = d->n;
  out->fields = d->fields.data();
  out->n_fields = static_cast<uint32_t>(d->fields.size());
  out->fingerprint = 77;
  return nullptr;
}

plait_error* fake_read(const void* dataset, const int64_t* indices, uint64_t n, void* const* outs) {
  auto* d = const_cast<FakeData*>(static_cast<const FakeData*>(dataset));
  ++d->reads;
  if (d->no_memory) throw std::bad_alloc();
  auto* x = static_cast<float*>(outs[0]);
  auto* w = d->weighted ? static_cast<float*>(outs[1]) : nullptr;
  auto* label = static_cast<uint8_t*>(outs[d->weighted ? 2 : 1]);
  for (uint64_t i = 0; i < n; ++i) {
    const int64_t s = indices[i];
    if (s == d->fail_at)
      return plait::new_c_error(PLAIT_ERR_DATA, "sample is broken", PLAIT_NTS, nullptr);
    if (s < 0 || s >= d->n)
      return plait::new_c_error(PLAIT_ERR_INTERNAL, "out of range", PLAIT_NTS, nullptr);
    const auto f = static_cast<float>(s);
    x[3 * i] = f;
    x[3 * i + 1] = f + 0.5f;
    x[3 * i + 2] = -f;
    if (w) w[i] = 1.0f / (f + 1);
    label[i] = static_cast<uint8_t>(s % 251);
  }
  return nullptr;
}

const plait_dataset_item kFake = {sizeof(plait_dataset_item),
                                  "fake",
                                  "numbers",
                                  nullptr,
                                  0,
                                  0,
                                  nullptr,
                                  fake_info,
                                  fake_read,
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  nullptr};

// The same, with the epoch in the label.
plait_error* fake_read_epoch(const void* dataset, int64_t epoch, const int64_t* indices, uint64_t n,
                             void* const* outs) {
  if (plait_error* e = fake_read(dataset, indices, n, outs)) return e;
  auto* label = static_cast<uint8_t*>(outs[1]);
  for (uint64_t i = 0; i < n; ++i)
    label[i] = static_cast<uint8_t>(100 + 10 * epoch + indices[i] % 10);
  return nullptr;
}

DatasetSource source_of(const FakeData& d) { return {&kFake, &d, "train"}; }

// A dataset whose samples differ by epoch; size: of the item, as an older plugin has a smaller one.
struct ByEpoch {
  explicit ByEpoch(size_t size = sizeof(plait_dataset_item)) {
    item.struct_size = size;
    item.read_epoch = fake_read_epoch;
  }
  DatasetSource source() const { return {&item, &data, "train"}; }
  plait_dataset_item item = kFake;
  FakeData data{10};
};

// Labels of `n` batches, all rows.
std::vector<std::vector<int>> labels_of(DataLoader& loader, int n) {
  std::vector<std::vector<int>> all;
  for (int i = 0; i < n; ++i) {
    const Batch* b = loader.next();
    REQUIRE(b);
    const auto* label = static_cast<const uint8_t*>(b->fields[1]);
    all.emplace_back(label, label + loader.rows());
  }
  return all;
}

std::vector<int64_t> samples_of(const Batch& b) {
  const auto* x = static_cast<const float*>(b.fields[0]);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < b.valid; ++i) all.push_back(static_cast<int64_t>(x[3 * i]));
  return all;
}

std::string text_of(const std::function<void()>& f, uint32_t code) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.full_text();
  }
  FAIL("expected an error");
  return "";
}

}  // namespace

TEST_CASE("samples by epoch: only where they are asked for, and where the dataset has them") {
  const ByEpoch data;
  DataLoader training(data.source(),
                      {.batch = 5, .prefetch = 2, .by_epoch = true, .endless = true});
  CHECK(labels_of(training, 4) == std::vector<std::vector<int>>{{100, 101, 102, 103, 104},
                                                                {105, 106, 107, 108, 109},
                                                                {110, 111, 112, 113, 114},
                                                                {115, 116, 117, 118, 119}});
  const std::vector<std::vector<int>> plain = {{0, 1, 2, 3, 4}};
  DataLoader evaluation(data.source(), {.batch = 5, .prefetch = 0});
  CHECK(labels_of(evaluation, 1) == plain);
  const ByEpoch older(offsetof(plait_dataset_item, read_epoch));
  DataLoader with_older(older.source(), {.batch = 5, .prefetch = 0, .by_epoch = true});
  CHECK(labels_of(with_older, 1) == plain);
  const FakeData none(10);
  DataLoader without(source_of(none), {.batch = 5, .prefetch = 0, .by_epoch = true});
  CHECK(labels_of(without, 1) == plain);
}

TEST_CASE("samples by epoch are the same for every share of the rows, and from any batch on") {
  const ByEpoch data;
  const DataLoaderConfig whole = {
      .batch = 4, .seed = 5, .shuffle = true, .by_epoch = true, .endless = true};
  DataLoader one(data.source(), whole);
  const auto expected = labels_of(one, 9);
  for (const int64_t ranks : {2, 4})
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (const int64_t from : {0, 2, 5}) {
        DataLoaderConfig share = whole;
        share.rows = 4 / ranks;
        share.row_begin = rank * share.rows;
        share.first_batch = from;
        DataLoader loader(data.source(), share);
        const auto found = labels_of(loader, static_cast<int>(9 - from));
        for (size_t b = 0; b < found.size(); ++b)
          for (size_t r = 0; r < found[b].size(); ++r)
            CHECK(
                found[b][r] ==
                expected[b + static_cast<size_t>(from)][r + static_cast<size_t>(share.row_begin)]);
      }
}

TEST_CASE("an error of samples by epoch names the function") {
  ByEpoch data;
  data.data.fail_at = 2;
  DataLoader loader(data.source(), {.batch = 5, .prefetch = 0, .by_epoch = true});
  const std::string text = text_of([&] { loader.next(); }, PLAIT_ERR_DATA);
  CHECK(text.find("sample is broken") != std::string::npos);
  CHECK(text.find("read_epoch") != std::string::npos);
}

TEST_CASE("a loader without shuffle gives the samples in order and pads the last batch") {
  for (const int prefetch : {0, 1, 2, 5}) {
    const FakeData data(10);
    DataLoader loader(source_of(data), {.batch = 4, .prefetch = prefetch});
    CHECK(loader.samples() == 10);
    CHECK(loader.batches_per_epoch() == 3);
    CHECK(loader.rows() == 4);
    CHECK(loader.fingerprint() == 77);
    REQUIRE(loader.fields().size() == 2);
    CHECK(std::string(loader.fields()[1].name) == "label");
    for (int64_t index = 0; index < 3; ++index) {
      CHECK(loader.position() == index);
      const Batch* b = loader.next();
      REQUIRE(b);
      CHECK(b->index == index);
      CHECK(b->epoch == 0);
      CHECK(b->valid == (index < 2 ? 4 : 2));
      CHECK(b->weight_sum == static_cast<double>(b->valid));
      CHECK(reinterpret_cast<uintptr_t>(b->fields[0]) % 64 == 0);
      CHECK(reinterpret_cast<uintptr_t>(b->fields[1]) % 64 == 0);
      CHECK(reinterpret_cast<uintptr_t>(b->weight) % 64 == 0);
      const auto* x = static_cast<const float*>(b->fields[0]);
      const auto* label = static_cast<const uint8_t*>(b->fields[1]);
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t expected = i < b->valid ? index * 4 + i : 0;
        CHECK(x[3 * i + 1] == static_cast<float>(expected) + 0.5f);
        CHECK(label[i] == expected);
        CHECK(b->weight[i] == (i < b->valid ? 1.0f : 0.0f));
      }
    }
    CHECK(loader.next() == nullptr);
    CHECK(loader.next() == nullptr);
    CHECK(loader.position() == 3);
  }
}

TEST_CASE("an endless loader goes through each epoch once, in its own order") {
  for (const int prefetch : {0, 3}) {
    const FakeData data(23);
    DataLoader loader(
        source_of(data),
        {.batch = 5, .seed = 9, .shuffle = true, .prefetch = prefetch, .endless = true});
    for (int64_t epoch = 0; epoch < 6; ++epoch) {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < 5; ++i) {
        const Batch* b = loader.next();
        REQUIRE(b);
        CHECK(b->index == epoch * 5 + i);
        CHECK(b->epoch == epoch);
        for (const int64_t s : samples_of(*b)) order.push_back(s);
      }
      REQUIRE(order.size() == 23);
      CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 23);
      for (int64_t p = 0; p < 23; ++p)
        CHECK(order[static_cast<size_t>(p)] ==
              plait::data::position_to_sample(9, epoch, p, 23, true));
    }
  }
}

TEST_CASE("resuming at any batch continues the same sequence") {
  const FakeData data(17);
  const DataLoaderConfig whole{
      .batch = 4, .seed = 3, .shuffle = true, .prefetch = 0, .endless = true};
  std::vector<std::vector<int64_t>> all;
  DataLoader reference(source_of(data), whole);
  for (int i = 0; i < 15; ++i) all.push_back(samples_of(*reference.next()));
  for (const int prefetch : {0, 2}) {
    for (int64_t first = 0; first < 15; ++first) {
      DataLoaderConfig config = whole;
      config.first_batch = first;
      config.prefetch = prefetch;
      DataLoader loader(source_of(data), config);
      for (int64_t i = first; i < 15; ++i)
        CHECK(samples_of(*loader.next()) == all[static_cast<size_t>(i)]);
    }
  }
}

TEST_CASE("seek goes anywhere, also while the thread reads") {
  const FakeData data(100);
  DataLoader loader(source_of(data), {.batch = 7, .prefetch = 3, .endless = true});
  for (const int64_t to : {5, 0, 14, 15, 29, 1, 1, 1000000}) {
    loader.next();
    loader.seek(to);
    CHECK(loader.position() == to);
    const Batch* b = loader.next();
    REQUIRE(b);
    CHECK(b->index == to);
    CHECK(b->epoch == to / 15);
    CHECK(samples_of(*b)[0] == to % 15 * 7);
  }
  DataLoader finite(source_of(data), {.batch = 7, .prefetch = 3});
  finite.seek(15);
  CHECK(finite.next() == nullptr);
  finite.seek(14);
  REQUIRE(finite.next());
  CHECK(finite.next() == nullptr);
  CHECK_THROWS_WITH(finite.seek(-1), "[data] seek to batch -1, expected 0 or more");
}

TEST_CASE("slots keep their pointers, and a batch stays until the next call") {
  const FakeData data(1000);
  DataLoader loader(source_of(data), {.batch = 10, .prefetch = 2});
  std::set<void*> pointers;
  while (const Batch* b = loader.next()) {
    pointers.insert(b->fields[0]);
    const auto before = samples_of(*b);
    std::this_thread::yield();
    CHECK(samples_of(*b) == before);
  }
  CHECK(pointers.size() <= 3);
}

TEST_CASE("a weight field becomes the weight and is no field") {
  for (const int prefetch : {0, 2}) {
    const FakeData data(6, true);
    DataLoader loader(source_of(data), {.batch = 4, .prefetch = prefetch});
    REQUIRE(loader.fields().size() == 2);
    CHECK(std::string(loader.fields()[1].name) == "label");
    const Batch* b = loader.next();
    REQUIRE(b->fields.size() == 2);
    CHECK(b->weight[3] == 0.25f);
    CHECK(b->weight_sum == doctest::Approx(1 + 0.5 + 1.0 / 3 + 0.25).epsilon(1e-6));
    b = loader.next();
    CHECK(b->weight[0] == 0.2f);
    CHECK(b->weight[2] == 0.0f);  // padding, though sample 0 has weight 1
    CHECK(b->weight_sum == doctest::Approx(1.0 / 5 + 1.0 / 6).epsilon(1e-6));
    CHECK(static_cast<uint8_t*>(b->fields[1])[1] == 5);
  }
}

TEST_CASE("limit takes the first samples of the dataset") {
  const FakeData data(100);
  DataLoader loader(source_of(data), {.batch = 8, .seed = 1, .shuffle = true, .limit = 20});
  CHECK(loader.samples() == 20);
  CHECK(loader.batches_per_epoch() == 3);
  std::set<int64_t> seen;
  while (const Batch* b = loader.next())
    for (const int64_t s : samples_of(*b)) seen.insert(s);
  CHECK(seen.size() == 20);
  CHECK(*seen.rbegin() == 19);
  CHECK(DataLoader(source_of(data), {.limit = 1000}).samples() == 100);
}

TEST_CASE("rank shares together are the global batch") {
  const FakeData data(22);
  const DataLoaderConfig whole{.batch = 8, .seed = 4, .shuffle = true};
  DataLoader reference(source_of(data), whole);
  DataLoaderConfig left = whole, right = whole;
  left.rows = 4;
  right.row_begin = 4;
  DataLoader a(source_of(data), left), b(source_of(data), right);
  CHECK(b.rows() == 4);
  while (const Batch* all = reference.next()) {
    auto joined = samples_of(*a.next());
    for (const int64_t s : samples_of(*b.next())) joined.push_back(s);
    CHECK(joined == samples_of(*all));
  }
  // The last batch has 6 samples: 4 on the left, 2 on the right. With 19 samples the right shard is
  // only padding.
  const FakeData fewer(19);
  right.shuffle = false;
  DataLoader c(source_of(fewer), right);
  c.seek(2);
  const Batch* last = c.next();
  REQUIRE(last);
  CHECK(last->valid == 0);
  CHECK(last->weight_sum == 0.0);
}

TEST_CASE("an error of read() surfaces where the batch would, and again until seek") {
  for (const int prefetch : {0, 2}) {
    FakeData data(20);
    data.fail_at = 9;
    DataLoader loader(source_of(data), {.batch = 4, .prefetch = prefetch, .endless = true});
    CHECK(loader.next()->index == 0);
    CHECK(loader.next()->index == 1);
    for (int i = 0; i < 2; ++i) {
      const std::string text = text_of([&] { loader.next(); }, PLAIT_ERR_DATA);
      CHECK(text.find("[data] batch 2 of 'train' (epoch 0) could not be read") == 0);
      CHECK(text.find("sample is broken") != std::string::npos);
      CHECK(loader.position() == 2);
    }
    loader.seek(3);
    CHECK(samples_of(*loader.next())[0] == 12);
    data.fail_at = -1;
    loader.seek(2);
    CHECK(samples_of(*loader.next())[0] == 8);
  }
}

TEST_CASE("no memory in read(), on the thread that reads ahead too, is an error and not the end") {
  for (const int prefetch : {0, 2}) {
    FakeData data(20);
    data.no_memory = true;
    DataLoader loader(source_of(data), {.batch = 4, .prefetch = prefetch, .endless = true});
    const std::string text = text_of([&] { loader.next(); }, PLAIT_ERR_MEMORY);
    CHECK(text.find("[data] batch 0 of 'train' (epoch 0) could not be read") == 0);
    CHECK(text.find("out of memory") != std::string::npos);
    data.no_memory = false;
    loader.seek(0);
    CHECK(samples_of(*loader.next())[0] == 0);
  }
}

TEST_CASE("a loader may go at any moment, and leaves no thread") {
  const size_t before = plait::test::own_threads().size();
  for (int i = 0; i < 50; ++i) {
    const FakeData data(1000);
    {
      DataLoader loader(source_of(data), {.batch = 16, .prefetch = 4, .endless = true});
      for (int j = 0; j < i % 5; ++j) CHECK(loader.next()->index == j);
    }
    CHECK(plait::test::own_threads().size() == before);
    CHECK(data.reads <= i % 5 + 4);
  }
}

TEST_CASE("an empty dataset has no batches, and can't be endless") {
  const FakeData data(0);
  for (const int prefetch : {0, 2}) {
    DataLoader loader(source_of(data), {.batch = 4, .prefetch = prefetch});
    CHECK(loader.batches_per_epoch() == 0);
    CHECK(loader.next() == nullptr);
  }
  CHECK(text_of([&] { DataLoader(source_of(data), {.endless = true}); }, PLAIT_ERR_DATA)
            .find("of [data.train] has no samples, expected at least one to train on") !=
        std::string::npos);
}

TEST_CASE("host_bytes is known before opening") {
  const FakeData plain(10), weighted(10, true);
  const DataLoaderConfig config{.batch = 100, .prefetch = 2};
  // x: 1200 -> 1216, label: 100 -> 128, weight: 400 -> 448; three slots; indices 800 -> 832.
  const uint64_t expected = 3 * (1216 + 128 + 448) + 832;
  CHECK(DataLoader::host_bytes(config, plain.fields.data(), 2) == expected);
  CHECK(DataLoader::host_bytes(config, weighted.fields.data(), 3) == expected);
  // By size: 32 small batches, 2 large ones, and as many of a medium size as fit in 8 MiB; one more
  // is in use.
  const auto slots_of = [&](int64_t batch) {
    const DataLoaderConfig by_size{.batch = batch, .prefetch = -1},
        one{.batch = batch, .prefetch = 0};
    const DataLoaderConfig two{.batch = batch, .prefetch = 1};
    const auto bytes = [&](const DataLoaderConfig& c) {
      return DataLoader::host_bytes(c, plain.fields.data(), 2);
    };
    return 1 + (bytes(by_size) - bytes(one)) / (bytes(two) - bytes(one));
  };
  CHECK(slots_of(100) == 33);
  CHECK(slots_of(64000) == 1 + (8 << 20) / (64000 * 17));
  CHECK(slots_of(10000000) == 3);
  const plait_field huge{"x", PLAIT_FIELD_INPUT, 0, {PLAIT_F32, 2, {INT64_MAX, INT64_MAX}}};
  CHECK(text_of([&] { DataLoader::host_bytes(config, &huge, 1); }, PLAIT_ERR_PLUGIN)
            .find("field 0 'x' is larger than any memory") != std::string::npos);
}

TEST_CASE("configs and datasets that make no sense are refused") {
  FakeData data(10);
  CHECK_THROWS_WITH(DataLoader(source_of(data), {.batch = 0}),
                    "[data] batch is 0, expected 1 or more");
  CHECK_THROWS_WITH(DataLoader(source_of(data), {.prefetch = -2}),
                    "[data] prefetch is -2, expected 0 to 1024 batches, or -1");
  CHECK_THROWS_WITH(DataLoader(source_of(data), {.first_batch = -2}),
                    "[data] first_batch is -2, expected 0 or more");
  CHECK_THROWS_WITH(DataLoader(source_of(data), {.batch = 4, .row_begin = 4}),
                    "[data] row_begin is 4, expected a row of the batch");
  CHECK_THROWS_WITH(DataLoader(source_of(data), {.batch = 4, .row_begin = 2, .rows = 3}),
                    "[data] rows is 3, expected rows inside the batch");
  CHECK_THROWS_AS(DataLoader({nullptr, nullptr, "x"}, {}), Error);
  const auto refused = [&](plait_field bad) {
    FakeData d(10);
    d.fields[0] = bad;
    return text_of([&] { DataLoader(source_of(d), {}); }, PLAIT_ERR_PLUGIN);
  };
  CHECK(refused({nullptr, 1, 0, {PLAIT_F32, 0, {}}}).find("has no name") != std::string::npos);
  CHECK(refused({"x", 9, 0, {PLAIT_F32, 0, {}}}).find("unknown role 9") != std::string::npos);
  CHECK(refused({"x", 1, 0, {99, 0, {}}}).find("unknown element type 99") != std::string::npos);
  CHECK(refused({"x", 1, 0, {PLAIT_F32, 9, {}}}).find("ndim 9") != std::string::npos);
  CHECK(refused({"x", 1, 0, {PLAIT_F32, 1, {-3}}}).find("negative extent") != std::string::npos);
  CHECK(refused({"x", 3, 0, {PLAIT_F64, 0, {}}}).find("expected one f32 per sample") !=
        std::string::npos);
  data.n = -1;
  CHECK(text_of([&] { DataLoader(source_of(data), {}); }, PLAIT_ERR_PLUGIN).find("-1 samples") !=
        std::string::npos);
}
