// The structured messages: all that carry more than a number or a text.
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
Hello decode_hello(const Frame& frame);  // PLAIT_ERR_DATA for any other frame

// The server's reply to Hello.
struct Greeting {
  std::string run, nonce, proof;
};
std::string encode(const Greeting& greeting);
Greeting decode_greeting(const Frame& frame);

struct Arrival {
  Peer peer;
  std::string machine;  // the kernel's boot id: host names may be equal
  uint64_t process_id = 0;
  uint64_t connect_timeout_ms = 0;  // how long it will wait for the other ranks
  SectionDigests identity{};
};
std::string encode(const Arrival& arrival);
Arrival decode_arrival(const Frame& frame);

// The content of a kPeer message: one rank.
struct Introduction {
  uint32_t rank = 0;
  Peer peer;
  uint64_t process_id = 0;
};
std::string encode(const Introduction& introduction);
Introduction decode_introduction(const Frame& frame);

// The reason for the end of a job.
struct EndReason {
  uint32_t code =
      0;  // error code for ranks that were still waiting for the others: PLAIT_ERR_PEER, ...
  std::string text;
};
std::string encode(const EndReason& end);
EndReason decode_end(const Frame& frame);

}  // namespace plait::runtime::control
