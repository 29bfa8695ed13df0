// Proves that both ends of a connection belong to one job: HMAC-SHA256 with a secret that is never
// sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kit/hex.hpp"
#include "kit/hmac.hpp"
#include "kit/secret.hpp"

namespace plait::runtime::control {

using kit::equal_constant_time;
using kit::hex;

// Unpredictable bytes. Errors: PLAIT_ERR_IO if the system provides none.
std::string random_bytes(size_t n);
kit::Secret random_secret();  // (32) likewise
// Decodes hexadecimal text; "" if it is invalid.
std::string unhex(std::string_view text);

constexpr size_t kNonceSize = 32;
constexpr size_t kRunSize = 16;
constexpr size_t kProofSize = std::tuple_size_v<kit::Digest>;
constexpr size_t kSecretSize = 32;  // of a generated secret
constexpr size_t kMinSecret = 16;   // of a user's secret

// The values on which the two ends of a connection agree before either trusts the other. A proof is
// valid for this connection only, since each end has contributed a nonce, and for one direction
// only.
struct Challenge {
  std::string run;                         // (16) id of the run
  std::string client_nonce, server_nonce;  // (32)
  uint32_t rank = 0, size = 0;             // as claimed by the client
};
enum class Side { kClient, kServer };
std::string proof(std::string_view secret, const Challenge& challenge, Side side);  // (32)

}  // namespace plait::runtime::control
