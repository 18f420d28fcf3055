// One idle agent on Debian's gRPC C++. Arguments and output as client_main.cc.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <grpcpp/grpcpp.h>

#include "nstance/v1/agent.grpc.pb.h"

namespace {

namespace pb = nstance::v1;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class Reports final : public grpc::ClientWriteReactor<pb::HealthReportRequest> {
 public:
  void Begin() { StartCall(); }
};

template <class Message>
class Waiting final : public grpc::ClientReadReactor<Message> {
 public:
  void Begin() {
    this->StartRead(&message_);
    this->StartCall();
  }

 private:
  Message message_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1];
  const grpc::SslCredentialsOptions tls = {.pem_root_certs = ReadFile(folder + "/ca.pem"),
                                           .pem_private_key = ReadFile(folder + "/agent.key"),
                                           .pem_cert_chain = ReadFile(folder + "/agent.pem")};
  const auto channel =
      grpc::CreateChannel(std::string("127.0.0.1:") + argv[2], grpc::SslCredentials(tls));
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
    return 1;
  }
  const auto stub = pb::AgentService::NewStub(channel);
  std::array<grpc::ClientContext, 3> contexts;
  google::protobuf::Empty request;
  google::protobuf::Empty answer;
  Reports reports;
  Waiting<pb::KeyGenerationRequest> keys;
  Waiting<pb::FileTransfer> files;
  stub->async()->SubmitHealthReport(contexts.data(), &answer, &reports);
  stub->async()->ReceiveKeyRequests(&contexts[1], &request, &keys);
  stub->async()->ReceiveFiles(&contexts[2], &request, &files);
  reports.Begin();
  keys.Begin();
  files.Begin();
  std::printf("READY\n");
  std::fflush(stdout);
  std::array<char, 64> ignored{};
  while (read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) {
  }
  _exit(0);
}
