#include "server/process/command_line.h"

#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.h"
#include "base/text.h"
#include "base/version.h"

namespace nstance {
namespace {

constexpr int kExitBadCommandLine = 2;

constexpr std::string_view kHelp =
    R"(nstance-server: keeps groups of instances at their size, one shard per server.

usage: nstance-server --id ID --shard SHARD --storage file|s3|gcs --bucket BUCKET [more]

  --id ID                 name of this server, unique in the shard
  --shard SHARD           shard that it serves; its configuration is config/SHARD.jsonc in the bucket
  --storage KIND          file: BUCKET is a folder; s3, gcs: a bucket
  --bucket BUCKET         where everything durable lives; all servers of a cluster share it
  --prefix PREFIX         what all keys in the bucket begin with (none); with layout nstance-v2
                          those of the shard (shard/SHARD/)
  --layout LAYOUT         seed: the names of this program; nstance-v2: those of the Go servers;
                          auto (default): seed, unless only shard/SHARD/config.jsonc is there
  --cachedir DIR          last good configuration and cache (./cache); may be deleted at any time
  --bind NAME=ADDR        listen here: health, registration, operator, agent; e.g. health=127.0.0.1:0
  --advertise NAME=ADDR   what agents and operators are told; default: what is bound
  --advertise-host HOST   host of the health and election addresses that are told
  --addresses-file FILE   JSON with the addresses really bound, replaced whenever this server leads
  --validate[=FILE]       check the stored configuration, or a file; print what is wrong; exit
  --io-threads N          threads for agents and operators (1)
  --log-format FORMAT     json or text (json)
  --debug, -v             log for debugging; serve gRPC reflection
  --version, --help

The first server of a new cluster makes its CA and keys. A second server with another --id and the
same bucket stands by and takes over within seconds when the first one goes.

Exit codes:
  0  stopped by SIGINT or SIGTERM; --validate without errors
  1  fatal error: the log says which
  2  wrong command line
  3  --validate found errors
  4  the store does not honour conditional writes

To try it, with a configuration in ./bucket/config/a.jsonc:
  nstance-server --id s1 --shard a --storage file --bucket ./bucket
  curl http://127.0.0.1:8990/readyz
)";

ServerEnding Wrong(const std::string& what) {
  return {.exit_code = kExitBadCommandLine,
          .err = fmt::format("Error: {}\nTry nstance-server --help.\n", what)};
}

// "host:port", "[::1]:8990", ":8990".
Result<config::Address> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto bad = [&] {
    return Fail(InvalidArgument(fmt::format("{} is no address; write host:port", Quote(text))));
  };
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view port = text.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) return bad();
  return config::Address{.host = std::string(host), .port = number};
}

Status SetAddress(config::Advertise& addresses, std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    return Fail(InvalidArgument(fmt::format("{}: write NAME=host:port", Quote(word))));
  }
  const std::string_view name = word.substr(0, equals);
  ASSIGN_OR_RETURN(config::Address address, ParseAddress(word.substr(equals + 1)));
  if (name == "health") {
    addresses.health_addr = address;
  } else if (name == "election") {
    addresses.election_addr = address;
  } else if (name == "registration") {
    addresses.registration_addr = address;
  } else if (name == "operator") {
    addresses.operator_addr = address;
  } else if (name == "agent") {
    addresses.agent_addr = address;
  } else {
    return Fail(InvalidArgument(fmt::format(
        "{}: the names are health, election, registration, operator, agent", Quote(name))));
  }
  return {};
}

class Parser {
 public:
  Parser(std::span<const std::string> words, const std::string& libraries)
      : words_(words), libraries_(libraries) {}

  std::expected<ServerCommandLine, ServerEnding> Parse() {
    while (at_ < words_.size()) {
      const std::string word = words_[at_++];
      if (word == "--help" || word == "-h") {
        return std::unexpected(ServerEnding{.out = std::string(kHelp)});
      }
      if (word == "--version") {
        return std::unexpected(
            ServerEnding{.out = fmt::format("nstance-server {}\n{}", Version(), libraries_)});
      }
      if (const Status taken = Take(word); !taken.has_value()) {
        return std::unexpected(Wrong(taken.error().message));
      }
    }
    if (const Status complete = Check(); !complete.has_value()) {
      return std::unexpected(Wrong(complete.error().message));
    }
    return line_;
  }

 private:
  [[nodiscard]] Result<std::string> Value(const std::string& flag,
                                          const std::optional<std::string>& given) {
    if (given) return *given;
    if (at_ == words_.size()) return Fail(InvalidArgument(flag + " needs a value"));
    return words_[at_++];
  }

  [[nodiscard]] Status Take(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    std::optional<std::string> given;
    if (equals != std::string::npos) given = word.substr(equals + 1);
    if (flag == "--debug" || flag == "-v") {
      line_.debug = true;
      return {};
    }
    if (flag == "--validate") {
      line_.validate = true;
      line_.validate_file = given.value_or("");
      return {};
    }
    std::string* text = TextOf(flag);
    if (text == nullptr && !IsOther(flag)) {
      return Fail(InvalidArgument(fmt::format("there is no flag {}", Quote(flag))));
    }
    ASSIGN_OR_RETURN(std::string value, Value(flag, given));
    if (text != nullptr) {
      *text = std::move(value);
      return {};
    }
    return TakeOther(flag, value);
  }

  [[nodiscard]] std::string* TextOf(std::string_view flag) {
    if (flag == "--id") return &line_.id;
    if (flag == "--shard") return &line_.shard;
    if (flag == "--storage") return &line_.storage;
    if (flag == "--bucket") return &line_.bucket;
    if (flag == "--prefix") return &line_.prefix;
    if (flag == "--cachedir") return &line_.cachedir;
    if (flag == "--addresses-file") return &line_.addresses_file;
    return nullptr;
  }

  [[nodiscard]] static bool IsOther(std::string_view flag) {
    return flag == "--bind" || flag == "--advertise" || flag == "--advertise-host" ||
           flag == "--io-threads" || flag == "--log-format" || flag == "--layout";
  }

  [[nodiscard]] Status TakeOther(std::string_view flag, const std::string& value) {
    if (flag == "--bind") return Under(SetAddress(line_.bind, value), "--bind");
    if (flag == "--advertise") return Under(SetAddress(line_.advertise, value), "--advertise");
    if (flag == "--advertise-host") {
      line_.advertise_host = value;
      return {};
    }
    if (flag == "--layout") return TakeLayout(value);
    if (flag == "--log-format") {
      if (value != "json" && value != "text") {
        return Fail(InvalidArgument("--log-format: json or text"));
      }
      line_.text_logs = value == "text";
      return {};
    }
    const auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), line_.io_threads);
    if (error != std::errc() || end != value.data() + value.size() || line_.io_threads < 1 ||
        line_.io_threads > 64) {
      return Fail(InvalidArgument("--io-threads: 1 to 64"));
    }
    return {};
  }

  [[nodiscard]] Status TakeLayout(std::string_view value) {
    if (value == "auto") {
      line_.layout = LayoutChoice::kAuto;
    } else if (value == "seed") {
      line_.layout = LayoutChoice::kSeed;
    } else if (value == "nstance-v2") {
      line_.layout = LayoutChoice::kNstanceV2;
    } else {
      return Fail(InvalidArgument("--layout: auto, seed or nstance-v2"));
    }
    return {};
  }

  [[nodiscard]] Status Check() const {
    if (line_.validate && !line_.validate_file.empty()) return {};
    for (const auto& [flag, text] : {std::pair{"--shard", &line_.shard},
                                     {"--storage", &line_.storage},
                                     {"--bucket", &line_.bucket}}) {
      if (text->empty()) return Fail(InvalidArgument(fmt::format("{} is required", flag)));
    }
    if (line_.id.empty() && !line_.validate) return Fail(InvalidArgument("--id is required"));
    RETURN_IF_ERROR(Under(ShardId::Parse(line_.shard), "--shard"));
    if (line_.storage != "file" && line_.storage != "s3" && line_.storage != "gcs") {
      return Fail(InvalidArgument("--storage: file, s3 or gcs"));
    }
    return {};
  }

  std::span<const std::string> words_;
  const std::string& libraries_;
  std::size_t at_ = 0;
  ServerCommandLine line_;
};

}  // namespace

std::expected<ServerCommandLine, ServerEnding> ParseServerCommandLine(
    std::span<const std::string> words, const std::string& libraries) {
  return Parser(words, libraries).Parse();
}

}  // namespace nstance
