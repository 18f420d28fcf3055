#include "adapters/host_facts/linux_host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "core/agent/proc_text.h"

namespace nstance {
namespace {

// /proc/stat of a machine with thousands of cores; what is longer is cut.
constexpr std::size_t kMaxBytes = std::size_t{1} * 1024 * 1024;

// Empty when the address is no use to anybody else.
std::string AddressText(const ifaddrs& entry) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto print = [&](int family, const void* address) -> std::string {
    return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
  };
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(*entry.ifa_addr).sin_addr;
    const std::uint32_t number = ntohl(in.s_addr);
    const bool loopback = (number >> 24U) == 127;
    const bool link_local = (number >> 16U) == 0xA9FE;
    return loopback || link_local || number == 0 ? "" : print(AF_INET, &in);
  }
  if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(*entry.ifa_addr).sin6_addr;
    const bool useless = IN6_IS_ADDR_LOOPBACK(&in) || IN6_IS_ADDR_LINKLOCAL(&in) ||
                         IN6_IS_ADDR_UNSPECIFIED(&in) || IN6_IS_ADDR_V4MAPPED(&in) ||
                         IN6_IS_ADDR_MULTICAST(&in);
    return useless ? "" : print(AF_INET6, &in);
  }
  return "";
}

}  // namespace

Result<std::string> LinuxHost::ReadText(const std::string& path) const {
  const std::string full = options_.root + path;
  const int file = ::open(full.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const std::error_code error(errno, std::generic_category());
    return Fail(Unavailable(fmt::format("{}: {}", path, error.message())));
  }
  std::string text;
  std::array<char, 8'192> buffer{};
  ssize_t count = 0;
  while (text.size() < kMaxBytes) {
    count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const int error_number = errno;
  (void)::close(file);
  if (count >= 0) return text;
  const std::error_code error(error_number, std::generic_category());
  return Fail(Unavailable(fmt::format("{}: {}", path, error.message())));
}

Result<std::uint64_t> LinuxHost::ReadCounter(const std::string& path) const {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return Under(agent::ParseCounter(text), path);
}

Result<agent::TrafficCounters> LinuxHost::ReadTraffic() const {
  const std::string folder = fmt::format("/sys/class/net/{}/statistics/", options_.interface);
  agent::TrafficCounters traffic;
  ASSIGN_OR_RETURN(traffic.rx_bytes, ReadCounter(folder + "rx_bytes"));
  ASSIGN_OR_RETURN(traffic.tx_bytes, ReadCounter(folder + "tx_bytes"));
  ASSIGN_OR_RETURN(traffic.rx_packets, ReadCounter(folder + "rx_packets"));
  ASSIGN_OR_RETURN(traffic.tx_packets, ReadCounter(folder + "tx_packets"));
  ASSIGN_OR_RETURN(traffic.rx_drops, ReadCounter(folder + "rx_dropped"));
  ASSIGN_OR_RETURN(traffic.tx_drops, ReadCounter(folder + "tx_dropped"));
  return traffic;
}

Result<ConntrackUse> LinuxHost::ReadConntrack() const {
  ConntrackUse use;
  ASSIGN_OR_RETURN(use.count, ReadCounter("/proc/sys/net/netfilter/nf_conntrack_count"));
  ASSIGN_OR_RETURN(use.max, ReadCounter("/proc/sys/net/netfilter/nf_conntrack_max"));
  return use;
}

HostReading LinuxHost::Sample() {
  HostReading reading;
  const Result<std::string> stat = ReadText("/proc/stat");
  reading.cpu = stat ? agent::ParseCpuTimes(*stat) : Fail(stat.error());
  const Result<std::string> memory = ReadText("/proc/meminfo");
  reading.memory = memory ? agent::ParseMemory(*memory) : Fail(memory.error());
  if (options_.interface.empty()) return reading;
  reading.traffic = ReadTraffic();
  reading.conntrack = ReadConntrack();
  return reading;
}

Result<Duration> LinuxHost::Uptime() {
  ASSIGN_OR_RETURN(const std::string text, ReadText("/proc/uptime"));
  return agent::ParseUptime(text);
}

Result<Timestamp> LinuxHost::BootedAt() {
  ASSIGN_OR_RETURN(const std::string text, ReadText("/proc/stat"));
  return agent::ParseBootTime(text);
}

Result<std::string> LinuxHost::BootId() {
  ASSIGN_OR_RETURN(std::string text, ReadText("/proc/sys/kernel/random/boot_id"));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

HostNames LinuxHost::Names() {
  HostNames names;
  utsname system{};
  if (::uname(&system) == 0) names.hostname = system.nodename;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return names;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::string& wanted = entry->ifa_addr->sa_family == AF_INET ? names.ipv4 : names.ipv6;
    if (wanted.empty()) wanted = AddressText(*entry);
  }
  return names;
}

}  // namespace nstance
