// The list of marks (test/sim/reached.tsv) against the product: every hold, every alarm and every
// limit of what runs in the simulator is listed, as required or with the reason why a run cannot
// reach it; and nothing else is.
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/fleet/words.h"

namespace nstance {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// By mark: "required", or why not.
std::map<std::string, std::string> ReadMarks() {
  std::istringstream in(ReadFile(NSTANCE_SOURCE_DIR "/test/sim/reached.tsv"));
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "mark\tneed");
  std::map<std::string, std::string> marks;
  while (std::getline(in, line)) {
    const std::size_t tab = line.find('\t');
    EXPECT_NE(tab, std::string::npos) << line;
    EXPECT_TRUE(marks.emplace(line.substr(0, tab), line.substr(tab + 1)).second) << line;
  }
  return marks;
}

// The text in quotes that `call` begins with, maybe as the name of what it is given; empty: none.
std::string QuotedFirst(std::string_view call) {
  constexpr std::string_view kName = ".name = ";
  const std::size_t begin = call.find_first_not_of(" \n{");
  if (begin == std::string_view::npos) return {};
  call.remove_prefix(begin);
  if (call.starts_with(kName)) call.remove_prefix(kName.size());
  if (!call.starts_with('"')) return {};
  call.remove_prefix(1);
  return std::string(call.substr(0, call.find('"')));
}

// "surge-limit" as "SurgeLimit".
std::string Pascal(std::string_view word) {
  std::string out;
  bool upper = true;
  for (const char c : word) {
    if (c != '-') out += upper ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '-';
  }
  return out;
}

// What `call` names first, in sources of the product that the simulator runs.
void Gather(std::string_view call, std::string_view mark, std::set<std::string>& marks) {
  const std::filesystem::path root = NSTANCE_SOURCE_DIR "/src";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = std::filesystem::relative(entry.path(), root).string();
    // Adapters have stand-ins there; operator and administrator are not part of it.
    const bool runs = !path.starts_with("adapters/") && !path.starts_with("sim/") &&
                      !path.starts_with("admin/") && !path.starts_with("operator/");
    if (entry.path().extension() != ".cc" || !runs) continue;
    const std::string text = ReadFile(entry.path());
    for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      const std::string name = QuotedFirst(std::string_view(text).substr(at + call.size()));
      if (!name.empty()) marks.insert(fmt::format("{}{{{}}}", mark, name));
    }
  }
}

TEST(ReachedTest, EveryMarkIsRequiredOrHasAReason) {
  for (const auto& [mark, need] : ReadMarks()) {
    EXPECT_TRUE(need == "required" || need.starts_with("n/a: ")) << mark;
    // The test that reaches it instead, if one is named.
    const std::size_t at = need.rfind("; test/");
    if (at == std::string::npos) continue;
    EXPECT_TRUE(std::filesystem::exists(NSTANCE_SOURCE_DIR "/" + need.substr(at + 2))) << mark;
  }
}

// The other list of holds, that of the answers to "why": what it has a row for is reached, so no
// reason here may say that it cannot be; what it has none for it cannot be cited for.
TEST(ReachedTest, AHoldThatCitesTheRowsOfWhyHasOneThere) {
  const std::string rows =
      ReadFile(NSTANCE_SOURCE_DIR "/test/server/services/operator_why_test.cc");
  for (int code = 0; code <= static_cast<int>(fleet::HoldCode::kPoolUnavailable); ++code) {
    const std::string word(fleet::Word(static_cast<fleet::HoldCode>(code)));
    const std::string need = ReadMarks().at(fmt::format("holds{{{}}}", word));
    const bool has_row = rows.contains(fmt::format("{{.code = k{},", Pascal(word)));
    EXPECT_TRUE(has_row || !need.contains("operator_why_test.cc")) << word;
    EXPECT_FALSE(has_row && need.contains("no plan gives it")) << word;
  }
}

TEST(ReachedTest, EveryHoldAlarmAndLimitIsListedAndNothingElse) {
  std::set<std::string> there;
  for (int code = 0; code <= static_cast<int>(fleet::HoldCode::kPoolUnavailable); ++code) {
    there.insert(fmt::format("holds{{{}}}", fleet::Word(static_cast<fleet::HoldCode>(code))));
  }
  for (const std::string_view call : {"Alarm(", "alarm(", "Raise("}) {
    Gather(call, "alarms_total", there);
  }
  Gather("Limit(", "limit_hits_total", there);
  std::set<std::string> listed;
  for (const auto& [mark, need] : ReadMarks()) listed.insert(mark);
  EXPECT_THAT(listed, testing::ContainerEq(there));
}

}  // namespace
}  // namespace nstance
