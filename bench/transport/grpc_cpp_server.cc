// The side `grpc-c++` of the transport benchmark: Debian's gRPC C++ with the callback API. It
// parses reports and does nothing else. Arguments and output as server_main.cc.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "nstance/v1/agent.grpc.pb.h"

namespace {

namespace pb = nstance::v1;
using google::protobuf::Empty;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Reports final : public grpc::ServerReadReactor<pb::HealthReportRequest> {
 public:
  explicit Reports(std::atomic<std::uint64_t>& count) : count_(count) { StartRead(&report_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    ++count_;
    StartRead(&report_);
  }
  void OnDone() override { delete this; }

 private:
  std::atomic<std::uint64_t>& count_;
  pb::HealthReportRequest report_;
};

// A stream on which nothing is ever sent.
template <class Message>
class Silence final : public grpc::ServerWriteReactor<Message> {
 public:
  void OnCancel() override { this->Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Agents final : public pb::AgentService::CallbackService {
 public:
  grpc::ServerReadReactor<pb::HealthReportRequest>* SubmitHealthReport(
      grpc::CallbackServerContext* /*context*/, Empty* /*response*/) override {
    return new Reports(reports);
  }
  grpc::ServerWriteReactor<pb::KeyGenerationRequest>* ReceiveKeyRequests(
      grpc::CallbackServerContext* /*context*/, const Empty* /*request*/) override {
    return new Silence<pb::KeyGenerationRequest>();
  }
  grpc::ServerWriteReactor<pb::FileTransfer>* ReceiveFiles(grpc::CallbackServerContext* /*context*/,
                                                           const Empty* /*request*/) override {
    return new Silence<pb::FileTransfer>();
  }
  grpc::ServerUnaryReactor* SubmitPublicKeys(grpc::CallbackServerContext* context,
                                             const pb::PublicKeysRequest* /*request*/,
                                             Empty* /*response*/) override {
    ++unary;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  std::atomic<std::uint64_t> reports = 0;
  std::atomic<std::uint64_t> unary = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = ReadFile(folder + "/ca.pem");
  tls.pem_key_cert_pairs.push_back(
      {ReadFile(folder + "/server.key"), ReadFile(folder + "/server.pem")});
  Agents agents;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  // The same windows as the other sides; probing for better ones would cost it pings.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.RegisterService(&agents);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::printf("PORT %d\n", port);
  std::fflush(stdout);
  std::array<char, 64> ignored{};
  while (read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) {
  }
  std::printf("COUNTS %llu %llu\n", static_cast<unsigned long long>(agents.reports),
              static_cast<unsigned long long>(agents.unary));
  std::fflush(stdout);
  _exit(0);
}
