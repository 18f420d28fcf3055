// Real object stores as peers: started on loopback in a folder of their own, with one bucket.
//
//   void SetUp() override {
//     const auto store = test::SharedStore(test::StorePeer::kMinio);
//     if (!store) GTEST_SKIP() << store.error().message;
//
// A peer that is not installed is kNotFound, the reason to skip; one that does not become ready is
// another error, with what it wrote. Skip in SetUp(), never in SetUpTestSuite(): a skip there would
// be counted as a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "test/support/background_process.h"
#include "test/support/temp_dir.h"

namespace nstance::test {

enum class StorePeer : std::uint8_t {
  kMinio,
  kVersitygw,
  kMinistack,
  kFakeGcs,
  kGcpStorageEmulator,  // Ignores preconditions: a real store that lies.
};

// As tools/peers calls it.
[[nodiscard]] std::string_view PeerName(StorePeer peer);
[[nodiscard]] bool SpeaksS3(StorePeer peer);

class RunningStore final {
 public:
  static constexpr std::string_view kBucket = "nstance-test";
  static constexpr std::string_view kAccessKey = "nstance-test-key";
  static constexpr std::string_view kSecretKey = "nstance-test-secret-key";

  [[nodiscard]] static Result<std::unique_ptr<RunningStore>> Start(StorePeer peer);

  // "http://127.0.0.1:port".
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] BackgroundProcess& process() { return *process_; }

 private:
  RunningStore() = default;
  [[nodiscard]] Status Run(StorePeer peer, const std::string& program);
  [[nodiscard]] Status MakeBucket(StorePeer peer);

  TempDir folder_;
  int port_ = 0;
  std::string endpoint_;
  std::unique_ptr<BackgroundProcess> process_;  // Goes before its folder.
};

// One that all tests of this process share; started at the first call, stopped at the end.
[[nodiscard]] Result<RunningStore*> SharedStore(StorePeer peer);

// The program of an installed peer, or kNotFound with the reason to skip.
[[nodiscard]] Result<std::string> FindPeer(std::string_view name);

}  // namespace nstance::test
