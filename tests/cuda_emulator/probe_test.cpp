// Which GPU a rank gets, and what probe() says where a session could not run.
#include <stdlib.h>

#include <utility>

#include "tests/cuda_emulator/plugin.hpp"

using namespace cuda_emulator;

namespace {

// An environment variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

// The plugin's host with a place in a job and a log.
plait_job_place place{sizeof(plait_job_place), 0, 1, 0, 1};
std::string logged;
plait_host host_of_job(uint32_t local_rank, uint32_t local_size) {
  place.rank = place.local_rank = local_rank;
  place.world = place.local_size = local_size;
  logged.clear();
  plait_host host = *plugin().host();
  host.log = [](const plait_host*, uint32_t level, const char* text, uint64_t size) {
    if (level == PLAIT_LOG_WARN) logged += std::string(text, size) + "\n";
  };
  host.extension = [](const plait_host*, const char* id) -> const void* {
    static const plait_job_table table{
        sizeof(plait_job_table), [](const plait_host*, plait_job_place* out) { *out = place; }};
    return std::strcmp(id, PLAIT_EXTENSION_JOB) == 0 ? &table : nullptr;
  };
  return host;
}

// What probe() returns, and its text.
std::pair<uint32_t, std::string> probe(const plait_host& host,
                                       const abi_host::OptionValues& given = {}) {
  const plait_device_item& item = plugin().device();
  const auto options = abi_host::options_of(item.options, item.n_options, given);
  char detail[512] = "";
  const uint32_t found = item.probe(&host, &options.head, detail, sizeof detail);
  return {found, detail};
}

// The error of open(), "" if it opens.
std::string open(const plait_host& host, const abi_host::OptionValues& given = {}) {
  const plait_device_item& item = plugin().device();
  const auto options = abi_host::options_of(item.options, item.n_options, given);
  plait_device* device = nullptr;
  const std::string error = take(item.open(&host, &options.head, &device));
  if (device) item.close(device);
  return error;
}

void check_refused(const plait_host& host, const abi_host::OptionValues& given, const char* part) {
  const auto [found, why] = probe(host, given);
  CHECK(found == 0);
  CHECK_MESSAGE(why.find(part) != std::string::npos, why);
  CHECK(open(host, given) == why);
}

TEST_CASE("a GPU on which a session can run") {
  emulator_configure(nullptr, 2);
  const plait_host host = host_of_job(1, 2);
  const auto [found, detail] = probe(host);
  CHECK(found == 1);
  CHECK(detail == "2 GPUs, this rank's: Emulated GPU");
  CHECK(open(host) == "");
  check_nothing_is_left();
}

TEST_CASE("a GPU that is too old, or not there, is refused by probe() and open() alike") {
  emulator_configure(nullptr, 2);
  const plait_host host = host_of_job(0, 1);
  check_refused(host, {{"index", "2"}}, "device.index is 2, but this process sees 2 GPUs");
  const Variable old("PLAIT_CUDA_EMULATOR_ARCHITECTURE", "75");
  check_refused(host, {}, "Emulated GPU has compute capability 7.5, expected 8.0");
}

TEST_CASE("a machine with fewer GPUs than ranks is too small for each of its ranks") {
  emulator_configure(nullptr, 2);
  for (const uint32_t rank : {0u, 2u})
    check_refused(host_of_job(rank, 3), {},
                  "is one of 3 ranks of its machine, but this process "
                  "sees 2 GPUs");
  CHECK(open(host_of_job(2, 3), {{"index", "1"}}) == "");
}

TEST_CASE("ranks that share the only GPU are warned once") {
  unsetenv("CUDA_VISIBLE_DEVICES");
  const auto warning = [](int gpus, uint32_t rank, uint32_t ranks) {
    emulator_configure(nullptr, gpus);
    CHECK(open(host_of_job(rank, ranks)) == "");
    return logged;
  };
  CHECK(warning(1, 0, 2).find("[cuda] 2 ranks of this machine see one GPU each") == 0);
  CHECK(warning(1, 1, 2) == "");
  CHECK(warning(1, 0, 1) == "");
  CHECK(warning(2, 0, 2) == "");
  const Variable visible("CUDA_VISIBLE_DEVICES", "0");
  CHECK(warning(1, 0, 2) == "");
}

// Runs in unit_cuda_old_driver, a process of its own: the version of the driver is read once.
TEST_CASE("a driver older than the toolkit is refused" * doctest::skip()) {
  emulator_configure(nullptr, 1);
  const plait_host host = host_of_job(0, 1);
  check_refused(host, {}, "[cuda] the driver serves CUDA 11.8, this plugin is of CUDA 1");
  check_refused(host, {}, " or newer, or set run.device = \"cpu\"");
}

TEST_CASE("peak rates are of the names that the data sheets list") {
  emulator_configure(nullptr, 1);
  const auto peak = [](const char* name, uint32_t dtype) {
    const Variable named("PLAIT_CUDA_EMULATOR_NAME", name);
    const OpenDevice device;
    return OpenDevice::item().peak_flops(device.get(), dtype);
  };
  CHECK(peak("NVIDIA H100 80GB HBM3", PLAIT_BF16) == 989.4e12);
  CHECK(peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", PLAIT_BF16) == 0);
  CHECK(peak("NVIDIA H200 NVL", PLAIT_F16) == 0);
  CHECK(peak("Emulated GPU", PLAIT_F64) == peak("Emulated GPU", PLAIT_F32));
  const Variable blackwell("PLAIT_CUDA_EMULATOR_ARCHITECTURE", "100");
  CHECK(peak("Emulated GPU", PLAIT_F64) == peak("Emulated GPU", PLAIT_F32) / 2);
}

}  // namespace
