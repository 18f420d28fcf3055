// I-35: no two sealed values under one key have the same AES-GCM nonce, unless they are the same
// bytes (a write that was repeated).
//
// Every envelope that is ever stored is looked at (crypto/envelope.h, form v1).
//
// A key may seal fewer than 2^32 values. That many are far beyond what a simulated run does, so the
// rate is looked at: every write of a secret is one of them, and at no more than one in eight
// seconds, after the few of a cluster's first start, they last for a thousand years.
#include <map>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"

namespace nstance::sim {
namespace {

constexpr std::string_view kMark = "NSEC";
constexpr std::int64_t kFirstSeals = 16;  // Two secrets, and servers that try them again.
constexpr std::int64_t kSecondsEach = 8;
constexpr std::size_t kKeyId = 8;
constexpr std::size_t kBody = 28;  // After key id and nonce.

class I35SealsAreUnique final : public Checker {
 public:
  explicit I35SealsAreUnique(CheckerWorld& world) : Checker("I-35", world) {}

  void OnCall(const SimCall& call) override {
    if (call.moment != SimCall::Moment::kSent || call.method != SimMethod::kPut) return;
    if (!call.key.starts_with("secret/")) return;
    const std::int64_t allowed = kFirstSeals + world().now().since_zero().seconds() / kSecondsEach;
    if (++seals_ <= allowed) return;
    Violated(fmt::format("{} seals {}, the {}. value in {}: 2^32 would not last", call.process,
                         call.key, seals_, FormatDuration(world().now().since_zero())));
  }

  void OnChange(const SimChange& change) override {
    if (change.after == nullptr) return;
    const std::string_view bytes = change.after->bytes;
    if (!bytes.starts_with(kMark) || bytes.size() < kBody) return;
    const auto [at, first] =
        sealed_.try_emplace(std::string(bytes.substr(kKeyId, kBody - kKeyId)), bytes.substr(kBody));
    if (first || at->second == bytes.substr(kBody)) return;
    Violated(fmt::format("{} sealed {} with a nonce that its key has sealed with before",
                         change.process, change.key.text()));
  }

 private:
  std::int64_t seals_ = 0;
  std::map<std::string, std::string> sealed_;  // By key id and nonce: what was sealed.
};

}  // namespace

std::unique_ptr<Checker> MakeI35(CheckerWorld& world) {
  return std::make_unique<I35SealsAreUnique>(world);
}

}  // namespace nstance::sim
