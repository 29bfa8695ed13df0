// A job that the host describes.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"

using host::failure_of;
using nlohmann::json;

namespace {

const std::string kSecret(32, 's');

// Rank 2 of 4, the second of two on its machine, at an address.
plait_job_options a_job() {
  plait_job_options o{};
  o.struct_size = sizeof o;
  o.rank = 2;
  o.size = 4;
  o.local_rank = 1;
  o.local_size = 2;
  o.rendezvous = "host:7";
  o.secret = kSecret.data();
  o.secret_size = kSecret.size();
  return o;
}

std::string described(const plait_job_options& o) {
  plait_job* job = nullptr;
  host::check(plait_job_open(&o, &job));
  const std::unique_ptr<plait_job, void (*)(plait_job*)> owned(job, plait_job_close);
  plait_text* text = nullptr;
  host::check(plait_job_describe(job, &text));
  return host::take(text);
}

}  // namespace

TEST_CASE("a job of the host is described as it was given, without its secret") {
  plait_job_options o = a_job();
  o.connect_timeout = 3;
  o.timeout = 0.5;
  const std::string text = described(o);
  CHECK(text.find(kSecret) == std::string::npos);
  json job = json::parse(text);
  CHECK(job == json{{"schema", 1},
                    {"rank", 2},
                    {"size", 4},
                    {"local_rank", 1},
                    {"local_size", 2},
                    {"rendezvous", "host:7"},
                    {"source", "host"},
                    {"reason", "the program said so"},
                    {"connect_timeout", 3.0},
                    {"timeout", 0.5}});
  o.local_size = 0;  // all ranks are on this machine
  job = json::parse(described(o));
  CHECK(job.at("local_rank") == 2);
  CHECK(job.at("local_size") == 4);
}

TEST_CASE("a job of the host that contradicts itself is refused with its reason") {
  const struct {
    void (*change)(plait_job_options&);
    const char* says;
  } faults[] = {
      {[](auto& o) { o.size = 0; }, "size is 0, expected 1 to "},
      {[](auto& o) { o.size = 1u << 31; }, "plait_job_options.size is 2147483648, which is not"},
      {[](auto& o) { o.rank = 4; }, "rank is 4, expected 0 to 3"},
      {[](auto& o) { o.local_size = 5; }, "local_size is 5, expected 1 to 4"},
      {[](auto& o) { o.local_rank = 2; }, "local_rank is 2, expected 0 to 1"},
      {[](auto& o) { o.connect_timeout = -1; }, "a timeout is -1.0 s"},
      {[](auto& o) { o.timeout = INFINITY; }, "a timeout is inf s"},
      {[](auto& o) { o.rendezvous = "host"; }, "the rendezvous 'host' "},
      {[](auto& o) { o.rendezvous = "file:/at/x"; }, "the file at which the ranks meet brings one"},
      {[](auto& o) { o.secret_size = 15; }, "the secret has 15 bytes, expected 16 to "},
      {[](auto& o) { o.secret_size = 0; }, "the secret has 0 bytes, expected 16 to "},
      {[](auto& o) { o.secret = nullptr; }, "plait_job_options.secret"},
  };
  for (const auto& fault : faults) {
    plait_job_options o = a_job();
    fault.change(o);
    const host::Failure failure = failure_of([&] { described(o); });
    CAPTURE(failure.text);
    CHECK(failure.code == PLAIT_ERR_INVALID);
    CHECK(failure.text.find(fault.says) != std::string::npos);
  }
}
