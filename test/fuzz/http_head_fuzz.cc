// The head of an HTTP request: any bytes give a question or a refusal; what was read is printable
// and begins with a slash.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "adapters/http_server/http_head.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nstance::http_server;  // NOLINT(google-build-using-namespace)
  std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t end = FindHeadEnd(bytes);
  CHECK(end == std::string::npos || end <= bytes.size());
  bytes = end == std::string::npos ? bytes + "\r\n\r\n" : bytes.substr(0, end);
  const auto head = ParseHead(bytes);
  if (head) {
    CHECK(head->question.path.starts_with('/'));
    for (const char c : head->question.path + head->question.query) CHECK(c > ' ' && c < 0x7f);
  } else {
    CHECK(head.error().status >= 400 && head.error().status < 600 && !head.error().why.empty());
  }
  return 0;
}
