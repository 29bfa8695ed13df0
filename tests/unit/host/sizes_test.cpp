// Convention 2 of base.h on the host's side: structs of older hosts, which are shorter, and of
// newer hosts, which are longer.
#include <cstddef>
#include <cstring>
#include <functional>

#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

// A struct of a newer host: the fields known to this library, and more after them.
template <class Struct>
struct Longer {
  Struct known{};
  unsigned char more[64];
  Longer() {
    std::memset(more, 0x5A, sizeof more);
    known.struct_size = sizeof *this;
  }
};

// Tries a struct of every size. v1: its size in ABI 1, the minimum accepted by any later version of
// the struct.
template <class Struct>
void check_sizes(size_t v1, const std::string& name,
                 const std::function<plait_error*(const Struct&)>& call) {
  CAPTURE(name);
  Longer<Struct> longer;
  for (const size_t size : {size_t{0}, size_t{1}, sizeof(size_t), v1 - 1}) {
    longer.known.struct_size = size;
    const host::Failure f = host::failure_of([&] { host::check(call(longer.known)); });
    CHECK(f.code == PLAIT_ERR_INVALID);
    CHECK(f.text.find(name + ".struct_size is " + std::to_string(size)) != std::string::npos);
    CHECK(f.text.find(std::to_string(v1)) != std::string::npos);
  }
  for (const size_t size : {v1, sizeof(Struct), sizeof longer}) {
    CAPTURE(size);
    longer.known.struct_size = size;
    CHECK_NOTHROW(host::check(call(longer.known)));
    CHECK(longer.known.struct_size == size);
  }
}

}  // namespace

TEST_CASE("options of hosts that know less or more") {
  plait_engine* engine = host::new_engine();
  check_sizes<plait_engine_options>(56, "plait_engine_options", [](const auto& o) {
    plait_engine* e = nullptr;
    plait_error* error = plait_engine_open(&o, &e);
    plait_engine_close(e);
    return error;
  });
  plait_experiment* x = nullptr;
  const std::string toml = small();
  check_sizes<plait_experiment_options>(24, "plait_experiment_options", [&](const auto& o) {
    plait_experiment_close(x);
    x = nullptr;
    return plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", &o, &x);
  });
  check_sizes<plait_job_options>(64, "plait_job_options", [](const plait_job_options& given) {
    plait_job* job = nullptr;
    plait_job_options o = given;
    o.size = 1;
    plait_error* error = plait_job_open(&o, &job);
    plait_job_close(job);
    return error;
  });
  plait_plan* plan = nullptr;
  host::check(plait_plan_make(x, &plan));
  check_sizes<plait_session_options>(56, "plait_session_options", [&](const auto& given) {
    plait_session* s = nullptr;
    plait_session_options o = given;
    o.no_files = 1;
    plait_error* error = plait_session_open(plan, &o, &s);
    plait_session_close(s);
    return error;
  });
  plait_plan_close(plan);
  plait_experiment_close(x);
  plait_engine_close(engine);
}

TEST_CASE("a result struct of a newer host: fields unknown to this library stay unchanged") {
  const Run run(small());
  Longer<plait_step_result> r;
  host::check(plait_session_step(run.session(), nullptr, 0, &r.known));
  CHECK(r.known.struct_size == sizeof r);
  CHECK(r.known.step == 1);
  for (const unsigned char c : r.more) CHECK(c == 0x5A);
  for (const size_t size : {size_t{0}, size_t{8}, size_t{71}}) {
    r.known.struct_size = size;
    const host::Failure f = host::failure_of(
        [&] { host::check(plait_session_step(run.session(), nullptr, 0, &r.known)); });
    CHECK(f.code == PLAIT_ERR_INVALID);
    CHECK(f.text.find("expected at least 72") != std::string::npos);
  }
}

TEST_CASE("feeds of a host that knows more are as far apart as it says") {
  const Run run(small());
  float x[12 * 16] = {};
  int32_t y[12] = {};
  int64_t shapes[] = {12, 16};
  plait_dl_tensor tx{x, {1, 0}, 2, {2, 32, 1}, shapes, nullptr, 0};
  plait_dl_tensor ty{y, {1, 0}, 1, {0, 32, 1}, shapes, nullptr, 0};
  Longer<plait_feed> feeds[2];
  feeds[0].known = {sizeof feeds[0], "x", &tx};
  feeds[1].known = {sizeof feeds[0], "label", &ty};
  host::check(plait_session_step(run.session(), &feeds[0].known, 2, nullptr));
  feeds[0].known.struct_size = 16;
  const host::Failure f = host::failure_of(
      [&] { host::check(plait_session_step(run.session(), &feeds[0].known, 2, nullptr)); });
  CHECK(f.text.find("plait_feed.struct_size is 16, expected at least 24") != std::string::npos);
}
