#include "engine/checkpoint/store.hpp"

#include <plait/base.h>

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <random>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"
#include "tests/unit/checkpoint/sharded.hpp"
#include "tests/unit/error_of.hpp"

namespace {

using namespace plait::checkpoint;
using plait::test::error_of;

void save(MemoryFiles& files, Lines& lines, int64_t step, int keep = 0) {
  const Sample sample(step);
  CheckpointWriter(files, "ckpt", keep, lines.log).save(sample.state(), sample.tensors());
}

std::vector<std::string> names(MemoryFiles& files) {
  std::vector<std::string> all;
  for (const CheckpointName& c : list_checkpoints(files, "ckpt")) all.push_back(c.name);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("names of checkpoints") {
  const auto name = parse_checkpoint_name("step-0000001000.12");
  REQUIRE(name);
  CHECK(name->step == 1000);
  CHECK(name->revision == 12);
  CHECK(parse_checkpoint_name("step-0000000000")->revision == 1);
  CHECK(parse_checkpoint_name("step-12345678901")->step == 12345678901);
  for (const char* bad :
       {"", "step-", "step-1", "step-00000000-1", "step--000000001", "step-0000000001.",
        "step-0000000001.1", "step-0000000001.0", "step-0000000001.x", "step-0000000001 ",
        ".tmp-1-x", "latest", "step-99999999999999999999"})
    CHECK_FALSE(parse_checkpoint_name(bad));
}

TEST_CASE("a fence keeps a save from being committed, and nothing of it stays") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  CheckpointWriter writer(files, "ckpt", 0, lines.log);
  const Sample sample(2);
  bool open = false;
  writer.fence([&] {
    if (!open) plait::fail(PLAIT_ERR_STATE, "[test] somebody else has it");
  });
  const std::string error =
      error_of([&] { writer.save(sample.state(), sample.tensors()); }, PLAIT_ERR_STATE);
  CHECK(error.find("step 2 could not be saved") != std::string::npos);
  CHECK(error.find("somebody else has it") != std::string::npos);
  CHECK(files.list("ckpt") == Names{"latest", "step-0000000001"});
  CHECK(files.content("ckpt/latest") == "step-0000000001\n");
  open = true;
  writer.save(sample.state(), sample.tensors());
  CHECK(names(files) == Names{"step-0000000002", "step-0000000001"});
  // That of one commit, of several ranks.
  const Sample third(3);
  const std::string folder = writer.begin(third.state());
  write_shard(files, folder, 0, 1, third.tensors());
  writer.write_manifest(third.state(), folder, 1);
  CHECK_THROWS_AS(
      writer.publish(third.state(), folder, [] { plait::fail(PLAIT_ERR_PEER, "[test] too late"); }),
      plait::Error);
  CHECK(names(files) == Names{"step-0000000002", "step-0000000001"});
  writer.publish(third.state(), folder);
  CHECK(names(files).front() == "step-0000000003");
}

TEST_CASE("a checkpoint is loaded as it was saved") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1000);
  CHECK(files.list("ckpt") == Names{"latest", "step-0000001000"});
  CHECK(files.list("ckpt/step-0000001000") ==
        Names{"MANIFEST.json", "model.safetensors", "optimizer.safetensors", "run.toml"});
  CHECK(files.content("ckpt/step-0000001000/run.toml") == "[run]\nsteps = 1000\n");
  CHECK(files.content("ckpt/latest") == "step-0000001000\n");
  const auto c = open_newest(files, "ckpt", lines.log);
  REQUIRE(c);
  CHECK(Sample(1000).equals(*c));
  CHECK(c->path() == "ckpt/step-0000001000");
  CHECK(c->state().cursors.at("eval \"x\"") == 3);
  CHECK(c->state().extra == "{\"scale\":1.5,\"list\":[1,2]}");
  CHECK(c->tensors().size() == 3);
  CHECK(lines.all.empty());
}

TEST_CASE("the newest is opened, and a second save of a step is a revision") {
  MemoryFiles files;
  Lines lines;
  CHECK(open_newest(files, "ckpt", lines.log) == nullptr);
  for (const int64_t step : {5, 10, 7, 10}) save(files, lines, step);
  CHECK(names(files) ==
        Names{"step-0000000010.2", "step-0000000010", "step-0000000007", "step-0000000005"});
  CHECK(open_newest(files, "ckpt", lines.log)->path() == "ckpt/step-0000000010.2");
}

TEST_CASE("retention keeps the newest, whatever was there") {
  MemoryFiles files;
  Lines lines;
  for (int64_t step = 1; step <= 5; ++step) save(files, lines, step, 2);
  CHECK(names(files) == Names{"step-0000000005", "step-0000000004"});
  save(files, lines, 5, 2);
  CHECK(names(files) == Names{"step-0000000005.2", "step-0000000004"});
  save(files, lines, 3, 1);  // just committed: kept, though it is not the newest
  CHECK(names(files) == Names{"step-0000000003"});
  CHECK(files.list("ckpt") == Names{"latest", "step-0000000003"});
}

TEST_CASE("leftovers of an interrupted save go at the start") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  for (const char* name : {"ckpt/.tmp-2-ab", "ckpt/.trash-step-0000000001-cd"}) {
    files.make_folder(name);
    files.open(std::string(name) + "/x", plait::OpenMode::kCreate)->write("x");
  }
  const CheckpointWriter writer(files, "ckpt", 3, lines.log);
  CHECK(files.list("ckpt") == Names{"latest", "step-0000000001"});
  CHECK(lines.mention("removing .tmp-2-ab"));
}

TEST_CASE("a damaged checkpoint is passed over, with the reason in the log") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  save(files, lines, 2);
  save(files, lines, 3);
  std::string model = files.content("ckpt/step-0000000003/model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 1);
  files.set_content("ckpt/step-0000000003/model.safetensors", model);
  files.remove("ckpt/step-0000000002/MANIFEST.json");
  const auto c = open_newest(files, "ckpt", lines.log);
  REQUIRE(c);
  CHECK(Sample(1).equals(*c));
  CHECK(lines.mention(
      "[checkpoint] step-0000000003 cannot be used (ckpt/step-0000000003/model.safetensors: tensor "
      "'fc.weight' does not match its checksum: it is damaged); using step-0000000001 instead"));
  CHECK(lines.mention("step-0000000002 cannot be used ("));
  files.remove("ckpt/step-0000000001/optimizer.safetensors");
  const std::string text = error_of([&] { open_newest(files, "ckpt", lines.log); }, PLAIT_ERR_DATA);
  CHECK(text.find("no checkpoint in ckpt is intact") != std::string::npos);
  CHECK(text.find("ckpt/step-0000000001/optimizer.safetensors is missing") != std::string::npos);
}

TEST_CASE("a damaged header is reported as damage, not by its contents") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  const std::string path = "ckpt/step-0000000001/model.safetensors";
  std::string model = files.content(path);
  const std::string whole = model;
  model.replace(model.find("dtype"), 5, "dtypo");
  files.set_content(path, model);
  const auto refusal = [&] {
    return error_of([&] { Checkpoint(files, "ckpt/step-0000000001"); }, PLAIT_ERR_DATA);
  };
  CHECK(plait::starts_with(refusal(),
                           "[checkpoint] " + path +
                               " does not match its checksum: it is damaged; use another "
                               "checkpoint: naming a run directory selects its newest intact one"));
  files.set_content(path, whole.substr(0, 40));
  CHECK(refusal().find("it is truncated; use another checkpoint") != std::string::npos);
  files.set_content(path, whole);
  CHECK_NOTHROW(Checkpoint(files, "ckpt/step-0000000001"));
  const std::string manifest = "ckpt/step-0000000001/MANIFEST.json";
  const std::string text = files.content(manifest);
  for (const size_t n : {size_t{0}, size_t{30}, text.size() - 1}) {
    files.set_content(manifest, text.substr(0, n));
    CHECK(refusal().find("truncated") != std::string::npos);
    CHECK(refusal().find("; use another checkpoint") != std::string::npos);
  }
}

TEST_CASE("a newer format is no reason to fall back") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  save(files, lines, 2);
  const std::string path = "ckpt/step-0000000002/MANIFEST.json";
  std::string body(unseal_manifest(files.content(path), path));
  body.replace(body.find("\"format_version\": 1"), 19, "\"format_version\": 9");
  files.set_content(path, seal_manifest(body));
  CHECK(error_of([&] { open_newest(files, "ckpt", lines.log); }, PLAIT_ERR_UNIMPLEMENTED)
            .find("format version 9") != std::string::npos);
}

TEST_CASE("reading compares type and shape, and names the nearest tensor") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  const auto c = open_newest(files, "ckpt", lines.log);
  std::vector<float> out(700);
  const int64_t good[] = {100, 7}, bad[] = {7, 100}, longer[] = {100, 7, 1};
  CHECK(error_of([&] { c->read("fc.wieght", PLAIT_F32, good, out.data()); }, PLAIT_ERR_NOT_FOUND)
            .find("did you mean 'fc.weight'?") != std::string::npos);
  CHECK(error_of([&] { c->read("fc.weight", PLAIT_F32, bad, out.data()); }, PLAIT_ERR_DATA)
            .find("'fc.weight' is F32 (100, 7), expected F32 (7, 100)") != std::string::npos);
  CHECK_THROWS_AS(c->read("fc.weight", PLAIT_F32, longer, out.data()), plait::Error);
  CHECK_THROWS_AS(c->read("fc.weight", PLAIT_I32, good, out.data()), plait::Error);
}

TEST_CASE("tensors in slices are put together") {
  // A (3,4,2) tensor in three blocks, as a sharded save will write it.
  MemoryFiles files;
  Lines lines;
  std::vector<int32_t> whole(24);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<int32_t>(i);
  Manifest m;
  m.tensors = {{"t", PLAIT_I32, {3, 4, 2}, {}}};
  const std::vector<SliceRecord> slices = {{"model.safetensors", "t0", {0, 0, 0}, {3, 1, 2}, {}},
                                           {"model.safetensors", "t1", {0, 1, 0}, {2, 3, 2}, {}},
                                           {"model.safetensors", "t2", {2, 1, 0}, {1, 3, 1}, {}},
                                           {"model.safetensors", "t3", {2, 1, 1}, {1, 3, 1}, {}}};
  std::vector<std::vector<int32_t>> parts;
  std::vector<TensorSource> sources;
  for (const SliceRecord& s : slices) {
    std::vector<int32_t> part;
    for (int64_t a = 0; a < s.extent[0]; ++a)
      for (int64_t b = 0; b < s.extent[1]; ++b)
        for (int64_t c = 0; c < s.extent[2]; ++c)
          part.push_back(whole[static_cast<size_t>(((a + s.offset[0]) * 4 + b + s.offset[1]) * 2 +
                                                   c + s.offset[2])]);
    parts.push_back(part);
  }
  for (size_t i = 0; i < slices.size(); ++i)
    sources.push_back({slices[i].key, PLAIT_I32, slices[i].extent, parts[i].data()});
  files.make_folder("c");
  const WrittenFile written = write_safetensors(files, "c/model.safetensors", sources);
  m.files = {{"model.safetensors", written.size, written.hash}};
  m.tensors[0].slices = slices;
  for (size_t i = 0; i < slices.size(); ++i) m.tensors[0].slices[i].hash = written.tensors[i];
  files.open("c/MANIFEST.json", plait::OpenMode::kCreate)->write(manifest_text(m));
  std::vector<int32_t> back(24, -1);
  const int64_t shape[] = {3, 4, 2};
  Checkpoint(files, "c").read("t", PLAIT_I32, shape, back.data());
  CHECK(back == whole);
}

TEST_CASE("blocks of a tensor that was verified are read alone") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(2);
  const std::string path = save_sharded(files, "ckpt", 0, lines.log, sample, 3);
  const Checkpoint c(files, path, Checkpoint::Verify::kLater);
  const std::vector<int64_t> shape{100, 7};
  for (const char* name : {"fc.weight", "fc.weight.momentum"}) {  // by rows, by columns
    CAPTURE(name);
    c.verify(name);
    for (const plait::topology::Box& box : std::vector<plait::topology::Box>{
             {{0, 0}, {100, 7}}, {{32, 2}, {3, 4}}, {{99, 6}, {1, 1}}, {{5, 0}, {40, 7}}}) {
      const auto n = static_cast<size_t>(plait::topology::elements(box));
      std::vector<double> whole(n), alone(n);
      c.read_block(name, PLAIT_F64, shape, box, whole.data());
      c.read_verified(name, PLAIT_F64, shape, box, alone.data());
      CHECK(alone == whole);
      CHECK(whole[0] != 0);
    }
  }
  error_of([&] { c.verify("fc.wait"); }, PLAIT_ERR_NOT_FOUND);
  for (const plait::checkpoint::SliceRecord& slice : c.find("fc.weight")->slices) {
    const std::string file = path + "/" + slice.file, good = files.content(file);
    std::string damaged = good;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    files.set_content(file, damaged);
    const Checkpoint later(files, path, Checkpoint::Verify::kLater);
    CHECK(error_of([&] { later.verify("fc.weight"); }, PLAIT_ERR_DATA).find("has changed since") !=
          std::string::npos);
    files.set_content(file, good);
  }
}

TEST_CASE("every flipped bit is noticed, and a damaged tensor is named") {
  constexpr int kBits = 10'000;
  for (const int32_t ranks : {1, 3}) {
    MemoryFiles files;
    Lines lines;
    save_sharded(files, "ckpt", 0, lines.log, Sample(1), ranks);
    const std::string folder = "ckpt/step-0000000001/";
    std::vector<std::string> names;
    for (const std::string& name : files.list(folder))
      if (name != "run.toml") names.push_back(name);
    std::mt19937_64 random(1);
    int of_tensors = 0, named = 0;
    for (int i = 0; i < kBits; ++i) {
      const std::string path = folder + names[random() % names.size()];
      const std::string good = files.content(path);
      std::string bad = good;
      const size_t at = random() % bad.size();
      bad[at] ^= static_cast<char>(1 << random() % 8);
      files.set_content(path, bad);
      const std::string text =
          error_of([&] { Checkpoint(files, "ckpt/step-0000000001"); }, PLAIT_ERR_DATA);
      size_t header = good.size();
      if (path.ends_with(".safetensors")) {
        uint64_t length = 0;
        std::memcpy(&length, good.data(), sizeof length);
        header = 8 + static_cast<size_t>(length);
      }
      of_tensors += at >= header;
      named += at >= header && (text.find("tensor 'fc.weight") != std::string::npos ||
                                text.find("tensor 'step'") != std::string::npos);
      files.set_content(path, good);
    }
    CHECK(of_tensors > kBits / 4);
    CHECK(named == of_tensors);
    CHECK_NOTHROW(Checkpoint(files, "ckpt/step-0000000001"));
  }
}

TEST_CASE("every truncation and every growth is noticed") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(1, 7000);
  CheckpointWriter(files, "ckpt", 0, lines.log).save(sample.state(), sample.tensors());
  const std::string folder = "ckpt/step-0000000001/";
  for (const std::string& name : files.list(folder)) {
    if (name == "run.toml") continue;  // for people; a resume does not read it
    const std::string good = files.content(folder + name);
    std::vector<size_t> sizes = {0, 1, 7, 8, 9, good.size() - 1};
    for (size_t at = 4096; at < good.size(); at += 4096)
      for (const size_t size : {at - 1, at, at + 1}) sizes.push_back(size);
    for (const size_t size : sizes) {
      if (size >= good.size()) continue;
      files.set_content(folder + name, good.substr(0, size));
      error_of([&] { Checkpoint(files, "ckpt/step-0000000001"); }, PLAIT_ERR_DATA);
    }
    files.set_content(folder + name, good + '\0');
    error_of([&] { Checkpoint(files, "ckpt/step-0000000001"); }, PLAIT_ERR_DATA);
    files.set_content(folder + name, good);
  }
}

TEST_CASE("a file replaced by another of the same size is noticed") {
  MemoryFiles files;
  Lines lines;
  save(files, lines, 1);
  save(files, lines, 2);
  files.set_content("ckpt/step-0000000002/model.safetensors",
                    files.content("ckpt/step-0000000001/model.safetensors"));
  CHECK(Sample(1).equals(*open_newest(files, "ckpt", lines.log)));
  CHECK(lines.mention("tensor 'fc.weight' does not match its checksum"));
}

TEST_CASE("a name that is given twice is refused, and nothing is left") {
  MemoryFiles files;
  Lines lines;
  const Sample sample(1);
  auto tensors = sample.tensors();
  tensors[1].name = tensors[0].name;
  CheckpointWriter writer(files, "ckpt", 0, lines.log);
  CHECK(error_of([&] { writer.save(sample.state(), tensors); }, PLAIT_ERR_INVALID)
            .find("'fc.weight' is given twice") != std::string::npos);
  CHECK(files.list("ckpt").empty());
}

TEST_CASE("the checkpoint that a user names for resuming is found") {
  MemoryFiles files;
  Lines lines;
  files.make_folder("run");
  const Sample sample(4);
  CheckpointWriter(files, "run/ckpt", 0, lines.log).save(sample.state(), sample.tensors());
  for (const char* path : {"run", "run/ckpt", "run/ckpt/step-0000000004"})
    CHECK(open_checkpoint(files, path, lines.log)->path() == "run/ckpt/step-0000000004");
  CHECK(error_of([&] { open_checkpoint(files, "nowhere", lines.log); }, PLAIT_ERR_NOT_FOUND)
            .find("name a run directory") != std::string::npos);
}
