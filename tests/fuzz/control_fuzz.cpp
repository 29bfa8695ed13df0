// Arbitrary bytes as messages of ranks to rank 0: frames, and the job state on rank 0. Invalid
// input is PLAIT_ERR_DATA.
//
// The first byte is the number of ranks; then follow chunks: one byte for the rank (or another
// event), one byte for the size, and bytes of that rank's stream.
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/runtime/control/job_state.hpp"
#include "engine/runtime/control/rendezvous.hpp"
#include "engine/runtime/control/wire.hpp"

namespace {

using namespace plait::runtime::control;

class Job {
 public:
  explicit Job(uint32_t size)
      : size_(size),
        state_(size, 10, "fuzz:1", now_, 3, [this](uint32_t rank, const std::string& bytes) {
          if (rank >= size_) abort();
          sent_[rank].add(bytes);
        }) {
    for (uint32_t i = 0; i < size; ++i) {
      heard_.push_back(FrameReader(kMaxPayload));
      sent_.push_back(FrameReader(kMaxPayload));
      if (state_.admit(i, size)) abort();
    }
  }

  void piece(uint8_t what, std::string_view bytes) {
    now_ += std::chrono::milliseconds(10);
    const uint32_t rank = what % size_;
    if (what >= 0xf8) return strange(what, rank);
    if (!state_.is_connected(rank)) return;
    try {
      heard_[rank].add(bytes);
      while (const auto frame = heard_[rank].next()) {
        state_.handle(rank, *frame, now_);
        if (!state_.is_connected(rank)) break;
      }
    } catch (const plait::Error& e) {
      if (e.code() != PLAIT_ERR_DATA) abort();
      state_.mark_lost(rank, "it sent an invalid message");
    }
    check();
  }

 private:
  void strange(uint8_t what, uint32_t rank) {
    if (what == 0xff) now_ += std::chrono::seconds(1);
    if (what == 0xfe) state_.mark_lost(rank, "its connection was closed");
    if (what == 0xfd && !state_.admit(what, size_)) abort();
    if (what == 0xfc) state_.shut_down();
    state_.tick(now_);
    check();
  }

  // The bytes sent to ranks consist of whole frames of kinds that they know.
  void check() {
    uint32_t here = 0;
    for (uint32_t i = 0; i < size_; ++i) {
      here += state_.is_connected(i) ? 1 : 0;
      while (const auto frame = sent_[i].next()) {
        if (frame->kind == MessageKind::kEnd) decode_end(*frame);
        if (frame->kind == MessageKind::kPeer) decode_introduction(*frame);
        if (frame->kind < MessageKind::kChallenge || frame->kind > MessageKind::kAskCall) abort();
      }
    }
    if (here != state_.n_connected()) abort();
  }

  const uint32_t size_;
  Time now_{};
  std::vector<FrameReader> heard_, sent_;
  JobState state_;
};

template <class Decode>
void frames(std::string_view bytes, size_t max_payload, Decode&& decode) {
  try {
    FrameReader reader(max_payload);
    reader.add(bytes);
    while (const auto frame = reader.next()) decode(*frame);
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
}

// The first bytes of a connection, what rank 0 sends, and a rendezvous file.
void others(std::string_view bytes) {
  frames(bytes, kMaxUnproven, [](const Frame& f) { decode_hello(f); });
  frames(bytes, kMaxUnproven, [](const Frame& f) { decode_greeting(f); });
  frames(bytes, kMaxPayload, [](const Frame& f) { decode_introduction(f); });
  frames(bytes, kMaxPayload, [](const Frame& f) { decode_end(f); });
  try {
    const JoinInfo found = decode_join_info("fuzz", std::string(bytes));
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
