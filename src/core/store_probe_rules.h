// The rules that a store must keep, as scripts of requests and judgements of what came back.
//
// Each round of a check is a script: batches of lines, where the lines of a batch are sent at once
// and batches one after the other. What came back is reduced to a Sight per line. Judge() is a pure
// function of script and sights. Every write is followed by a read, so that an ambiguous answer is
// settled the way it is in the product. Used by core/store_probe.h only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nstance::probe {

inline constexpr int kChecks = 9;
// Checks up to this one decide; the others are reported.
inline constexpr int kLastRule = 6;

// "concurrent creates of one key have exactly one winner", for check 1 to kChecks.
[[nodiscard]] std::string_view RuleInWords(int check);

enum class Method : std::uint8_t { kCreate, kUpdate, kGet, kDelete, kDeleteVersion, kList };

// Keys and contents are numbered within the round; -1: none.
struct Line {
  Method method = Method::kGet;
  int key = 0;
  int content = -1;     // Of a write.
  int version_of = -1;  // The line whose version is the condition.
  std::size_t endpoint = 0;
  // Lists only: asked again until the key is listed, or is not.
  std::optional<bool> until_listed = std::nullopt;
};
using Batch = std::vector<Line>;

struct Script {
  int check = 0;
  std::vector<Batch> batches;
};

struct Sight {
  enum class What : std::uint8_t {
    kApplied,      // Write: done, says the store.
    kRefused,      // Write: condition not met.
    kMaybeDone,    // Write: unknown.
    kUnsupported,  // Write: the store does not know conditions.
    kContent,      // Get: there is something.
    kAbsent,       // Get: there is nothing.
    kListed,
    kUnlisted,
    kFailed,  // Surely without effect, or a failed read: says nothing.
  };
  What what = What::kFailed;
  int content = -1;  // kContent: which; -1 is none of this round's.
  std::string message = {};
};
// By number of the line, counted through all batches; empty: never asked.
using Sights = std::vector<std::optional<Sight>>;

struct Finding {
  enum class What : std::uint8_t {
    kHolds,
    kBroken,
    kInconclusive,  // Errors, lost answers: try again.
    kStubborn,      // Refused without a reason: try again; if it stays so, the rule is broken.
  };
  What what = What::kHolds;
  std::string detail = {};
};

struct Extent {
  std::size_t endpoints = 1;
  int writers = 32;
};
// The script of one round of a check other than 8, which has none.
[[nodiscard]] Script MakeScript(int check, const Extent& extent);

// What the round says about the check's rule. For check 7 it is about errors only, for check 9
// kBroken means that the store ignores the condition of a delete.
[[nodiscard]] Finding Judge(const Script& script, const Sights& sights);

}  // namespace nstance::probe
