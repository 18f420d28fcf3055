#include "adapters/provider_local/processes.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/number.h"

namespace nstance::provider_local {
namespace {

constexpr std::size_t kStatLimit = 8'192;
constexpr std::size_t kEnvironmentLimit = std::size_t{16} << 20U;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Whether an environment, variables ended by zero bytes, has that very entry.
bool HasEntry(std::string_view environment, std::string_view entry) {
  while (!environment.empty()) {
    const std::size_t end = std::min(environment.find('\0'), environment.size());
    if (environment.substr(0, end) == entry) return true;
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return false;
}

// Nothing when it has ended. Other errors (no descriptors left) say nothing about it.
Result<std::optional<Process>> LookAt(pid_t pid) {
  const auto text = ReadFile(AT_FDCWD, fmt::format("/proc/{}/stat", pid), kStatLimit);
  if (text) return ParseStat(*text);
  if (text.error().code == Code::kNotFound) return std::nullopt;
  return Fail(text.error());
}

Result<std::vector<Process>> AllProcesses() {
  ASSIGN_OR_RETURN(const Descriptor proc, OpenFolder(AT_FDCWD, "/proc"));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(proc.number()));
  std::vector<Process> all;
  for (const std::string& name : names) {
    const auto pid = ParseNumber<pid_t>(name);
    if (!pid) continue;
    ASSIGN_OR_RETURN(const std::optional<Process> process, LookAt(*pid));
    if (process && !process->is_dead()) all.push_back(*process);
  }
  return all;
}

Result<bool> IsMarked(const Process& process, std::string_view entry) {
  const auto environment =
      ReadFile(AT_FDCWD, fmt::format("/proc/{}/environ", process.name.pid), kEnvironmentLimit);
  if (environment) return HasEntry(*environment, entry);
  // What may not be read is another user's; what is not there has just ended.
  if (environment.error().code == Code::kUnavailable) return Fail(environment.error());
  return false;
}

// The keeper and what descends from it.
std::set<pid_t> Family(const std::vector<Process>& all, pid_t keeper) {
  std::multimap<pid_t, pid_t> children;
  for (const Process& process : all) children.emplace(process.parent, process.name.pid);
  std::set<pid_t> family = {keeper};
  std::vector<pid_t> next = {keeper};
  while (!next.empty()) {
    const pid_t parent = next.back();
    next.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      if (family.insert(child->second).second) next.push_back(child->second);
    }
  }
  return family;
}

}  // namespace

std::optional<Process> ParseStat(std::string_view text) {
  // pid (name) state ppid pgrp session ...; the name may hold blanks and parentheses.
  const std::size_t open = text.find(" (");
  const std::size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  const auto words = Words(text.substr(close + 2));
  constexpr std::size_t kStartTime = 19;
  if (words.size() <= kStartTime || words[0].size() != 1) return std::nullopt;
  const auto pid = ParseNumber<pid_t>(text.substr(0, open));
  const auto parent = ParseNumber<pid_t>(words[1]);
  const auto session = ParseNumber<pid_t>(words[3]);
  const auto start = ParseNumber<std::uint64_t>(words[kStartTime]);
  if (!pid || !parent || !session || !start) return std::nullopt;
  return Process{.name = {.pid = *pid, .start_time = *start},
                 .parent = *parent,
                 .session = *session,
                 .state = words[0].front()};
}

std::optional<Process> FindProcess(pid_t pid) {
  const auto found = LookAt(pid);
  return found ? *found : std::nullopt;
}

bool IsAlive(const ProcessName& name) {
  const auto found = FindProcess(name.pid);
  return found && found->name == name && !found->is_dead();
}

Result<Tree> FindTree(std::string_view instance_id, const std::optional<ProcessName>& keeper) {
  const std::string entry = fmt::format("{}={}", kMarkVariable, instance_id);
  ASSIGN_OR_RETURN(const std::vector<Process> all, AllProcesses());
  Tree tree;
  tree.keeper_alive = keeper && std::ranges::any_of(all, [&](const Process& process) {
                        return process.name == *keeper;
                      });
  const std::set<pid_t> family = tree.keeper_alive ? Family(all, keeper->pid) : std::set<pid_t>();
  std::vector<bool> marked(all.size());
  bool session_is_ours = tree.keeper_alive;
  for (std::size_t i = 0; i < all.size(); ++i) {
    marked[i] = family.contains(all[i].name.pid);
    if (!marked[i]) {
      ASSIGN_OR_RETURN(marked[i], IsMarked(all[i], entry));
    }
    if (marked[i] && keeper && all[i].session == keeper->pid) session_is_ours = true;
  }
  const pid_t self = ::getpid();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Process& process = all[i];
    const bool in_session = session_is_ours && keeper && process.session == keeper->pid;
    if (!marked[i] && !in_session) continue;
    if (process.name.pid == self || process.name.pid <= 1) continue;
    if (keeper && process.name == *keeper) continue;
    tree.members.push_back(process);
  }
  return tree;
}

Descriptor OpenProcess(const ProcessName& name) {
  if (name.pid <= 0) return {};
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, name.pid, 0)));
  // The handle came first: while the start time is the right one, it is the right process.
  if (!handle.is_open() || !IsAlive(name)) return {};
  return handle;
}

bool SendSignal(const ProcessName& name, int signal) {
  const Descriptor handle = OpenProcess(name);
  return handle.is_open() &&
         ::syscall(SYS_pidfd_send_signal, handle.number(), signal, nullptr, 0) == 0;
}

std::string BootId() {
  auto text = ReadFile(AT_FDCWD, "/proc/sys/kernel/random/boot_id", kStatLimit);
  if (!text) return {};
  while (text->ends_with('\n')) text->pop_back();
  return *std::move(text);
}

std::string PidNamespace() {
  std::array<char, 128> buffer{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", buffer.data(), buffer.size());
  return length <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(length));
}

}  // namespace nstance::provider_local
