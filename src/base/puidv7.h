// puidv7: the identifier of instances (and, with prefix `opr`, of operators made by the admin
// tool).
//
// Text form, 29 characters: a prefix of three lower-case letters, then the 16 bytes of a UUID
// version 7 in base32 over `0123456789abcdefghjkmnpqrstvwxyz`, most significant bit first and
// left-aligned: the 128 bits are followed by two zero bits. (ULID packs the same bits
// right-aligned; the two forms do not mix.) Text order of ids with one prefix is creation order, to
// the millisecond, and exact for ids of one generator. Ids are never reused.
//
// There are two readers, because older tools are less strict than we are:
//   ParsePuidv7     for ids that we issue or accept for something new: version 7, RFC variant, both
//                   trailing bits zero, exactly our spelling
//   ReadPuidv7      for people and foreign records: any case, spaces and hyphens dropped, any
//   version
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace nstance {

using UuidBytes = std::array<std::uint8_t, 16>;

class Puidv7 {
 public:
  static constexpr std::size_t kTextLength = 29;
  static constexpr std::size_t kPrefixLength = 3;

  // REQUIRES: `prefix` is three lower-case letters (CheckPuidPrefix).
  Puidv7(std::string_view prefix, const UuidBytes& uuid);

  // "knc06bgm7733st2576nx5jht4ecjw".
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string_view prefix() const {
    return std::string_view(text_).substr(0, kPrefixLength);
  }
  [[nodiscard]] const UuidBytes& uuid() const { return uuid_; }
  // "01970a1c-e31e-7422-9cd5-e9651d11cc97".
  [[nodiscard]] std::string UuidText() const;
  // "01970a1c-e31e-7422-9cd5-e9651d11cc97-knc", the name used by layout nstance-v2.
  [[nodiscard]] std::string StorageKey() const;
  // When it was made, by the maker's clock; meaningful for version 7 only.
  [[nodiscard]] Timestamp created_at() const;

  friend bool operator==(const Puidv7& a, const Puidv7& b) { return a.text_ == b.text_; }
  friend std::strong_ordering operator<=>(const Puidv7& a, const Puidv7& b) {
    return a.text_ <=> b.text_;
  }

 private:
  std::string text_;
  UuidBytes uuid_;
};

using InstanceId = Puidv7;

[[nodiscard]] Status CheckPuidPrefix(std::string_view prefix);

// `expected_prefix` empty means any.
[[nodiscard]] Result<Puidv7> ParsePuidv7(std::string_view text,
                                         std::string_view expected_prefix = {});
[[nodiscard]] Result<Puidv7> ReadPuidv7(std::string_view text,
                                        std::string_view expected_prefix = {});

// Makes ids that rise strictly, also within one millisecond and when the clock steps back.
//
// The caller brings time and chance, so the simulator can repeat a run. One generator per process.
class Puidv7Generator {
 public:
  using Entropy = std::array<std::uint8_t, 10>;

  // REQUIRES: as Puidv7's constructor. `entropy` must come from SecureRandom, new for each call.
  [[nodiscard]] Puidv7 Next(std::string_view prefix, Timestamp now, const Entropy& entropy);

 private:
  UuidBytes last_{};
};

}  // namespace nstance

template <>
struct std::hash<nstance::Puidv7> {
  std::size_t operator()(const nstance::Puidv7& id) const noexcept {
    return std::hash<std::string>()(id.text());
  }
};
