// Client and server of the gRPC interoperability tests on Debian's gRPC for C++: a program of its
// own, so that nothing of that library gets into ours. Its command line and what it says are those
// of grpc_peer.py.
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "test/interop/testing.grpc.pb.h"

namespace {

namespace pb = grpc::testing;

constexpr const char* kInitial = "x-grpc-test-echo-initial";
constexpr const char* kTrailing = "x-grpc-test-echo-trailing-bin";
const std::vector<int> kRequestSizes = {27182, 8, 1828, 45904};
const std::vector<int> kResponseSizes = {31415, 9, 2653, 58979};

std::string Read(const std::string& name) {
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

pb::Payload Zeros(int size) {
  pb::Payload payload;
  payload.set_body(std::string(static_cast<std::size_t>(size), '\0'));
  return payload;
}

// --- Client --------------------------------------------------------------------------------------

struct Client {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::TestService::Stub> stub;
};

bool failed = false;

template <class A, class B>
void Expect(const std::string& what, const A& got, const B& wanted) {
  if (got == wanted) return;
  failed = true;
  std::cout << what << ": got " << got << " instead of " << wanted << std::endl;
}

void ExpectStatus(const grpc::Status& status, grpc::StatusCode code) {
  Expect("status (" + status.error_message() + ")", static_cast<int>(status.error_code()),
         static_cast<int>(code));
}

struct Context : grpc::ClientContext {
  explicit Context(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    set_deadline(std::chrono::system_clock::now() + limit);
  }
};

pb::SimpleRequest LargeRequest() {
  pb::SimpleRequest request;
  request.set_response_size(314159);
  *request.mutable_payload() = Zeros(271828);
  return request;
}

pb::StreamingOutputCallRequest Asking(int response, int payload) {
  pb::StreamingOutputCallRequest request;
  request.add_response_parameters()->set_size(response);
  *request.mutable_payload() = Zeros(payload);
  return request;
}

void EmptyUnary(Client& client) {
  Context context;
  pb::Empty response;
  ExpectStatus(client.stub->EmptyCall(&context, pb::Empty(), &response), grpc::OK);
}

void LargeUnary(Client& client) {
  Context context;
  pb::SimpleResponse response;
  ExpectStatus(client.stub->UnaryCall(&context, LargeRequest(), &response), grpc::OK);
  Expect("size", response.payload().body().size(), 314159U);
}

void ClientStreaming(Client& client) {
  Context context;
  pb::StreamingInputCallResponse response;
  const auto writer = client.stub->StreamingInputCall(&context, &response);
  for (const int size : kRequestSizes) {
    pb::StreamingInputCallRequest request;
    *request.mutable_payload() = Zeros(size);
    Expect("write", writer->Write(request), true);
  }
  writer->WritesDone();
  ExpectStatus(writer->Finish(), grpc::OK);
  Expect("sum", response.aggregated_payload_size(), 74922);
}

void ServerStreaming(Client& client) {
  Context context;
  pb::StreamingOutputCallRequest request;
  for (const int size : kResponseSizes) request.add_response_parameters()->set_size(size);
  const auto reader = client.stub->StreamingOutputCall(&context, request);
  pb::StreamingOutputCallResponse response;
  std::size_t count = 0;
  while (reader->Read(&response)) {
    const auto wanted = count < kResponseSizes.size() ? kResponseSizes[count] : -1;
    Expect("size", static_cast<int>(response.payload().body().size()), wanted);
    ++count;
  }
  ExpectStatus(reader->Finish(), grpc::OK);
  Expect("count", count, kResponseSizes.size());
}

void PingPong(Client& client) {
  Context context;
  const auto stream = client.stub->FullDuplexCall(&context);
  pb::StreamingOutputCallResponse response;
  for (std::size_t i = 0; i < kRequestSizes.size(); ++i) {
    Expect("write", stream->Write(Asking(kResponseSizes[i], kRequestSizes[i])), true);
    Expect("read", stream->Read(&response), true);
    Expect("size", static_cast<int>(response.payload().body().size()), kResponseSizes[i]);
  }
  stream->WritesDone();
  Expect("more", stream->Read(&response), false);
  ExpectStatus(stream->Finish(), grpc::OK);
}

void EmptyStream(Client& client) {
  Context context;
  const auto stream = client.stub->FullDuplexCall(&context);
  stream->WritesDone();
  pb::StreamingOutputCallResponse response;
  Expect("read", stream->Read(&response), false);
  ExpectStatus(stream->Finish(), grpc::OK);
}

void TimeoutOnSleepingServer(Client& client) {
  // Without the 1 ms of the others: here the server's own clock shall have its turn too.
  for (const int limit : {1, 200}) {
    Context context{std::chrono::milliseconds(limit)};
    const auto stream = client.stub->FullDuplexCall(&context);
    pb::StreamingOutputCallRequest request;
    *request.mutable_payload() = Zeros(27182);
    stream->Write(request);
    pb::StreamingOutputCallResponse response;
    Expect("read", stream->Read(&response), false);
    ExpectStatus(stream->Finish(), grpc::DEADLINE_EXCEEDED);
  }
  EmptyUnary(client);
}

void CancelAfterBegin(Client& client) {
  Context context;
  pb::StreamingInputCallResponse response;
  const auto writer = client.stub->StreamingInputCall(&context, &response);
  context.TryCancel();
  ExpectStatus(writer->Finish(), grpc::CANCELLED);
  EmptyUnary(client);
}

void CancelAfterFirstResponse(Client& client) {
  Context context;
  const auto stream = client.stub->FullDuplexCall(&context);
  stream->Write(Asking(31415, 27182));
  pb::StreamingOutputCallResponse response;
  Expect("read", stream->Read(&response), true);
  context.TryCancel();
  Expect("read", stream->Read(&response), false);
  ExpectStatus(stream->Finish(), grpc::CANCELLED);
  EmptyUnary(client);
}

void ExpectUnknown(const grpc::Status& status, const std::string& text) {
  ExpectStatus(status, grpc::UNKNOWN);
  Expect("message", status.error_message(), text);
}

grpc::Status AskForStatus(Client& client, const std::string& text) {
  Context context;
  pb::SimpleRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(text);
  pb::SimpleResponse response;
  return client.stub->UnaryCall(&context, request, &response);
}

void StatusCodeAndMessage(Client& client) {
  const std::string text = "test status message";
  ExpectUnknown(AskForStatus(client, text), text);
  Context context;
  const auto stream = client.stub->FullDuplexCall(&context);
  pb::StreamingOutputCallRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(text);
  stream->Write(request);
  stream->WritesDone();
  pb::StreamingOutputCallResponse response;
  Expect("read", stream->Read(&response), false);
  ExpectUnknown(stream->Finish(), text);
}

void SpecialStatusMessage(Client& client) {
  const std::string text =
      "\t\ntest with whitespace\r\nand Unicode BMP \u263A and non-BMP \U0001F608\t\n";
  ExpectUnknown(AskForStatus(client, text), text);
}

void Ask(Context& context) {
  context.AddMetadata(kInitial, "test_initial_metadata_value");
  context.AddMetadata(kTrailing, "\xab\xab\xab");
}

void ExpectEchoed(const Context& context) {
  const auto& initial = context.GetServerInitialMetadata();
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto first = initial.find(kInitial);
  Expect("initial",
         first == initial.end() ? "" : std::string(first->second.data(), first->second.size()),
         "test_initial_metadata_value");
  const auto last = trailing.find(kTrailing);
  Expect("trailing",
         last == trailing.end() ? "" : std::string(last->second.data(), last->second.size()),
         "\xab\xab\xab");
}

void CustomMetadata(Client& client) {
  Context unary;
  Ask(unary);
  pb::SimpleResponse answer;
  ExpectStatus(client.stub->UnaryCall(&unary, LargeRequest(), &answer), grpc::OK);
  ExpectEchoed(unary);
  Context context;
  Ask(context);
  const auto stream = client.stub->FullDuplexCall(&context);
  stream->Write(Asking(314159, 271828));
  stream->WritesDone();
  pb::StreamingOutputCallResponse response;
  Expect("read", stream->Read(&response), true);
  Expect("more", stream->Read(&response), false);
  ExpectStatus(stream->Finish(), grpc::OK);
  ExpectEchoed(context);
}

void UnimplementedMethod(Client& client) {
  Context context;
  pb::Empty response;
  ExpectStatus(client.stub->UnimplementedCall(&context, pb::Empty(), &response),
               grpc::UNIMPLEMENTED);
}

void UnimplementedService(Client& client) {
  Context context;
  pb::Empty response;
  const auto stub = pb::UnimplementedService::NewStub(client.channel);
  ExpectStatus(stub->UnimplementedCall(&context, pb::Empty(), &response), grpc::UNIMPLEMENTED);
}

void Refused(Client& client) {
  Context context;
  pb::Empty response;
  const grpc::Status status = client.stub->EmptyCall(&context, pb::Empty(), &response);
  ExpectStatus(status, grpc::UNAVAILABLE);
  std::cout << status.error_message() << std::endl;
}

void Forbidden(Client& client) {
  Context context;
  pb::Empty response;
  ExpectStatus(client.stub->EmptyCall(&context, pb::Empty(), &response), grpc::PERMISSION_DENIED);
}

const std::map<std::string, std::function<void(Client&)>> kCases = {
    {"empty_unary", EmptyUnary},
    {"large_unary", LargeUnary},
    {"client_streaming", ClientStreaming},
    {"server_streaming", ServerStreaming},
    {"ping_pong", PingPong},
    {"empty_stream", EmptyStream},
    {"timeout_on_sleeping_server", TimeoutOnSleepingServer},
    {"cancel_after_begin", CancelAfterBegin},
    {"cancel_after_first_response", CancelAfterFirstResponse},
    {"status_code_and_message", StatusCodeAndMessage},
    {"special_status_message", SpecialStatusMessage},
    {"custom_metadata", CustomMetadata},
    {"unimplemented_method", UnimplementedMethod},
    {"unimplemented_service", UnimplementedService},
    {"refused", Refused},
    {"forbidden", Forbidden},
};

// --- Server --------------------------------------------------------------------------------------

class TestServer final : public pb::TestService::Service {
 public:
  grpc::Status EmptyCall(grpc::ServerContext* /*context*/, const pb::Empty* /*request*/,
                         pb::Empty* /*response*/) override {
    return grpc::Status::OK;
  }

  grpc::Status UnaryCall(grpc::ServerContext* context, const pb::SimpleRequest* request,
                         pb::SimpleResponse* response) override {
    Echo(*context);
    if (request->response_status().code() != 0) return StatusOf(request->response_status());
    *response->mutable_payload() = Zeros(request->response_size());
    return grpc::Status::OK;
  }

  grpc::Status StreamingOutputCall(
      grpc::ServerContext* /*context*/, const pb::StreamingOutputCallRequest* request,
      grpc::ServerWriter<pb::StreamingOutputCallResponse>* writer) override {
    Answer(*request, *writer);
    return grpc::Status::OK;
  }

  grpc::Status StreamingInputCall(grpc::ServerContext* context,
                                  grpc::ServerReader<pb::StreamingInputCallRequest>* reader,
                                  pb::StreamingInputCallResponse* response) override {
    pb::StreamingInputCallRequest request;
    std::size_t total = 0;
    while (reader->Read(&request)) total += request.payload().body().size();
    TellCancelled("StreamingInput", *context);
    response->set_aggregated_payload_size(static_cast<int>(total));
    return grpc::Status::OK;
  }

  using Duplex =
      grpc::ServerReaderWriter<pb::StreamingOutputCallResponse, pb::StreamingOutputCallRequest>;

  grpc::Status FullDuplexCall(grpc::ServerContext* context, Duplex* stream) override {
    Echo(*context);
    pb::StreamingOutputCallRequest request;
    while (stream->Read(&request)) {
      if (request.response_status().code() != 0) return StatusOf(request.response_status());
      Answer(request, *stream);
    }
    TellCancelled("FullDuplex", *context);
    return grpc::Status::OK;
  }

  grpc::Status HalfDuplexCall(grpc::ServerContext* /*context*/, Duplex* stream) override {
    std::vector<pb::StreamingOutputCallRequest> requests;
    pb::StreamingOutputCallRequest request;
    while (stream->Read(&request)) requests.push_back(request);
    for (const auto& one : requests) Answer(one, *stream);
    return grpc::Status::OK;
  }

 private:
  static grpc::Status StatusOf(const pb::EchoStatus& echo) {
    return {static_cast<grpc::StatusCode>(echo.code()), echo.message()};
  }

  static void Echo(grpc::ServerContext& context) {
    for (const auto& [name, value] : context.client_metadata()) {
      const std::string text(value.data(), value.size());
      if (name == kInitial) context.AddInitialMetadata(kInitial, text);
      if (name == kTrailing) context.AddTrailingMetadata(kTrailing, text);
    }
  }

  static void TellCancelled(const char* name, const grpc::ServerContext& context) {
    if (context.IsCancelled()) std::cout << "cancelled " << name << std::endl;
  }

  template <class Writer>
  static void Answer(const pb::StreamingOutputCallRequest& request, Writer& writer) {
    for (const pb::ResponseParameters& one : request.response_parameters()) {
      std::this_thread::sleep_for(  // allow(sleep): the description of the tests asks for it.
          std::chrono::microseconds(one.interval_us()));
      pb::StreamingOutputCallResponse response;
      *response.mutable_payload() = Zeros(one.size());
      writer.Write(response);
    }
  }
};

// --- Command line --------------------------------------------------------------------------------

using Options = std::map<std::string, std::string>;

int Serve(Options& options) {
  grpc::SslServerCredentialsOptions tls(
      options.contains("--mutual") ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  tls.pem_root_certs = Read(options["--ca"]);
  tls.pem_key_cert_pairs.push_back({Read(options["--key"]), Read(options["--cert"])});
  TestServer service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return 1;
  std::cout << "port " << port << std::endl;
  server->Wait();
  return 0;
}

int Call(Options& options) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = Read(options["--ca"]);
  if (options.contains("--cert")) {
    tls.pem_cert_chain = Read(options["--cert"]);
    tls.pem_private_key = Read(options["--key"]);
  }
  const std::string name = options["--case"];
  const auto found = kCases.find(name);
  if (found == kCases.end()) {
    std::cerr << "there is no case " << name << std::endl;
    return 2;
  }
  Client client;
  client.channel = grpc::CreateChannel(options["--target"], grpc::SslCredentials(tls));
  client.stub = pb::TestService::NewStub(client.channel);
  found->second(client);
  if (failed) return 1;
  std::cout << "done " << name << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Options options;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--mutual") {
      options[words[i]] = "";
    } else if (i + 1 < words.size()) {
      options[words[i]] = words[i + 1];
      ++i;
    }
  }
  if (!words.empty() && words[0] == "server") return Serve(options);
  if (!words.empty() && words[0] == "client") return Call(options);
  std::cerr << "usage: grpcpp_peer client|server ...; grpc_peer.py tells the options" << std::endl;
  return 2;
}
