// Full mutual TLS handshakes over blocking sockets with OpenSSL alone, so that a server of ours and
// `openssl s_server` meet the same client.
#pragma once

#include <cstdint>
#include <filesystem>

namespace nstance::bench {

// One after the other, with agent.pem. Each is closed from here and waited for until the server has
// closed it too: then the server has judged our certificate. Ends the process when one fails.
void MakeHandshakes(const std::filesystem::path& folder, std::uint16_t port, std::uint32_t count);

}  // namespace nstance::bench
