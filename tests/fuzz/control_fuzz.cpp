// Any bytes as what ranks send to rank 0: frames, and the board that keeps the job's state. What makes no sense is PLAIT_ERR_DATA.
//
// The first byte is the number of ranks; then come pieces: one byte that says which rank (or what else happens), one byte of size,
// and bytes of the stream of that rank.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/runtime/control/board.hpp"
#include "engine/runtime/control/meeting.hpp"
#include "engine/runtime/control/wire.hpp"

namespace {

using namespace plait::runtime::control;

class Job {
 public:
  explicit Job(uint32_t size)
      : size_(size),
        board_(size, 10, "fuzz:1", now_, [this](uint32_t rank, const std::string& bytes) {
          if (rank >= size_) abort();
          sent_[rank].add(bytes);
        }) {
    for (uint32_t i = 0; i < size; ++i) {
      heard_.push_back(FrameReader(kMostPayload));
      sent_.push_back(FrameReader(kMostPayload));
      if (board_.admit(i, size)) abort();
    }
  }

  void piece(uint8_t what, std::string_view bytes) {
    now_ += std::chrono::milliseconds(10);
    const uint32_t rank = what % size_;
    if (what >= 0xf8) return strange(what, rank);
    if (!board_.here(rank)) return;
    try {
      heard_[rank].add(bytes);
      while (const auto frame = heard_[rank].next()) {
        board_.handle(rank, *frame, now_);
        if (!board_.here(rank)) break;
      }
    } catch (const plait::Error& e) {
      if (e.code() != PLAIT_ERR_DATA) abort();
      board_.lost(rank, "it sent what makes no sense");
    }
    check();
  }

 private:
  void strange(uint8_t what, uint32_t rank) {
    if (what == 0xff) now_ += std::chrono::seconds(1);
    if (what == 0xfe) board_.lost(rank, "its connection was closed");
    if (what == 0xfd && !board_.admit(what, size_)) abort();
    if (what == 0xfc) board_.close_down();
    board_.tick(now_);
    check();
  }

  // What ranks are sent is made of whole frames of kinds that they know.
  void check() {
    uint32_t here = 0;
    for (uint32_t i = 0; i < size_; ++i) {
      here += board_.here(i) ? 1 : 0;
      while (const auto frame = sent_[i].next()) {
        if (frame->kind == Kind::kEnd) decode_end(*frame);
        if (frame->kind == Kind::kPeer) decode_introduction(*frame);
        if (frame->kind < Kind::kChallenge || frame->kind > Kind::kWhich) abort();
      }
    }
    if (here != board_.n_here()) abort();
  }

  const uint32_t size_;
  Time now_{};
  std::vector<FrameReader> heard_, sent_;
  Board board_;
};

// A stranger's first bytes, and a meeting file.
void others(std::string_view bytes) {
  try {
    FrameReader reader(kMostUnproven);
    reader.add(bytes);
    while (const auto frame = reader.next()) decode_hello(*frame);
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
  try {
    const Invitation found = decode_invitation("fuzz", std::string(bytes));
    if (found.secret.size() != 32 || found.run.size() != 16 || found.port == 0) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  others(all);
  if (size == 0) return 0;
  Job job(1 + data[0] % 4);
  for (std::string_view rest = all.substr(1); rest.size() >= 2;) {
    const auto what = static_cast<uint8_t>(rest[0]);
    const size_t length = std::min<size_t>(static_cast<uint8_t>(rest[1]), rest.size() - 2);
    job.piece(what, rest.substr(2, length));
    rest.remove_prefix(2 + length);
  }
  return 0;
}
