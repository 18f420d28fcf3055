// Toxiproxy: a real proxy between a client and a peer that can be told to misbehave.
//
//   const auto toxiproxy = test::Toxiproxy::Start();
//   if (!toxiproxy) GTEST_SKIP() << toxiproxy.error().message;
//   const auto proxy = (*toxiproxy)->AddProxy("store", "127.0.0.1:9000");
//   (*toxiproxy)->AddToxic("store", test::Toxic::Latency(Duration::Seconds(1)));
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "test/support/background_process.h"
#include "test/support/peer_client.h"
#include "test/support/temp_dir.h"

namespace nstance::test {

// A fault on one direction. "downstream" is from the peer to the client.
struct Toxic {
  std::string name;
  std::string type;
  std::string stream;
  std::string attributes;  // JSON.

  [[nodiscard]] static Toxic Latency(Duration delay, std::string_view stream = "downstream");
  // Nothing gets through, and the connection is closed after `after`; zero: never.
  [[nodiscard]] static Toxic Timeout(Duration after, std::string_view stream = "downstream");
  // The connection is reset after `after`.
  [[nodiscard]] static Toxic ResetPeer(Duration after, std::string_view stream = "downstream");
  // The connection is closed after that many bytes.
  [[nodiscard]] static Toxic LimitData(std::size_t bytes, std::string_view stream = "downstream");
};

class Toxiproxy final {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Toxiproxy>> Start();

  // Returns the address that clients connect to, "127.0.0.1:port". `upstream` is "host:port".
  [[nodiscard]] Result<std::string> AddProxy(const std::string& name, const std::string& upstream);

  [[nodiscard]] Status AddToxic(const std::string& proxy, const Toxic& toxic);
  [[nodiscard]] Status RemoveToxic(const std::string& proxy, const std::string& toxic);
  // Cut: open connections are closed, new ones refused. Heal: the same address accepts again.
  [[nodiscard]] Status Cut(const std::string& proxy);
  [[nodiscard]] Status Heal(const std::string& proxy);

 private:
  Toxiproxy() = default;
  [[nodiscard]] Result<HttpResponse> Ask(HttpMethod method, const std::string& path,
                                         std::string body);

  TempDir folder_;
  PeerClient client_;
  std::string url_;
  std::unique_ptr<BackgroundProcess> process_;
};

}  // namespace nstance::test
