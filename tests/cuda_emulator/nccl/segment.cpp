#include "tests/cuda_emulator/nccl/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

namespace nccl_emulator {
namespace {
constexpr size_t kHead = 4096;
// Two ranks exchange messages that nobody may wait for yet; more of them rows of all_to_all.
size_t ring_size_of(uint32_t ranks) { return size_t{ranks <= 2 ? 8u : 1u} << 20; }
}  // namespace

Segment::Segment(const std::string& name, uint32_t ranks)
    : name_(name), ranks_(ranks), ring_size_(ring_size_of(ranks)) {
  const size_t pairs = size_t{ranks} * ranks;
  size_ = kHead + pairs * sizeof(Ring) + ranks * kSlot + pairs * ring_size_;
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0)
    throw std::runtime_error("shm_open");
  memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error("mmap");  // zero is how everything begins
}

Segment::~Segment() { munmap(memory_, size_); }

void Segment::unlink() const { shm_unlink(name_.c_str()); }

Ring& Segment::ring(uint32_t from, uint32_t to) const {
  auto* rings = reinterpret_cast<Ring*>(static_cast<char*>(memory_) + kHead);
  return rings[from * ranks_ + to];
}

char* Segment::slot(uint32_t rank) const {
  return static_cast<char*>(memory_) + kHead + size_t{ranks_} * ranks_ * sizeof(Ring) +
         rank * kSlot;
}

char* Segment::ring_bytes(uint32_t from, uint32_t to) const {
  return slot(ranks_) + (from * ranks_ + to) * ring_size_;
}

}  // namespace nccl_emulator
