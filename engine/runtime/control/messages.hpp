// The messages that carry more than a number or a text.
#pragma once

#include <cstdint>
#include <string>

#include "engine/runtime/control.hpp"
#include "engine/runtime/control/identity_check.hpp"
#include "engine/runtime/control/wire.hpp"

namespace plait::runtime::control {

struct Hello {
  uint32_t rank = 0, size = 0;
  std::string nonce;
};
std::string encode(const Hello& hello);
Hello decode_hello(const Frame& frame);  // PLAIT_ERR_DATA for anything else

// The server's answer to it.
struct Greeting {
  std::string run, nonce, proof;
};
std::string encode(const Greeting& greeting);
Greeting decode_greeting(const Frame& frame);

struct Arrival {
  Peer peer;
  std::string machine;  // what the kernel calls it: host names need not differ
  uint64_t process_id = 0;
  uint64_t patience_ms = 0;  // how long it is ready to wait for the others
  SectionDigests identity{};
};
std::string encode(const Arrival& arrival);
Arrival decode_arrival(const Frame& frame);

// Which rank a kPeer is about.
struct Introduction {
  uint32_t rank = 0;
  Peer peer;
  uint64_t process_id = 0;
};
std::string encode(const Introduction& introduction);
Introduction decode_introduction(const Frame& frame);

// Why a job is over.
struct EndReason {
  uint32_t code =
      0;  // what a rank fails with that was still waiting for the others: PLAIT_ERR_PEER, ...
  std::string text;
};
std::string encode(const EndReason& end);
EndReason decode_end(const Frame& frame);

}  // namespace plait::runtime::control
