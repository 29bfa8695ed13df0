// The n-th call that reads a file fails, for one n after another: the error names file and cause,
// no descriptor stays open, and the same works afterwards.
#include <plait/checkpoint.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/unit/host/host.hpp"
#include "tests/unit/read_faults/faults.hpp"

namespace {

using faults::Kind;
using Call = std::function<plait_error*()>;

ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

struct Fault {
  Kind kind;
  int number;
  const char* cause;  // in the text of the error; null: the call works all the same
};
const Fault kDisk{Kind::kError, EIO, "Input/output error"},
    kDescriptors{Kind::kError, EMFILE, "Too many open files"},
    kForbidden{Kind::kError, EACCES, "Permission denied"},
    kTable{Kind::kError, ENFILE, "Too many open files in system"},
    kMemory{Kind::kError, ENOMEM, "out of memory"}, kEnd{Kind::kEnd, 0, "end"},
    kPart{Kind::kPart, 0, nullptr}, kInterrupted{Kind::kInterrupted, 0, nullptr},
    kClose{Kind::kClose, EIO, nullptr};

// Each call on the files of `folder` that call() makes fails in turn. Returns how many there are.
// spare: call() may do without a file with this in its path; "": without none.
int64_t sweep(const std::string& folder, const Fault& fault, const Call& call,
              const std::string& spare) {
  host::check(call());  // what exists once per process
  for (int64_t n = 1;; ++n) {
    const ptrdiff_t before = open_descriptors();
    faults::arm(folder, fault.kind, fault.number, n);
    plait_error* e = call();
    const std::string file = faults::disarm();
    const std::string text = e ? plait_error_full_text(e) : "";
    const uint32_t code = plait_error_code(e);
    plait_error_free(e);
    CAPTURE(n);
    CAPTURE(file);
    CAPTURE(text);
    CHECK(open_descriptors() == before);
    if (file.empty()) {
      CHECK(text == "");
      return n - 1;
    }
    const bool may_pass = !spare.empty() && file.find(spare) != std::string::npos;
    if (!may_pass || !text.empty()) CHECK((text != "") == (fault.cause != nullptr));
    if (!fault.cause || text.empty()) continue;
    CHECK(text.starts_with("["));
    CHECK(text.find(std::filesystem::path(file).filename().string()) != std::string::npos);
    CHECK(text.find(fault.cause) != std::string::npos);
    CHECK((code == PLAIT_ERR_IO || code == PLAIT_ERR_CONFIG ||
           (fault.number == ENOMEM && code == PLAIT_ERR_MEMORY) ||
           (fault.kind == Kind::kEnd && code == PLAIT_ERR_DATA)));
  }
}

void sweep_all(const std::string& folder, std::initializer_list<Fault> all, int64_t least,
               const Call& call, const std::string& spare = "") {
  for (const Fault& fault : all) {
    CAPTURE(static_cast<int>(fault.kind));
    CAPTURE(fault.number);
    const int64_t calls = sweep(folder, fault, call, spare);
    MESSAGE(calls << " calls failed in turn");
    CHECK(calls >= least);
  }
}

template <class T>
plait_error* drop(plait_error* e, T*& out, void(PLAIT_CALL* close)(T*)) {
  if (!e) close(out);
  out = nullptr;
  return e;
}

// An experiment on a file of samples.
std::string on_file(const std::string& data) {
  return "[run]\nsteps = 3\n[batch]\nglobal = 4\n[data.train]\n" + data +
         "\n[[model.layers]]\ntype = \"flatten\"\n[[model.layers]]\ntype = \"linear\"\nout = 3\n"
         "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\n";
}

void big_endian(std::ofstream& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to.put(static_cast<char>(number >> shift & 0xFF));
}

// 8 images of 2x2, and their labels.
void write_idx(const std::string& images, const std::string& labels) {
  std::ofstream image(images, std::ios::binary), label(labels, std::ios::binary);
  for (const uint32_t number : {0x803u, 8u, 2u, 2u}) big_endian(image, number);
  for (const uint32_t number : {0x801u, 8u}) big_endian(label, number);
  for (int i = 0; i < 32; ++i) image.put(static_cast<char>(i * 7));
  for (int i = 0; i < 8; ++i) label.put(static_cast<char>(i % 3));
}

}  // namespace

TEST_CASE("each read of an experiment and of what it extends") {
  const host::TempFolder folder;
  const std::string base = folder / "base.toml", path = folder / "own.toml";
  std::ofstream(base) << host::small();
  std::ofstream(path) << "extends = \"base.toml\"\n[run]\nsteps = 5\n";
  const std::unique_ptr<plait_engine, decltype(&plait_engine_close)> engine(host::new_engine(),
                                                                            plait_engine_close);
  sweep_all(folder / "", {kDisk, kDescriptors, kEnd, kPart, kInterrupted, kClose}, 2, [&] {
    plait_experiment* x = nullptr;
    return drop(plait_experiment_read(engine.get(), path.c_str(), PLAIT_NTS, nullptr, &x), x,
                plait_experiment_close);
  });
}

TEST_CASE("each read of a checkpoint that is loaded") {
  const host::TempFolder folder;
  const host::Run run(host::small());
  const std::string saved = folder / "saved", one = saved + "/step-0000000000";
  host::check(plait_session_save(run.session(), saved.c_str()));
  const std::vector<float> weights = run.read("model.linear1.weight", 256);
  const auto all = {kDisk, kDescriptors, kEnd, kPart, kInterrupted, kClose};
  sweep_all(one, all, 3, [&] { return plait_session_load(run.session(), one.c_str()); });
  sweep_all(one, all, 3, [&] { return plait_session_load_parameters(run.session(), one.c_str()); });
  CHECK(run.read("model.linear1.weight", 256) == weights);
}

// A machine that refuses to read the newest one says nothing of it: a run that went on from an
// older one would train again what is there, and remove it later.
TEST_CASE("each read of checkpoints of which a run resumes from the newest") {
  const host::TempFolder folder;
  const std::string dir = folder / "run";
  {
    const host::Run run(host::small(), dir);
    for (int i = 0; i < 2; ++i) {
      run.step();
      host::check(plait_session_save(run.session(), nullptr));
    }
  }
  plait_session_options so{};
  so.struct_size = sizeof so;
  so.run_dir = dir.c_str();
  so.resume = PLAIT_RESUME_MUST;
  const host::Run other(host::small());
  sweep_all(dir + "/ckpt", {kDisk, kDescriptors, kMemory, kPart, kInterrupted}, 20, [&] {
    plait_session* s = nullptr;
    plait_step_result r{};
    r.struct_size = sizeof r;
    plait_error* e = plait_session_open(other.plan(), &so, &s);
    if (!e) e = plait_session_step(s, nullptr, 0, &r);
    plait_session_close(s);
    CHECK((e || r.step == 3));
    return e;
  });
}

// The answer may tell less, or something else, if a read fails without a word.
TEST_CASE("each read of checkpoints that are compared") {
  const host::TempFolder folder;
  const std::string dir = folder / "run", other = folder / "other";
  for (const std::string& to : {dir, other}) {
    const host::Run run(host::small("[checkpoint]\nkeep = 2\n"), to);
    for (int i = 0; i < 2; ++i) {
      run.step();
      host::check(plait_session_save(run.session(), nullptr));
    }
  }
  const std::unique_ptr<plait_engine, decltype(&plait_engine_close)> engine(host::new_engine(),
                                                                            plait_engine_close);
  const auto compared = [&](const std::string& a, const std::string& b, std::string* json) {
    plait_text* t = nullptr;
    plait_error* e =
        plait_checkpoint_compare(engine.get(), a.c_str(), b.c_str(), 0, nullptr, nullptr, &t);
    if (!e) *json = host::take(t);
    return e;
  };
  // Of a folder of checkpoints, a short file is damage, behind which an older one is taken. Of the
  // older one only the manifest is needed, which tells that it is older.
  const struct {
    std::string a, b, spare;
    std::initializer_list<Fault> all;
  } places[] = {
      {dir + "/ckpt/step-0000000001", dir + "/ckpt/latest", "", {kDisk, kForbidden, kMemory, kEnd}},
      {dir,
       other + "/ckpt",
       "step-0000000001",
       {kDisk, kTable, kForbidden, kMemory, kPart, kInterrupted}}};
  for (const auto& place : places) {
    std::string expected, found;
    host::check(compared(place.a, place.b, &expected));
    sweep_all(
        folder / "", place.all, 6,
        [&] {
          plait_error* e = compared(place.a, place.b, &found);
          CHECK((e || found == expected));
          return e;
        },
        place.spare);
  }
}

// Of EIO and an early end a source makes several attempts: tests/unit/data_plugins.
TEST_CASE("each read of files of samples") {
  const host::TempFolder folder;
  const std::string csv = folder / "samples.csv", images = folder / "images",
                    labels = folder / "labels";
  std::ofstream(csv) << "a,b,label\n1,2,0\n3,4,1\n5,6,2\n7,8,0\n";
  write_idx(images, labels);
  for (const std::string& data :
       {"type = \"csv\"\ntarget = [\"label\"]\ntarget_type = \"i32\"\npath = \"" + csv + "\"",
        "type = \"idx\"\nimages = \"" + images + "\"\nlabels = \"" + labels + "\""}) {
    CAPTURE(data);
    const std::string toml = on_file(data);
    sweep_all(folder / "", {kForbidden, kDescriptors, kPart, kInterrupted, kClose}, 1,
              [&]() -> plait_error* {
                plait_engine* engine = host::new_engine();
                plait_experiment* x = nullptr;
                plait_plan* p = nullptr;
                plait_session* s = nullptr;
                plait_session_options so{};
                so.struct_size = sizeof so;
                so.no_files = 1;
                plait_error* e =
                    plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x);
                if (!e) e = plait_plan_make(x, &p);
                if (!e) e = plait_session_open(p, &so, &s);
                if (!e) e = plait_session_step(s, nullptr, 0, nullptr);
                plait_session_close(s);
                plait_plan_close(p);
                plait_experiment_close(x);
                plait_engine_close(engine);
                return e;
              });
  }
}
