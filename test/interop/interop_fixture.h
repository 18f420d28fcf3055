// Our server with the test service, our client, and the programs of others, all on loopback with
// the certificates of one small cluster.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "adapters/rpc/rpc_dialer.h"
#include "adapters/rpc/rpc_server.h"
#include "test/adapters/rpc/rpc_fixture.h"
#include "test/adapters/rpc/rpc_materials.h"
#include "test/interop/test_service.h"
#include "test/support/background_process.h"
#include "test/support/process.h"
#include "test/support/temp_dir.h"

namespace nstance::interop {

using grpc::test::Who;

// PEM files of one identity.
struct Files {
  std::string certificate;
  std::string key;
};
[[nodiscard]] Files WriteFiles(const test::TempDir& folder, const RpcTls& material);

// Another maker's gRPC, as a program.
enum class Maker : std::uint8_t {
  kGo,      // grpc-go's own test programs, from tools/peers.
  kCpp,     // grpcpp_peer, on Debian's library.
  kPython,  // grpc_peer.py, on Debian's library.
};
[[nodiscard]] std::string NameOf(Maker maker);
inline void PrintTo(Maker maker, std::ostream* out) { *out << NameOf(maker); }

// Every case of client_cases.h with every maker.
struct PeerCase {
  Maker maker = Maker::kGo;
  std::string name;
};
[[nodiscard]] std::vector<PeerCase> PeerCases();
inline void PrintTo(const PeerCase& one, std::ostream* out) {
  *out << NameOf(one.maker) << "_" << one.name;
}

// What to start it with, as a client or as a server; kNotFound is the reason to skip.
enum class Side : std::uint8_t { kClient, kServer };
[[nodiscard]] Result<test::ProcessRequest> CommandOf(Maker maker, Side side);

enum class AsksFor : std::uint8_t { kNothing, kClientCertificate };

// A server of another maker that offers the test service.
class PeerServer final {
 public:
  // One per kind that all tests of this process share; stopped at the end.
  [[nodiscard]] static Result<PeerServer*> Shared(Maker maker, AsksFor asks);

  [[nodiscard]] const RpcAddress& address() const { return address_; }
  [[nodiscard]] std::string Output() const { return process_->OutputTail(); }

 private:
  PeerServer() = default;
  [[nodiscard]] static Result<std::unique_ptr<PeerServer>> Start(Maker maker, AsksFor asks);
  [[nodiscard]] static Result<std::unique_ptr<PeerServer>> TryStart(Maker maker, AsksFor asks);
  [[nodiscard]] Status WaitForPort();

  test::TempDir folder_;
  RpcAddress address_;
  std::unique_ptr<test::BackgroundProcess> process_;  // Goes before its folder.
};

class InteropFixture : public testing::Test {
 public:
  InteropFixture();
  ~InteropFixture() override;

  // A listener of our server; its acceptor is the test service.
  RpcAddress Open(RpcPort port);
  // Runs a program to its end while our server works.
  test::ProcessOutput Run(test::ProcessRequest request);
  // A channel of our client in its first final state: ready or gone.
  grpc::test::TestClient& Connect(const RpcAddress& address, Who who);
  [[nodiscard]] bool Until(const std::function<bool()>& condition);

  RealLoop loop_;
  grpc::test::QuietSink sink_;
  test::TempDir folder_;
  std::string ca_file_;
  TestService service_{loop_};
  std::unique_ptr<grpc::SocketRpcServer> server_;
  grpc::SocketRpcDialer dialer_{{.loop = loop_, .methods = Methods()}};
  std::vector<std::unique_ptr<grpc::test::TestClient>> clients_;
};

}  // namespace nstance::interop
