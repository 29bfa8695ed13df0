// Proof that both ends of a connection belong to one job: HMAC-SHA256 over a secret that is never sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::runtime::control {

using Digest = std::array<uint8_t, 32>;

Digest hmac(std::string_view key, std::string_view data);
// Equal, in a time that does not depend on where they differ.
bool equal_constant_time(std::string_view a, std::string_view b);

// Bytes nobody can guess. Errors: PLAIT_ERR_IO when the system gives none.
std::string random_bytes(size_t n);
std::string hex(std::string_view bytes);
// The bytes of a text in hexadecimal; "" for anything else.
std::string unhex(std::string_view text);

constexpr size_t kNonceSize = 32;
constexpr size_t kRunSize = 16;
constexpr size_t kProofSize = std::tuple_size_v<Digest>;
constexpr size_t kSecretSize = 32;  // of our own making
constexpr size_t kMinSecret = 16;   // of anybody's

// What the two ends of a connection agree on before either trusts the other. A proof is good for this connection only, since
// each end has brought a nonce of its own, and for one direction only.
struct Challenge {
  std::string run;                         // (16) which run of the job
  std::string client_nonce, server_nonce;  // (32)
  uint32_t rank = 0, size = 0;             // who the client says it is
};
enum class Side { kClient, kServer };
std::string proof(std::string_view secret, const Challenge& challenge, Side side);  // (32)

}  // namespace plait::runtime::control
