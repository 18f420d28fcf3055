#include "admin/shard_flags.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/shard/words.h"
#include "base/text.h"
#include "core/config/suggest.h"

namespace nstance::admin {
namespace {

constexpr std::size_t kMaxServers = 256;
constexpr Duration kMaxTimeout = Duration::Hours(1);
constexpr Duration kMaxWait = Duration::Days(7);

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos;
       comma = text.find(',')) {
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.push_back(text);
  return parts;
}

template <class Integer>
std::optional<Integer> Number(std::string_view text) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "host:port" or "[address]:port".
std::optional<RpcAddress> AddressOf(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.contains(':')) {
    return std::nullopt;
  }
  const auto port = Number<std::uint16_t>(text.substr(colon + 1));
  const bool plain = std::ranges::all_of(host, [](char c) { return c > ' ' && c < 0x7F; });
  if (host.empty() || host.size() > 253 || !plain || !port || *port == 0) return std::nullopt;
  return RpcAddress{.host = std::string(host), .port = *port};
}

std::string Names(const std::vector<ServerAddress>& servers) {
  std::vector<std::string> names;
  names.reserve(servers.size());
  for (const ServerAddress& server : servers) names.push_back(server.shard.text());
  return fmt::format("{}", fmt::join(names, ", "));
}

Parsed<std::vector<ServerAddress>> OneOf(const std::vector<ServerAddress>& servers,
                                         const std::string& name) {
  const auto found = std::ranges::find_if(
      servers, [&](const ServerAddress& server) { return server.shard.text() == name; });
  if (found != servers.end()) return std::vector{*found};
  std::vector<std::string_view> names;
  names.reserve(servers.size());
  for (const ServerAddress& server : servers) names.push_back(server.shard.text());
  return std::unexpected(fmt::format("--shard: {} is not in --servers; one of: {}{}", Quote(name),
                                     config::Listed(names), config::DidYouMean(name, names)));
}

Parsed<std::vector<ServerAddress>> Chosen(const Grammar& grammar, const ShardFlagTexts& texts,
                                          std::vector<ServerAddress> servers, ShardRule rule) {
  if (texts.all_shards && !texts.shard.empty()) {
    return std::unexpected("--shard and --all-shards contradict each other: use one of them");
  }
  if (texts.all_shards && rule == ShardRule::kOnlyOne && servers.size() > 1) {
    return std::unexpected(
        fmt::format("this is done in one shard: --shard with one of: {}", Names(servers)));
  }
  if (texts.all_shards) return servers;
  const std::string name = FlagOr(grammar, texts.shard, "NSTANCE_ADMIN_SHARD");
  if (!name.empty()) return OneOf(servers, name);
  if (servers.size() == 1 || rule == ShardRule::kAllAlike) return servers;
  return std::unexpected(fmt::format("which shard? --shard with one of: {}{}", Names(servers),
                                     rule == ShardRule::kOnlyOne ? "" : "; or --all-shards"));
}

}  // namespace

Parsed<std::vector<ServerAddress>> ParseServers(std::string_view text) {
  std::vector<ServerAddress> servers;
  for (const std::string_view part : Split(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return std::unexpected(fmt::format(
          "--servers: {} is not shard=host:port; entries are separated by commas", Quote(part)));
    }
    auto shard = ShardId::Parse(part.substr(0, equals));
    if (!shard) return std::unexpected("--servers: " + shard.error().message);
    auto address = AddressOf(part.substr(equals + 1));
    if (!address) {
      return std::unexpected(
          fmt::format("--servers: {} of shard {} is not host:port with a port from 1 to 65535; "
                      "IPv6 addresses stand in brackets",
                      Quote(part.substr(equals + 1)), shard->text()));
    }
    const auto same = [&](const ServerAddress& server) { return server.shard == *shard; };
    if (std::ranges::any_of(servers, same)) {
      return std::unexpected(
          fmt::format("--servers: shard {} is named twice; name the address that leads to its "
                      "leader",
                      shard->text()));
    }
    if (servers.size() == kMaxServers) {
      return std::unexpected(fmt::format("--servers: more than {} shards", kMaxServers));
    }
    servers.push_back({.shard = *std::move(shard), .address = *std::move(address)});
  }
  return servers;
}

Parsed<Duration> PositiveDurationOf(std::string_view flag, std::string_view text, Duration max) {
  const auto duration = ParseDuration(text);
  if (!duration || *duration <= Duration() || *duration > max) {
    return std::unexpected(fmt::format("{}: {} is not a duration above 0 and up to {}, such as 90s",
                                       flag, Quote(text), FormatDuration(max)));
  }
  return *duration;
}

Parsed<Duration> DurationOf(std::string_view flag, std::string_view text, Duration max) {
  const auto duration = ParseDuration(text);
  if (!duration || *duration < Duration() || *duration > max) {
    return std::unexpected(fmt::format("{}: {} is not a duration from 0 to {}, such as 90s", flag,
                                       Quote(text), FormatDuration(max)));
  }
  return *duration;
}

Parsed<Wait> WaitOf(std::string_view text) {
  if (text.empty()) return Wait();
  const auto duration = PositiveDurationOf("--wait", text, kMaxWait);
  if (!duration) return std::unexpected(duration.error());
  return Wait(*duration);
}

Parsed<ShardFlags> ShardFlagsOf(const Grammar& grammar, const ShardFlagTexts& texts,
                                const CommonFlags& common, ShardRule rule) {
  const std::string servers_text = FlagOr(grammar, texts.servers, "NSTANCE_ADMIN_SERVERS");
  if (servers_text.empty()) {
    return std::unexpected(
        "--servers is missing: shard=host:port,... of the operator ports, here or in "
        "NSTANCE_ADMIN_SERVERS");
  }
  auto servers = ParseServers(servers_text);
  if (!servers) return std::unexpected(servers.error());
  auto chosen = Chosen(grammar, texts, *std::move(servers), rule);
  if (!chosen) return std::unexpected(chosen.error());
  ShardFlags flags{.servers = *std::move(chosen)};
  flags.identity_dir = FlagOr(grammar, texts.identity_dir, "NSTANCE_ADMIN_IDENTITY_DIR");
  if (flags.identity_dir.empty()) flags.identity_dir = common.temp_dir + "/cli-operator-identity";
  while (flags.identity_dir.size() > 1 && flags.identity_dir.ends_with('/')) {
    flags.identity_dir.pop_back();
  }
  if (!texts.timeout.empty()) {
    const auto timeout = PositiveDurationOf("--timeout", texts.timeout, kMaxTimeout);
    if (!timeout) return std::unexpected(timeout.error());
    flags.timeout = *timeout;
  }
  auto storage = BucketFlagsOf(grammar, texts.storage);
  if (!storage) return std::unexpected(storage.error());
  flags.storage = *std::move(storage);
  return flags;
}

Parsed<std::int32_t> SizeOf(std::string_view what, std::string_view text, std::int32_t max) {
  const auto size = Number<std::int32_t>(text);
  if (!size || *size < 0 || *size > max) {
    return std::unexpected(
        fmt::format("{}: {} is not a whole number from 0 to {}", what, Quote(text), max));
  }
  return *size;
}

std::vector<std::int32_t> Divide(std::int32_t total, std::size_t shards) {
  const auto count = static_cast<std::int32_t>(shards);
  std::vector<std::int32_t> sizes(shards, total / count);
  for (std::int32_t i = 0; i < total % count; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

Parsed<std::vector<api::InstancePhase>> PhasesOf(std::string_view text) {
  std::vector<api::InstancePhase> phases;
  if (text.empty()) return phases;
  for (const std::string_view word : Split(text)) {
    const auto phase = PhaseOf(word);
    if (!phase) {
      return std::unexpected(fmt::format("--phase: {} is unknown; some of: {}{}", Quote(word),
                                         config::Listed(PhaseWords()),
                                         config::DidYouMean(word, PhaseWords())));
    }
    phases.push_back(*phase);
  }
  return phases;
}

}  // namespace nstance::admin
