#include "plugins/comm/shm/file.hpp"

#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <plait/plugin.hpp>

namespace plait::comm_shm {
namespace {

constexpr uint64_t kLargePage = 2 * 1024 * 1024;

std::string random_name() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    fail(PLAIT_ERR_IO, "[shm] the system provides no random numbers (getrandom)");
  std::string name = "/plait-";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

}  // namespace

std::string in_mib(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 0x1p20);
  return text;
}

void check_shared_memory(const plait_comm_needs& needs) {
  // How to get more, as a container's user would type it.
  const auto remedy = [&](uint64_t mib) {
    return "; make it larger (containers: --shm-size=" + std::to_string(mib) +
           "m, otherwise mount -o remount,size=" + std::to_string(mib) +
           "m /dev/shm) or choose another topology.backend";
  };
  // A group of a rank has a ring, an extent of small buffers and a part of the control block. A
  // call needs two buffers: other ranks may still be reading the one before. Headers, and extents
  // that small buffers do not fill, take up to an eighth more.
  constexpr uint64_t kGroup = 5 * 256 * 1024;
  const uint64_t bytes = 2 * (needs.bytes + needs.bytes / 8) + needs.groups * kGroup;
  // As large as Docker's default at least, and with room for what an estimate misses.
  const uint64_t advised = std::max<uint64_t>(64, std::bit_ceil(bytes * 5 / 4 / (1 << 20) + 1));
  const std::string name = random_name();
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (fd < 0)
    fail(PLAIT_ERR_IO, std::string("[shm] no file can be made in shared memory (/dev/shm): ") +
                           std::strerror(errno) + "; " + in_mib(bytes) + " are needed for " +
                           std::to_string(needs.ranks) + " ranks" + remedy(advised));
  struct statvfs about {};
  const int status = fstatvfs(fd, &about);
  close(fd);
  shm_unlink(name.c_str());
  if (status != 0 || about.f_blocks == 0) return;  // no limit is known
  const uint64_t found = uint64_t{about.f_bavail} * about.f_frsize;
  if (bytes <= found) return;
  fail(PLAIT_ERR_MEMORY, "[shm] " + std::to_string(needs.ranks) + " ranks of this machine need " +
                             in_mib(bytes) + " of shared memory, found " + in_mib(found) +
                             " free in /dev/shm" + remedy(advised));
}

File::File(const comm_support::Members& members) : members_(members), name_(random_name()) {
  fd_ = shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (fd_ < 0) fail_system("cannot create a file in shared memory (/dev/shm)", errno);
  try {
    const uint64_t bytes = control_bytes(members.size);
    reserve(0, bytes);
    control_ = map(0, bytes);
  } catch (...) {
    close();
    throw;
  }
  control().end = control_bytes(members.size);
  control().size = members.size;
  control().magic = kMagic;
}

File::File(const comm_support::Members& members, const std::string& name)
    : members_(members), name_(name) {
  fd_ = shm_open(name_.c_str(), O_RDWR, 0);
  if (fd_ < 0 && errno == ENOENT) {
    named_ = false;
    fail(PLAIT_ERR_PEER, members.head() + ": " + members.names[members.rank] +
                             " does not find the shared memory of " + members.names[0] +
                             "; that rank has failed, or uses another /dev/shm (containers share "
                             "one with --ipc)");
  }
  if (fd_ < 0) fail_system("cannot open the shared memory of " + members.names[0], errno);
  try {
    struct stat about;
    if (fstat(fd_, &about) || about.st_uid != geteuid())
      fail(PLAIT_ERR_PEER, members.head() + ": the shared memory of " + members.names[0] +
                               " belongs to another user; run all ranks as one user");
    control_ = map(0, control_bytes(members.size));
    if (control().magic != kMagic || control().size != members.size)
      fail(PLAIT_ERR_PEER, members.head() + ": the shared memory of " + members.names[0] +
                               " is not that of a group of " + std::to_string(members.size) +
                               "; run the same version on all ranks");
  } catch (...) {
    close();
    throw;
  }
}

File::~File() { close(); }

void File::close() noexcept {
  unlink();
  for (const auto& [at, extent] : extents_) munmap(extent.address, extent.bytes);
  extents_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void File::unlink() noexcept {
  if (named_) shm_unlink(name_.c_str());  // another member may have unlinked it already
  named_ = false;
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
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
            static_cast<off_t>(bytes));
}

// Shrinks the file again, if no rank has allocated more since.
void File::take_back(uint64_t before, uint64_t end) noexcept {
  control().end.compare_exchange_strong(end, before);
}

uint64_t File::free_bytes() const {
  struct statvfs about {};
  if (fstatvfs(fd_, &about)) return 0;
  return about.f_blocks == 0 ? UINT64_MAX : uint64_t{about.f_bavail} * about.f_frsize;
}

// A store into a page of the file that has no memory would raise SIGBUS, so the memory is reserved
// now; in blocks, because a signal undoes the reservations of the interrupted call.
void File::reserve(uint64_t at, uint64_t bytes) {
  constexpr uint64_t kPiece = 64 * 1024 * 1024;
  int error = 0;
  for (uint64_t done = 0; done < bytes && error == 0; done += kPiece) {
    const uint64_t piece = std::min(kPiece, bytes - done);
    do error = posix_fallocate(fd_, static_cast<off_t>(at + done), static_cast<off_t>(piece));
    while (error == EINTR);
  }
  if (error == 0) return;
  punch(at, bytes);
  if (error != ENOSPC && error != ENOMEM && error != EFBIG)
    fail_system("cannot reserve memory of /dev/shm", error);
  fail(PLAIT_ERR_MEMORY,
       members_.head() + " needs " + in_mib(bytes) + " more of shared memory, found " +
           in_mib(free_bytes()) +
           " free in /dev/shm; make it larger (mount -o remount,size=..., containers: --shm-size)"
           " or choose another topology.backend");
}

char* File::map(uint64_t at, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto known = extents_.find(at); known != extents_.end()) {
    if (known->second.bytes >= bytes) return known->second.address;
    fail(PLAIT_ERR_PEER, members_.head() + ": an extent of shared memory has changed size");
  }
  struct stat about;
  if (fstat(fd_, &about)) fail_system("cannot get the size of shared memory", errno);
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
    return mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | how, fd_,
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
