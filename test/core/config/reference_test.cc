// The reference document holds what the schema says, and its examples load.
#include "core/config/reference.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "core/config/load.h"
#include "core/config/schema.h"
#include "test/core/config/complete_example.h"
#include "test/core/config/config_text.h"

namespace nstance::config {
namespace {

constexpr std::string_view kBegin = "<!-- generated: the schema -->\n";
constexpr std::string_view kEnd = "<!-- end of generated -->\n";
const std::string kFile = std::string(NSTANCE_SOURCE_DIR) + "/docs/configuration.md";

std::string ReadDocument() {
  const std::ifstream file(kFile);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ReferenceTest, TheDocumentHoldsTheSchema) {
  std::string document = ReadDocument();
  const std::size_t begin = document.find(kBegin);
  const std::size_t end = document.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + kBegin.size();
  const std::string held = document.substr(from, end - from);
  const std::string wanted = RenderReference();
  if (held != wanted && std::getenv("NSTANCE_RENEW_DOCS") != nullptr) {
    document.replace(from, held.size(), wanted);
    std::ofstream(kFile) << document;
    return;
  }
  EXPECT_TRUE(held == wanted)
      << "docs/configuration.md is older than the schema; run this test with NSTANCE_RENEW_DOCS=1";
}

TEST(ReferenceTest, EveryExampleOfTheDocumentLoads) {
  const std::string document = ReadDocument();
  constexpr std::string_view kFence = "```jsonc\n";
  int examples = 0;
  bool complete = false;
  for (std::size_t at = document.find(kFence); at != std::string::npos;
       at = document.find(kFence, at)) {
    at += kFence.size();
    const std::string example = document.substr(at, document.find("```", at) - at);
    const LoadResult result = Load(example);
    EXPECT_TRUE(result.config.has_value()) << ErrorLines(result) << "\n" << example;
    EXPECT_TRUE(result.warnings.empty()) << example;
    complete = complete || example == kCompleteExample;
    ++examples;
  }
  EXPECT_GE(examples, 3);
  EXPECT_TRUE(complete) << "the complete example of the tests is not in the document";
}

TEST(ReferenceTest, ShowsKeysDefaultsAndRules) {
  const std::string reference = RenderReference();
  EXPECT_NE(reference.find("| `size` | a whole number from 0 to 10000 | 0 | How many instances. |"),
            std::string::npos);
  EXPECT_NE(reference.find("| `request_timeout` | a duration from 1s to 10m | `30s` |"),
            std::string::npos);
  EXPECT_NE(reference.find("### `groups.<tenant>.<group>.pool`"), std::string::npos);
  EXPECT_NE(reference.find("### `certificates.<name>`"), std::string::npos);
  EXPECT_NE(reference.find("### `server.secrets.old_encryption_keys[]`"), std::string::npos);
}

}  // namespace
}  // namespace nstance::config
