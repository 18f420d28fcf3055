// Uses every module that is there and is linked as a shipped program is; test/hardening/check_elf
// reads the result. Run by hand it prints a new key's id, which shows that it is a working program.
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "adapters/http/curl_http_client.h"
#include "adapters/log_sink/stream_log_sink.h"
#include "adapters/real_loop/real_loop.h"
#include "adapters/secure_random/system_random.h"
#include "base/text.h"
#include "crypto/ed25519.h"
#include "crypto/secret.h"

int main(int argc, char** argv) {
  using namespace nstance;  // NOLINT(google-build-using-namespace)
  crypto::InitSecureHeap();
  SystemRandom random;
  const auto seed = random.Array<32>();
  const auto key = crypto::PrivateKey::FromSeed(seed);
  // A copy whose length the compiler cannot know, so that a checked library call must be there.
  const std::string text = HexEncode(key.public_key().SpkiSha256());
  std::array<char, 80> line{};
  std::memcpy(line.data(), text.data(), text.size());
  StreamLogSink sink({.format = LogFormat::kText});
  const log::Logger logger(sink, "sample");
  logger.Info("made a key", {{"sha256", line.data()}});
  if (argc < 2) return 0;

  // With a URL: fetches it once.
  RealLoop loop;
  CurlHttpClient client({.io = loop, .home = loop});
  int status = EXIT_FAILURE;
  const Pending pending =
      client.Send({.url = std::string(argv[1])}, [&](const Result<HttpResponse>& response) {
        status = response ? EXIT_SUCCESS : EXIT_FAILURE;
        if (!response) logger.Error("not fetched", {{"error", response.error()}});
        loop.Stop();
      });
  loop.Run();
  return status;
}
