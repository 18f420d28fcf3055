#include "agent/command_line.h"

#include <string_view>

#include <fmt/core.h>

#include "agent/agent.h"
#include "base/text.h"
#include "base/version.h"

namespace nstance::agent {
namespace {

constexpr std::string_view kHelp =
    R"(nstance-agent: joins this machine to a Nstance cluster and reports its health.

usage: nstance-agent [--debug | -v] [--version] [--help]

It takes its settings from the environment. The least that it needs:

  NSTANCE_SERVER_REGISTRATION_ADDR   host:port where agents join, e.g. nstance.example:8992
  NSTANCE_SERVER_AGENT_ADDR          host:port for everything after that, e.g. nstance.example:8994

and two files in NSTANCE_IDENTITY_DIR (/opt/nstance-agent/identity):

  ca.crt      the cluster's roots, 1 to 4 certificates as PEM
  nonce.jwt   the token to join with; removed once the agent has its certificate

More variables, each with the prefix NSTANCE_ and its default:

  INSTANCE_ID            id of this instance; default: what the token or the certificate says
  IDENTITY_DIR, IDENTITY_MODE   /opt/nstance-agent/identity, 0600
  KEYS_DIR, KEYS_MODE           /opt/nstance-agent/keys, 0640
  RECV_DIR, RECV_MODE           /opt/nstance-agent/recv, 0640
  INSTANCE_HOSTNAME, INSTANCE_FQDN, INSTANCE_IPV4, INSTANCE_IPV6
                         told to the server in place of what is found on this machine
  REPORT_INTERVAL        60s; how often health is reported; 0: never. 30s, 2m, 1h30m
  METRICS_INTERFACE      tell the traffic of this interface, and connection tracking
  HEALTH_ADDR            serve /healthz and /readyz here, e.g. 127.0.0.1:8996; default: nowhere
  DEBUG                  true: log for debugging, as --debug

Logs are JSON lines on standard output. What is wrong with the environment goes to standard error,
one line for each problem.

Exit codes:
  0  stopped by SIGINT or SIGTERM (or --help, --version)
  1  a problem with the environment or the identity files
  2  a wrong command line
  3  cannot register: no certificate, and no token that the server accepts

To try it without a server: create the directories and ca.crt, set the two addresses, and watch
  NSTANCE_HEALTH_ADDR=127.0.0.1:8996 nstance-agent &  curl http://127.0.0.1:8996/readyz
)";

}  // namespace

std::expected<CommandLine, Ending> ParseCommandLine(std::span<const std::string> words,
                                                    const std::string& libraries) {
  CommandLine line;
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") return std::unexpected(Ending{.out = std::string(kHelp)});
    if (word == "--version") {
      return std::unexpected(
          Ending{.out = fmt::format("nstance-agent {}\n{}", Version(), libraries)});
    }
    if (word == "--debug" || word == "-v") {
      line.debug = true;
      continue;
    }
    return std::unexpected(Ending{
        .exit_code = kExitBadCommandLine,
        .err = fmt::format("Error: unknown argument {}; allowed are --debug, -v, --version and "
                           "--help. Settings go into the environment: see --help.\n",
                           Quote(word))});
  }
  return line;
}

}  // namespace nstance::agent
