#include "core/config/words.h"

#include <array>

#include "base/check.h"

namespace nstance::config {
namespace {

constexpr auto kProviderKinds = std::to_array<WordEntry<ProviderKind>>({
    {"local", ProviderKind::kLocal},
    {"qemu", ProviderKind::kQemu},
    {"aws", ProviderKind::kAws},
    {"gcp", ProviderKind::kGcp},
    {"google", ProviderKind::kGcp},
    {"proxmox", ProviderKind::kProxmox},
});

constexpr auto kQemuAccels = std::to_array<WordEntry<QemuAccel>>({
    {"auto", QemuAccel::kAuto},
    {"kvm", QemuAccel::kKvm},
    {"tcg", QemuAccel::kTcg},
});

constexpr auto kSecretsProviders = std::to_array<WordEntry<SecretsProvider>>({
    {"object-storage", SecretsProvider::kObjectStorage},
    {"aws-parameter-store", SecretsProvider::kAwsParameterStore},
    {"aws-secrets-manager", SecretsProvider::kAwsSecretsManager},
    {"gcp-secret-manager", SecretsProvider::kGcpSecretManager},
    {"google-secret-manager", SecretsProvider::kGcpSecretManager},
    {"memory", SecretsProvider::kMemory},
});

constexpr auto kKeyProviders = std::to_array<WordEntry<KeyProvider>>({
    {"env", KeyProvider::kEnv},
    {"file", KeyProvider::kFile},
    {"aws-parameter-store", KeyProvider::kAwsParameterStore},
    {"aws-secrets-manager", KeyProvider::kAwsSecretsManager},
    {"gcp-secret-manager", KeyProvider::kGcpSecretManager},
    {"google-secret-manager", KeyProvider::kGcpSecretManager},
});

constexpr auto kEnvelopes = std::to_array<WordEntry<Envelope>>({
    {"v1", Envelope::kV1},
    {"legacy", Envelope::kLegacy},
});

constexpr auto kStorageProviders = std::to_array<WordEntry<StorageProvider>>({
    {"s3", StorageProvider::kS3},
    {"gcs", StorageProvider::kGcs},
    {"file", StorageProvider::kFile},
});

constexpr auto kImageSorts = std::to_array<WordEntry<ImageSort>>({
    {"creation-date", ImageSort::kCreationDate},
    {"name", ImageSort::kName},
});

constexpr auto kImageOrders = std::to_array<WordEntry<ImageOrder>>({
    {"asc", ImageOrder::kAscending},
    {"desc", ImageOrder::kDescending},
});

constexpr auto kCertificateKinds = std::to_array<WordEntry<CertificateKind>>({
    {"client", CertificateKind::kClient},
    {"server", CertificateKind::kServer},
});

constexpr auto kArches = std::to_array<WordEntry<Arch>>({
    {"amd64", Arch::kAmd64},
    {"arm64", Arch::kArm64},
});

constexpr auto kFileKinds = std::to_array<WordEntry<FileKind>>({
    {"secret", FileKind::kSecret},
    {"storage", FileKind::kStorage},
    {"certificate", FileKind::kCertificate},
    {"env", FileKind::kEnv},
    {"json", FileKind::kJson},
    {"string", FileKind::kString},
});

constexpr auto kPoolReclaims = std::to_array<WordEntry<PoolReclaim>>({
    {"delete", PoolReclaim::kDelete},
    {"return", PoolReclaim::kReturn},
});

constexpr auto kPoolStates = std::to_array<WordEntry<PoolState>>({
    {"running", PoolState::kRunning},
    {"stopped", PoolState::kStopped},
});

constexpr auto kPoolOnEmpties = std::to_array<WordEntry<PoolOnEmpty>>({
    {"fail", PoolOnEmpty::kFail},
    {"create", PoolOnEmpty::kCreate},
});

constexpr auto kUserDataSources = std::to_array<WordEntry<UserDataSource>>({
    {"inline", UserDataSource::kInline},
    {"url", UserDataSource::kUrl},
});

constexpr auto kUserDataEncodings = std::to_array<WordEntry<UserDataEncoding>>({
    {"plain", UserDataEncoding::kPlain},
    {"base64", UserDataEncoding::kBase64},
    {"gzip", UserDataEncoding::kGzip},
    {"base64+gzip", UserDataEncoding::kBase64Gzip},
});

template <class E>
std::string_view WordOf(E value) {
  for (const WordEntry<E>& entry : WordsOf<E>()) {
    if (entry.value == value) return entry.word;
  }
  CHECK(false, "value {}", static_cast<int>(value));
}

}  // namespace

// clang-format off
template <> std::span<const WordEntry<ProviderKind>> WordsOf() { return kProviderKinds; }
template <> std::span<const WordEntry<QemuAccel>> WordsOf() { return kQemuAccels; }
template <> std::span<const WordEntry<SecretsProvider>> WordsOf() { return kSecretsProviders; }
template <> std::span<const WordEntry<KeyProvider>> WordsOf() { return kKeyProviders; }
template <> std::span<const WordEntry<Envelope>> WordsOf() { return kEnvelopes; }
template <> std::span<const WordEntry<StorageProvider>> WordsOf() { return kStorageProviders; }
template <> std::span<const WordEntry<ImageSort>> WordsOf() { return kImageSorts; }
template <> std::span<const WordEntry<ImageOrder>> WordsOf() { return kImageOrders; }
template <> std::span<const WordEntry<CertificateKind>> WordsOf() { return kCertificateKinds; }
template <> std::span<const WordEntry<Arch>> WordsOf() { return kArches; }
template <> std::span<const WordEntry<FileKind>> WordsOf() { return kFileKinds; }
template <> std::span<const WordEntry<PoolReclaim>> WordsOf() { return kPoolReclaims; }
template <> std::span<const WordEntry<PoolState>> WordsOf() { return kPoolStates; }
template <> std::span<const WordEntry<PoolOnEmpty>> WordsOf() { return kPoolOnEmpties; }
template <> std::span<const WordEntry<UserDataSource>> WordsOf() { return kUserDataSources; }
template <> std::span<const WordEntry<UserDataEncoding>> WordsOf() { return kUserDataEncodings; }

std::string_view Word(ProviderKind kind) { return WordOf(kind); }
std::string_view Word(QemuAccel accel) { return WordOf(accel); }
std::string_view Word(SecretsProvider provider) { return WordOf(provider); }
std::string_view Word(KeyProvider provider) { return WordOf(provider); }
std::string_view Word(Envelope envelope) { return WordOf(envelope); }
std::string_view Word(StorageProvider provider) { return WordOf(provider); }
std::string_view Word(ImageSort sort) { return WordOf(sort); }
std::string_view Word(ImageOrder order) { return WordOf(order); }
std::string_view Word(CertificateKind kind) { return WordOf(kind); }
std::string_view Word(Arch arch) { return WordOf(arch); }
std::string_view Word(FileKind kind) { return WordOf(kind); }
std::string_view Word(PoolReclaim reclaim) { return WordOf(reclaim); }
std::string_view Word(PoolState state) { return WordOf(state); }
std::string_view Word(PoolOnEmpty on_empty) { return WordOf(on_empty); }
// clang-format on

}  // namespace nstance::config
