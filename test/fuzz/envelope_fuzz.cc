// Sealed secrets: any bytes open only if they are what Seal() made for this place; what Seal() made
// opens again, and not after the change of one byte. Key sources: any bytes give a key or an error.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "crypto/envelope.h"

namespace nstance::crypto {
namespace {

using View = std::span<const std::uint8_t>;

const KeyRing& Keys() {
  static const KeyRing keys = [] {
    Bytes current;
    for (std::uint8_t i = 0; i < 32; ++i) current.push_back(i);
    KeyRing ring = {.current = EncryptionKey::Parse(current).value(), .old = {}};
    ring.old.push_back(EncryptionKey::Parse(Bytes(32, 7)).value());
    return ring;
  }();
  return keys;
}

const ClusterId& Cluster() {
  static const ClusterId cluster = ClusterId::Parse("example-cluster").value();
  return cluster;
}

Result<OpenedSecret> OpenHere(View sealed, LegacyPolicy legacy) {
  return Open(
      Keys(), sealed,
      {.place = {.cluster = Cluster(), .object = "secret/demo"}, .legacy = legacy, .source = {}});
}

// Sealing again with the nonce found must give the same bytes: one blob, one content.
void CheckOpened(View sealed, const OpenedSecret& opened) {
  const bool v1 = opened.form == EnvelopeForm::kV1;
  SealOptions options = {
      .place = {.cluster = Cluster(), .object = "secret/demo"}, .form = opened.form, .nonce = {}};
  const View nonce = sealed.subspan(v1 ? 16 : 0, kEnvelopeNonceSize);
  std::copy(nonce.begin(), nonce.end(), options.nonce.begin());
  const Bytes current = Seal(Keys().current, opened.plain.Reveal(), options).value();
  const Bytes old = Seal(Keys().old.front(), opened.plain.Reveal(), options).value();
  CHECK(AsText(current) == AsText(sealed) || AsText(old) == AsText(sealed));
}

void CheckRoundTrip(View plain) {
  for (const EnvelopeForm form : {EnvelopeForm::kV1, EnvelopeForm::kLegacy}) {
    SealOptions options = {
        .place = {.cluster = Cluster(), .object = "secret/demo"}, .form = form, .nonce = {}};
    for (std::size_t i = 0; i < options.nonce.size(); ++i) {
      options.nonce.at(i) = i < plain.size() ? plain[i] : std::uint8_t{0};
    }
    // A legacy nonce that reads as the magic of v1 is the one blob that does not open.
    const bool ambiguous = form == EnvelopeForm::kLegacy &&
                           AsText(View(options.nonce).first(4)) == std::string_view("NSEC");
    Bytes sealed = Seal(Keys().current, plain, options).value();
    const auto opened = OpenHere(sealed, LegacyPolicy::kAllowed);
    CHECK(opened.has_value() != ambiguous);
    if (opened.has_value()) CHECK(AsText(opened->plain.Reveal()) == AsText(plain));
    sealed[plain.size() % sealed.size()] ^= 1;
    CHECK(!OpenHere(sealed, LegacyPolicy::kAllowed).has_value());
  }
}

void Check(View input) {
  for (const LegacyPolicy legacy : {LegacyPolicy::kAllowed, LegacyPolicy::kRefused}) {
    const auto opened = OpenHere(input, legacy);
    if (opened.has_value()) {
      CHECK(opened->form == EnvelopeForm::kV1 || legacy == LegacyPolicy::kAllowed);
      CheckOpened(input, *opened);
    } else {
      CHECK(opened.error().code == Code::kDataLoss ||
            opened.error().code == Code::kFailedPrecondition);
    }
  }
  const auto key = EncryptionKey::Parse(input);
  if (key.has_value()) CHECK(key->Reveal().size() == EncryptionKey::kSize);
  CheckRoundTrip(input);
}

}  // namespace
}  // namespace nstance::crypto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::crypto::Check({data, size});
  return 0;
}
