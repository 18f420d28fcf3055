// Bytes to keys: a table, sequences in parts, and random bytes.
#include "adapters/terminal/key_reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Key> Read(const std::string& bytes) {
  KeyReader reader;
  bool interrupted = false;
  return reader.Read(bytes, interrupted);
}

Key Of(KeyKind kind) { return {.kind = kind}; }
Key Of(char c) { return {.kind = KeyKind::kCharacter, .character = c}; }

TEST(KeyReaderTest, KnowsWhatTerminalsSend) {
  EXPECT_THAT(Read("q/"), ElementsAre(Of('q'), Of('/')));
  EXPECT_THAT(Read("\r\n\x7f\b"), ElementsAre(Of(KeyKind::kEnter), Of(KeyKind::kEnter),
                                              Of(KeyKind::kBackspace), Of(KeyKind::kBackspace)));
  EXPECT_THAT(
      Read("\x1b[A\x1bOB\x1b[C\x1b[D"),
      ElementsAre(Of(KeyKind::kUp), Of(KeyKind::kDown), Of(KeyKind::kRight), Of(KeyKind::kLeft)));
  EXPECT_THAT(Read("\x1b[5~\x1b[6~\x1b[H\x1bOF\x1b[1~\x1b[4~"),
              ElementsAre(Of(KeyKind::kPageUp), Of(KeyKind::kPageDown), Of(KeyKind::kHome),
                          Of(KeyKind::kEnd), Of(KeyKind::kHome), Of(KeyKind::kEnd)));
  EXPECT_THAT(Read("\x1b"), ElementsAre(Of(KeyKind::kEscape)));
  EXPECT_THAT(Read("\x1bq"), ElementsAre(Of(KeyKind::kEscape), Of('q')));
}

TEST(KeyReaderTest, DropsWhatItDoesNotKnow) {
  EXPECT_THAT(Read("\x1b[15~\x1b[200~x"), ElementsAre(Of('x')));
  EXPECT_THAT(Read("\x01\x02\xC3\xA9"), IsEmpty());
}

TEST(KeyReaderTest, SequencesMayComeInParts) {
  KeyReader reader;
  bool interrupted = false;
  EXPECT_THAT(reader.Read("\x1b[", interrupted), IsEmpty());
  EXPECT_THAT(reader.Read("5", interrupted), IsEmpty());
  EXPECT_THAT(reader.Read("~q", interrupted), ElementsAre(Of(KeyKind::kPageUp), Of('q')));
  EXPECT_FALSE(interrupted);
}

TEST(KeyReaderTest, CtrlCInterrupts) {
  KeyReader reader;
  bool interrupted = false;
  static_cast<void>(reader.Read("a\x03", interrupted));
  EXPECT_TRUE(interrupted);
}

TEST(KeyReaderTest, AnyBytesAreTakenAndKeepLittle) {
  Prng prng(1);
  KeyReader reader;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    for (std::uint64_t n = prng.Below(8); n > 0; --n) {
      bytes += prng.Chance(1, 3) ? '\x1b' : static_cast<char>(prng.Below(256));
    }
    bool interrupted = false;
    EXPECT_LE(reader.Read(bytes, interrupted).size(), bytes.size() + 32);
  }
}

}  // namespace
}  // namespace nstance
