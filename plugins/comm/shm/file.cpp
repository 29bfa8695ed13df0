#include "plugins/comm/shm/file.hpp"

#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <plait/plugin.hpp>
#include <utility>

#include "kit/hex.hpp"
#include "kit/hmac.hpp"
#include "plugins/comm/shm/free_memory.hpp"

namespace plait::comm_shm {
namespace {

constexpr uint64_t kLargePage = 2 * 1024 * 1024;

// Without a name in any file system: it ends with the last process that has it. Its size can only
// grow, so that no rank's access can fail.
kit::Fd new_file() {
#ifndef MFD_NOEXEC_SEAL
  constexpr unsigned MFD_NOEXEC_SEAL = 8;  // Linux 6.3, which may insist on it
#endif
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create("plait", kFlags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create("plait", kFlags);
  if (fd >= 0) fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
  return kit::Fd(fd);
}

// What has to be done where there is too little.
std::string remedy(const FreeMemory& found) {
  return std::string("; ") +
         (found.of_control_group
              ? "give the container or job more memory (docker --memory, systemd MemoryMax)"
              : "free some") +
         ", lower topology.bucket_mib or the number of ranks, or choose another topology.backend";
}

std::string where(const FreeMemory& found) {
  return found.of_control_group ? " left in the control group of this process"
                                : " available on this machine";
}

}  // namespace

std::string in_mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 0x1p20);
  return text;
}

uint64_t shared_bytes(const plait_comm_needs& needs) {
  // A group of a rank has a ring, an extent of small buffers and a part of the control block. A
  // call needs two buffers: other ranks may still be reading the one before. Headers, and extents
  // that small buffers do not fill, take up to an eighth more.
  constexpr uint64_t kGroup = 5 * 256 * 1024;
  return 2 * (needs.bytes + needs.bytes / 8) + needs.groups * kGroup;
}

void check_shared_memory(const plait_comm_needs& needs) {
  const uint64_t bytes = shared_bytes(needs);
  if (!new_file())
    fail(PLAIT_ERR_IO, std::string("[shm] no shared memory can be made (memfd_create): ") +
                           std::strerror(errno) + "; " + in_mib(bytes) + " are needed for " +
                           std::to_string(needs.ranks) + " ranks; choose another topology.backend");
  const FreeMemory found = free_memory(needs.ranks);
  if (bytes <= found.bytes) return;
  fail(PLAIT_ERR_MEMORY, "[shm] " + std::to_string(needs.ranks) + " ranks of this machine need " +
                             in_mib(bytes) + " of shared memory, found " + in_mib(found.bytes) +
                             where(found) + remedy(found));
}

File::File(const comm_support::Members& members) : members_(members), fd_(new_file()) {
  if (!fd_) fail_system("cannot make shared memory (memfd_create)", errno);
  const uint64_t bytes = control_bytes(members.size);
  reserve(0, bytes);
  control_ = map(0, bytes);
  control().end = bytes;
  control().size = members.size;
  std::memcpy(control().key, kit::hex(kit::random_bytes(kKeyBytes / 2)).data(), kKeyBytes);
  control().magic = kMagic;
}

File::File(const comm_support::Members& members, kit::Fd fd, std::string_view key)
    : members_(members), fd_(std::move(fd)) {
  struct stat about;
  if (fstat(fd_.get(), &about) || about.st_uid != geteuid())
    fail(PLAIT_ERR_PEER, members.head() + ": the shared memory of " + members.names[0] +
                             " belongs to another user; run all ranks as one user");
  control_ = map(0, control_bytes(members.size));
  if (control().magic != kMagic || control().size != members.size ||
      !kit::equal_constant_time(this->key(), key)) {
    unmap();
    fail(PLAIT_ERR_PEER, members.head() + ": the shared memory of " + members.names[0] +
                             " is not that of a group of " + std::to_string(members.size) +
                             "; run the same version on all ranks");
  }
}

File::~File() { unmap(); }

void File::unmap() noexcept {
  for (const auto& [at, extent] : extents_) munmap(extent.address, extent.bytes);
  extents_.clear();
}

uint64_t File::grow(uint64_t bytes) {
  const uint64_t at = control().end.fetch_add(bytes);
  try {
    reserve(at, bytes);
  } catch (...) {
    take_back(at, at + bytes);
    throw;
  }
  return at;
}

// Asks for huge pages: computing in many small pages would cost about half of the time that
// symmetric memory saves.
uint64_t File::grow_for_tensors(uint64_t bytes) {
  if (bytes < kLargePage) return grow(bytes);
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Linux 6.1
#endif
  // The bytes skipped for alignment are not reserved.
  const uint64_t before = control().end.fetch_add(bytes + kLargePage),
                 at = round_up(before, kLargePage);
  try {
    reserve(at, bytes);
    // A refusal costs only speed.
    madvise(map(at, bytes), bytes / kLargePage * kLargePage, MADV_COLLAPSE);
  } catch (...) {
    give_back(at, bytes);
    take_back(before, before + bytes + kLargePage);
    throw;
  }
  return at;
}

void File::give_back(uint64_t at, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto mapped = extents_.find(at); mapped != extents_.end()) {
    munmap(mapped->second.address, mapped->second.bytes);
    extents_.erase(mapped);
  }
  punch(at, bytes);
}

void File::punch(uint64_t at, uint64_t bytes) const noexcept {
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
            static_cast<off_t>(bytes));
}

// Shrinks the file again, if no rank has allocated more since.
void File::take_back(uint64_t before, uint64_t end) noexcept {
  control().end.compare_exchange_strong(end, before);
}

// A store into a page of the file that has no memory would raise SIGBUS, so the memory is reserved
// now; in blocks, because a signal undoes the reservations of the interrupted call.
void File::reserve(uint64_t at, uint64_t bytes) {
  constexpr uint64_t kPiece = 64 * 1024 * 1024;
  int error = 0;
  for (uint64_t done = 0; done < bytes && error == 0; done += kPiece) {
    // Asked first, and again, because others take memory meanwhile: a control group kills a process
    // that takes more than its limit.
    if (bytes - done > free_memory().bytes) {
      error = ENOMEM;
      break;
    }
    const uint64_t piece = std::min(kPiece, bytes - done);
    do error = posix_fallocate(fd_.get(), static_cast<off_t>(at + done), static_cast<off_t>(piece));
    while (error == EINTR);
  }
  if (error == 0) return;
  punch(at, bytes);
  if (error != ENOSPC && error != ENOMEM && error != EFBIG)
    fail_system("cannot reserve shared memory", error);
  const FreeMemory found = free_memory();
  fail(PLAIT_ERR_MEMORY, members_.head() + " needs " + in_mib(bytes) +
                             " more of shared memory, found " + in_mib(found.bytes) + where(found) +
                             remedy(found));
}

char* File::map(uint64_t at, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto known = extents_.find(at); known != extents_.end()) {
    if (known->second.bytes >= bytes) return known->second.address;
    fail(PLAIT_ERR_PEER, members_.head() + ": an extent of shared memory has changed size");
  }
  struct stat about;
  if (fstat(fd_.get(), &about)) fail_system("cannot get the size of shared memory", errno);
  const auto length = static_cast<uint64_t>(about.st_size);
  if (at % kGranularity || at > length || bytes > length - at)
    fail(PLAIT_ERR_PEER, members_.head() + ": a rank refers to shared memory that does not exist");
  char* const address = try_map(at, bytes);
  if (!address) fail_system("cannot map " + in_mib(bytes) + " of shared memory", errno);
  extents_.emplace(at, Extent{address, bytes});
  return address;
}

// NULL: errno has the reason.
char* File::try_map(uint64_t at, uint64_t bytes) const {
  const auto map = [&](void* where, int how) {
    return mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | how, fd_.get(),
                static_cast<off_t>(at));
  };
  void* address;
  if (at % kLargePage != 0 || bytes < kLargePage) {
    address = map(nullptr, 0);
  } else {
    // Huge pages require that the address and the offset in the file are equal modulo the page
    // size.
    void* const reserved = mmap(nullptr, bytes + kLargePage, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(reserved);
    const uint64_t before = -reinterpret_cast<uintptr_t>(begin) % kLargePage;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + bytes, kLargePage - before);
    address = map(begin + before, MAP_FIXED);
  }
  return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
}

void File::fail_system(const std::string& what, int error) const {
  fail(error == ENOMEM ? PLAIT_ERR_MEMORY : PLAIT_ERR_IO, members_.head() + ": " + what + ": " +
                                                              std::strerror(error) +
                                                              "; choose another topology.backend");
}

}  // namespace plait::comm_shm
