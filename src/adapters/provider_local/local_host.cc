#include "adapters/provider_local/local_host.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "adapters/provider_local/keeper_start.h"
#include "base/check.h"
#include "base/text.h"
#include "crypto/digest.h"

namespace nstance::provider_local {
namespace {

constexpr std::string_view kNewPrefix = ".new-";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::string_view kLogsFolder = "logs";
constexpr std::string_view kSystemPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::size_t kMaxTextBytes = 1'024;
constexpr std::size_t kMaxTags = 256;
constexpr std::size_t kMaxPage = 10'000;
constexpr int kCreateTries = 8;
constexpr int kLockTries = 40;
constexpr auto kLockPause = std::chrono::milliseconds(5);

// The class of back-off that follows from the code.
ProviderReason ReasonOf(Code code) {
  switch (code) {
    case Code::kPermissionDenied: return ProviderReason::kAuth;
    case Code::kInvalidArgument:
    case Code::kAlreadyExists:
    case Code::kFailedPrecondition:
    case Code::kUnimplemented: return ProviderReason::kInvalid;
    case Code::kResourceExhausted: return ProviderReason::kCapacity;
    default: return ProviderReason::kOther;
  }
}

std::unexpected<ProviderError> Refuse(Error error) {
  const ProviderReason reason = ReasonOf(error.code);
  return std::unexpected(ProviderError{.error = std::move(error), .reason = reason});
}

std::unexpected<ProviderError> Mismatch(Error error) {
  return std::unexpected(
      ProviderError{.error = std::move(error), .reason = ProviderReason::kMismatch});
}

template <class T>
ProviderResult<T> Answer(Result<T> result) {
  if (!result) return Refuse(std::move(result).error());
  return *std::move(result);
}

Status CheckText(std::string_view text, std::string_view what) {
  if (text.size() > kMaxTextBytes) {
    return Fail(InvalidArgument(
        fmt::format("{}: {} bytes; at most {} are allowed", what, text.size(), kMaxTextBytes)));
  }
  if (!IsValidUtf8(text)) return Fail(InvalidArgument(fmt::format("{}: not UTF-8", what)));
  return {};
}

Status CheckRequest(const ProviderCreate& request) {
  RETURN_IF_ERROR(CheckText(request.group, "group"));
  RETURN_IF_ERROR(CheckText(request.template_name, "template"));
  RETURN_IF_ERROR(CheckText(request.kind, "kind"));
  RETURN_IF_ERROR(CheckText(request.instance_type, "instance type"));
  RETURN_IF_ERROR(CheckText(request.subnet, "subnet"));
  if (request.tags.size() > kMaxTags) {
    return Fail(InvalidArgument(
        fmt::format("{} tags; at most {} are allowed", request.tags.size(), kMaxTags)));
  }
  for (const auto& [key, value] : request.tags) {
    RETURN_IF_ERROR(CheckText(key, "name of a tag"));
    RETURN_IF_ERROR(CheckText(value, fmt::format("tag {}", Quote(key))));
  }
  if (request.user_data.size() > Provider::kMaxUserDataBytes) {
    return Fail(
        InvalidArgument(fmt::format("user data: {} bytes; at most {} are allowed",
                                    request.user_data.size(), Provider::kMaxUserDataBytes)));
  }
  return {};
}

Status CheckShell(const std::string& shell) {
  if (!shell.starts_with('/')) {
    return Fail(InvalidArgument(
        fmt::format("server.provider.options.shell: {}; must be an absolute path", Quote(shell))));
  }
  if (::access(shell.c_str(), X_OK) == 0) return {};
  return Fail(InvalidArgument(SystemError(errno, fmt::format("the shell {}", shell)).message));
}

// Not ours to judge: neither an instance nor the absence of one.
Error NoMeta(const InstanceId& id) {
  return {.code = Code::kDataLoss,
          .outcome = Outcome::kNotDone,
          .message = fmt::format("the folder of {} has no {}", id.text(), kMetaFile)};
}

// Whoever can rename folders in the root could have us run or kill what they like.
Status CheckRoot(int root, const std::string& path) {
  struct stat about{};
  if (::fstat(root, &about) != 0) return Fail(SystemError(errno, path));
  if (about.st_uid != ::geteuid()) {
    return Fail(FailedPrecondition(
        fmt::format("{} belongs to user {}; it must belong to the user of this process, {}", path,
                    about.st_uid, ::geteuid())));
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(FailedPrecondition(
        fmt::format("{} may be changed by other users; take that away: chmod go-w", path)));
  }
  return {};
}

Status MakeRoot(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Fail(SystemError(errno, fmt::format("making the folder {}", path)));
}

std::string MachineMark() {
  std::string machine_id;
  if (auto text = ReadFile(AT_FDCWD, "/etc/machine-id", 4'096)) machine_id = *std::move(text);
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return HostMark(machine_id, name.data());
}

}  // namespace

std::string HostMark(std::string_view machine_id, std::string_view host_name) {
  constexpr std::size_t kLength = 8;
  const std::string_view line = machine_id.substr(0, machine_id.find('\n'));
  const bool usable = line.size() >= kLength && std::ranges::all_of(line, [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
  if (usable) return std::string(line.substr(0, kLength));
  return crypto::Sha256Hex(AsBytes(host_name)).substr(0, kLength);
}

LocalHost::LocalHost(HostOptions options, Descriptor root, std::string host)
    : options_(std::move(options)),
      root_(std::move(root)),
      host_(std::move(host)),
      boot_id_(BootId()),
      pid_namespace_(PidNamespace()) {}

Result<std::unique_ptr<LocalHost>> LocalHost::Open(HostOptions options) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(options.options.root, error);
  if (options.options.root.empty() || error || absolute == absolute.root_path()) {
    return Fail(InvalidArgument(fmt::format("server.provider.options.root: {} cannot be used",
                                            Quote(options.options.root))));
  }
  std::string path = absolute.lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  options.options.root = path;
  RETURN_IF_ERROR(CheckShell(options.options.shell));
  RETURN_IF_ERROR(CheckEnvironment(options.options.env, "server.provider.options.env"));
  CHECK(!options.keeper_command.empty(), "a keeper needs a program");
  RETURN_IF_ERROR(MakeRoot(path));
  // The root itself may be reached through links: that is the administrator's business.
  Descriptor root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return Fail(SystemError(errno, fmt::format("opening {}", path)));
  RETURN_IF_ERROR(CheckRoot(root.number(), path));
  std::unique_ptr<LocalHost> host(
      new LocalHost(std::move(options), std::move(root), MachineMark()));
  if (host->boot_id_.empty()) return Fail(FailedPrecondition("/proc is not mounted"));
  RETURN_IF_ERROR(host->Sweep());
  return host;
}

std::string LocalHost::ProviderId(const InstanceId& id) const {
  return fmt::format("local-{}-{}", host_, id.text());
}

Status LocalHost::CheckTarget(const ProviderTarget& target) const {
  const std::string expected = ProviderId(target.instance_id);
  if (target.provider_instance_id.empty() || target.provider_instance_id == expected) return {};
  return Fail(FailedPrecondition(
      fmt::format("provider id {} is not {}, which {} has on this host: it is another host's or "
                  "another instance's",
                  Quote(target.provider_instance_id), expected, target.instance_id.text())));
}

Status LocalHost::CheckOwner(const Meta& meta, const InstanceId& id) const {
  if (meta.instance_id == id && meta.cluster_id == options_.cluster.text() &&
      meta.shard == options_.shard.text()) {
    return {};
  }
  return Fail(AlreadyExists(
      fmt::format("the folder of {} belongs to instance {} of cluster {}, "
                  "shard {}: not ours",
                  id.text(), meta.instance_id.text(), Quote(meta.cluster_id), Quote(meta.shard))));
}

Result<Descriptor> LocalHost::OpenInstance(const InstanceId& id) const {
  auto folder = OpenFolder(root_.number(), id.text());
  if (folder || folder.error().code != Code::kNotFound) return folder;
  // A root that was removed holds nothing, which says nothing about its instances.
  struct stat about{};
  if (::fstat(root_.number(), &about) != 0 || about.st_nlink == 0) {
    return Fail(Unavailable(fmt::format("the folder {} was removed", options_.options.root)));
  }
  return Fail(NotFound(fmt::format("no instance {}", id.text())));
}

Result<bool> LocalHost::IsLocked(int folder) const {
  const auto lock = OpenFile(folder, std::string(kLockFile), O_RDWR);
  if (!lock && lock.error().code == Code::kNotFound) return false;
  if (!lock) return Fail(lock.error());
  return ::flock(lock->number(), LOCK_SH | LOCK_NB) != 0;
}

// A look holds the lock for an instant, and a keeper being spawned holds copies of all descriptors
// until it runs; so "held" is only believed after a while.
Result<Descriptor> LocalHost::TakeLock(const InstanceId& id, int folder) const {
  for (int tries = 0; tries < kLockTries; ++tries) {
    ASSIGN_OR_RETURN(Descriptor lock, OpenFile(folder, std::string(kLockFile), O_RDWR | O_CREAT));
    if (::flock(lock.number(), LOCK_EX | LOCK_NB) == 0) {
      struct stat held{};
      struct stat named{};
      const std::string path = fmt::format("{}/{}", id.text(), kLockFile);
      const bool in_place =
          ::fstat(lock.number(), &held) == 0 &&
          ::fstatat(root_.number(), path.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
          held.st_dev == named.st_dev && held.st_ino == named.st_ino;
      if (in_place) return lock;
      return Fail(NotFound(fmt::format("instance {} was removed meanwhile", id.text())));
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return Descriptor();
}

Result<LocalHost::History> LocalHost::ReadHistory(int folder) const {
  const auto run = ReadRun(folder);
  // It ran, and nothing more is known: the lock and the marks must do.
  if (!run && run.error().code == Code::kDataLoss) return History{.ran = true};
  if (!run) return Fail(run.error());
  if (!*run) return History{};
  History history{.ran = true, .run = *run};
  history.this_boot = history.run->boot_id == boot_id_;
  history.same_numbers = history.this_boot && history.run->pid_namespace == pid_namespace_;
  return history;
}

Result<Seen> LocalHost::Describe(const Meta& meta, int folder) const {
  ASSIGN_OR_RETURN(const History history, ReadHistory(folder));
  Seen seen;
  ProviderInstance& instance = seen.instance;
  instance = {.instance_id = meta.instance_id,
              .shown_id = meta.instance_id.text(),
              .provider_instance_id = ProviderId(meta.instance_id),
              .instance_type = meta.instance_type,
              .private_ipv4 = "127.0.0.1",
              .private_ipv6 = "::1",
              .hostname = meta.instance_id.text(),
              .region = meta.region,
              .zone = meta.zone,
              .managed = true,
              .cluster_id = meta.cluster_id,
              .shard = meta.shard,
              .tenant = meta.tenant,
              .group = meta.group,
              .template_name = meta.template_name,
              .kind = meta.kind,
              .created_at = meta.created_at,
              .tags = meta.tags};
  instance.status = ProviderStatus::kStopped;
  if (history.run) {
    instance.launched_at = history.run->started_at;
    if (history.run->exit_code) {
      instance.tags["exit_code"] = std::to_string(*history.run->exit_code);
      return seen;
    }
    if (!history.this_boot) return seen;
    // A lock may seem held for an instant longer than its keeper lives.
    if (history.same_numbers && !IsAlive(history.run->keeper)) return seen;
  }
  ASSIGN_OR_RETURN(const bool locked, IsLocked(folder));
  if (!locked) return seen;
  instance.status = history.ran ? ProviderStatus::kRunning : ProviderStatus::kPending;
  if (history.same_numbers) seen.keeper = history.run->keeper;
  return seen;
}

Result<Seen> LocalHost::LookAt(const InstanceId& id) const {
  ASSIGN_OR_RETURN(const Descriptor folder, OpenInstance(id));
  const auto meta = ReadMeta(folder.number());
  if (!meta) {
    // Removed between the two, or damaged: only the first is an answer.
    if (meta.error().code == Code::kNotFound) {
      ASSIGN_OR_RETURN(const Descriptor again, OpenInstance(id));
      return Fail(NoMeta(id));
    }
    return Fail(Error(meta.error()).Under(id.text()));
  }
  RETURN_IF_ERROR(CheckOwner(*meta, id));
  return Under(Describe(*meta, folder.number()), id.text());
}

ProviderResult<Seen> LocalHost::Look(const ProviderTarget& target) const {
  if (auto checked = CheckTarget(target); !checked) return Mismatch(std::move(checked).error());
  return Answer(LookAt(target.instance_id));
}

Result<std::vector<InstanceId>> LocalHost::InstancesInRoot() const {
  struct stat about{};
  if (::fstat(root_.number(), &about) != 0 || about.st_nlink == 0) {
    return Fail(Unavailable(fmt::format("the folder {} was removed", options_.options.root)));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root_.number()));
  std::vector<InstanceId> ids;
  for (const std::string& name : names) {
    if (auto id = ParsePuidv7(name)) ids.push_back(*std::move(id));
  }
  std::ranges::sort(ids);
  return ids;
}

ProviderResult<LocalHost::Page> LocalHost::List(const ProviderListRequest& request) const {
  if (!request.page_token.empty() && !ParsePuidv7(request.page_token)) {
    return Refuse(InvalidArgument(
        fmt::format("page token {} is not of a page before", Quote(request.page_token))));
  }
  const auto ids = InstancesInRoot();
  if (!ids) return Refuse(ids.error());
  const std::size_t most = std::clamp<std::size_t>(request.page_size, 1, kMaxPage);
  Page page;
  for (const InstanceId& id : *ids) {
    if (id.text() <= request.page_token) continue;
    if (page.instances.size() == most) {
      page.next_page_token = page.instances.back().instance.shown_id;
      break;
    }
    auto seen = LookAt(id);
    if (seen) {
      page.instances.push_back(*std::move(seen));
      continue;
    }
    // Gone meanwhile, another shard's, or not readable as ours; anything else fails the listing.
    const Code code = seen.error().code;
    const bool no_member = code == Code::kNotFound || code == Code::kAlreadyExists ||
                           code == Code::kDataLoss || code == Code::kFailedPrecondition;
    if (!no_member) return Refuse(std::move(seen).error());
  }
  return page;
}

Result<Meta> LocalHost::MakeMeta(const ProviderCreate& request) const {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(LocalArgs args, ParseArgs(request.args));
  Meta meta{.instance_id = request.instance_id,
            .cluster_id = options_.cluster.text(),
            .shard = options_.shard.text(),
            .tenant = request.tenant.text(),
            .group = request.group,
            .template_name = request.template_name,
            .kind = request.kind,
            .instance_type = request.instance_type,
            .subnet = request.subnet,
            .region = options_.region,
            .zone = options_.zone,
            .created_at = request.created_at,
            .tags = request.tags,
            .request_sha256 = RequestDigest(request),
            .shell = options_.options.shell,
            .run_limit = args.run_limit,
            .kill_grace = options_.options.kill_grace};
  const std::string work =
      fmt::format("{}/{}/{}", options_.options.root, request.instance_id.text(), kWorkFolder);
  meta.environment = {{"PATH", options_.program_folder.empty()
                                   ? std::string(kSystemPath)
                                   : fmt::format("{}:{}", options_.program_folder, kSystemPath)},
                      {"LANG", "C.UTF-8"},
                      {"HOME", work},
                      {"TMPDIR", work}};
  for (const auto& [name, value] : options_.options.env) meta.environment[name] = value;
  for (const auto& [name, value] : args.environment) meta.environment[name] = value;
  RETURN_IF_ERROR(CheckEnvironment(meta.environment, "the environment"));
  meta.environment[std::string(kMarkVariable)] = request.instance_id.text();
  return meta;
}

Status LocalHost::CheckRoom() const {
  const int most = options_.options.max_instances;
  if (most <= 0) return {};
  ASSIGN_OR_RETURN(const std::vector<InstanceId> ids, InstancesInRoot());
  if (ids.size() < static_cast<std::size_t>(most)) return {};
  return Fail(ResourceExhausted(
      fmt::format("{} instances are in {}; server.provider.options.max_instances allows {}",
                  ids.size(), options_.options.root, most)));
}

Result<LocalHost::Prepared> LocalHost::Prepare(const Meta& meta, const std::string& user_data) {
  std::array<std::uint8_t, 8> random{};
  {
    const std::scoped_lock lock(random_mutex_);
    random = random_.Array<8>();
  }
  Prepared prepared;
  prepared.temporary =
      fmt::format("{}{}-{}", kNewPrefix, meta.instance_id.text(), HexEncode(random));
  RETURN_IF_ERROR(MakeFolder(root_.number(), prepared.temporary, 0700));
  Step("create-folder");
  Status filled = [&]() -> Status {
    ASSIGN_OR_RETURN(prepared.folder, OpenFolder(root_.number(), prepared.temporary));
    ASSIGN_OR_RETURN(prepared.lock, OpenFile(prepared.folder.number(), std::string(kLockFile),
                                             O_RDWR | O_CREAT | O_EXCL));
    // Somebody who sweeps may have been faster.
    if (::flock(prepared.lock.number(), LOCK_EX | LOCK_NB) != 0) {
      return Fail(NotFound("swept away while it was made"));
    }
    Step("create-locked");
    return Fill(prepared, meta, user_data);
  }();
  if (filled) return prepared;
  (void)RemoveTree(root_.number(), prepared.temporary);
  return Fail(std::move(filled).error());
}

Status LocalHost::Fill(const Prepared& prepared, const Meta& meta,
                       const std::string& user_data) const {
  const int folder = prepared.folder.number();
  RETURN_IF_ERROR(WriteNewFile(folder, std::string(kMetaFile), WriteMeta(meta), 0600));
  Step("create-meta");
  RETURN_IF_ERROR(WriteNewFile(folder, std::string(kUserDataFile), user_data, 0700));
  RETURN_IF_ERROR(MakeFolder(folder, std::string(kWorkFolder), 0700));
  RETURN_IF_ERROR(SyncFolder(folder, kMetaFile));
  Step("create-filled");
  return {};
}

Result<LocalHost::Placed> LocalHost::Place(const Prepared& prepared, const InstanceId& id) const {
  // A folder replaces only an empty one, and no instance's is.
  if (::renameat(root_.number(), prepared.temporary.c_str(), root_.number(), id.text().c_str()) !=
      0) {
    const int error_number = errno;
    if (error_number == ENOENT) return Placed::kLost;
    (void)RemoveTree(root_.number(), prepared.temporary);
    if (error_number == ENOTEMPTY || error_number == EEXIST) return Placed::kTaken;
    return Fail(SystemError(error_number, fmt::format("putting {} in place", id.text())));
  }
  Step("create-placed");
  if (auto synced = SyncFolder(root_.number(), id.text()); !synced) {
    return Fail(std::move(synced).error().MaybeDone());
  }
  return Placed::kDone;
}

Status LocalHost::Start(const InstanceId& id, Descriptor lock, const std::stop_token& stop) {
  return StartKeeper({.command = options_.keeper_command,
                      .folder = fmt::format("{}/{}", options_.options.root, id.text()),
                      .instance_id = id.text()},
                     std::move(lock), stop);
}

// Nothing: somebody else was faster, or swept it away; look again.
ProviderResult<std::optional<Seen>> LocalHost::CreateNew(const Meta& meta,
                                                         const ProviderCreate& request,
                                                         const std::stop_token& stop) {
  std::unique_lock<std::mutex> room(room_mutex_, std::defer_lock);
  if (options_.options.max_instances > 0) room.lock();
  if (auto checked = CheckRoom(); !checked) {
    const bool full = checked.error().code == Code::kResourceExhausted;
    return std::unexpected(
        ProviderError{.error = std::move(checked).error(),
                      .reason = full ? ProviderReason::kQuota : ProviderReason::kOther});
  }
  auto prepared = Prepare(meta, request.user_data);
  if (!prepared && prepared.error().code == Code::kNotFound) return std::nullopt;
  if (!prepared) return Refuse(std::move(prepared).error());
  const auto placed = Place(*prepared, meta.instance_id);
  if (!placed) return Refuse(placed.error());
  if (*placed != Placed::kDone) return std::nullopt;
  if (room.owns_lock()) room.unlock();
  Step("create-synced");
  // A copy of the lock stays here, so that what cannot be started can be taken back.
  const Descriptor lock(::fcntl(prepared->lock.number(), F_DUPFD_CLOEXEC, 0));
  if (auto started = Start(meta.instance_id, std::move(prepared->lock), stop); !started) {
    Error error = std::move(started).error();
    if (error.outcome == Outcome::kNotDone && Discard(meta.instance_id.text())) {
      return Refuse(std::move(error));
    }
    return Refuse(std::move(error).MaybeDone());
  }
  Step("create-started");
  auto seen = LookAt(meta.instance_id);
  if (!seen) return Refuse(std::move(seen).error().MaybeDone());
  RememberKeeper(*seen, prepared->folder.number());
  return *std::move(seen);
}

// Nothing: there is none.
ProviderResult<std::optional<Seen>> LocalHost::Adopt(const Meta& meta,
                                                     const std::stop_token& stop) {
  const InstanceId& id = meta.instance_id;
  const auto folder = OpenInstance(id);
  if (!folder && folder.error().code == Code::kNotFound) return std::nullopt;
  if (!folder) return Refuse(folder.error());
  const auto found = ReadMeta(folder->number());
  if (!found && found.error().code == Code::kNotFound) return std::nullopt;
  if (!found) return Refuse(found.error());
  if (auto owner = CheckOwner(*found, id); !owner) return Refuse(std::move(owner).error());
  if (found->request_sha256 != meta.request_sha256) {
    return Refuse(Aborted(fmt::format("instance {} was created with other parameters", id.text()))
                      .MaybeDone());
  }
  const auto started = StartUnlessItRan(id, folder->number(), stop);
  if (!started && started.error().code == Code::kNotFound) return std::nullopt;
  if (!started) return Refuse(started.error());
  auto seen = LookAt(id);
  if (!seen && seen.error().code == Code::kNotFound) return std::nullopt;
  if (!seen) return Refuse(std::move(seen).error());
  if (*started) RememberKeeper(*seen, folder->number());
  return *std::move(seen);
}

// Tells whether it was started just now. kNotFound: it was removed meanwhile.
Result<bool> LocalHost::StartUnlessItRan(const InstanceId& id, int folder,
                                         const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const History before, ReadHistory(folder));
  if (before.ran) return false;
  ASSIGN_OR_RETURN(Descriptor lock, TakeLock(id, folder));
  // With the lock in hand nobody is starting it; it may have run and ended meanwhile.
  ASSIGN_OR_RETURN(const History now, ReadHistory(folder));
  if (!lock.is_open() || now.ran) return false;
  if (auto started = Start(id, std::move(lock), stop); !started) {
    return Fail(std::move(started).error().MaybeDone());
  }
  return true;
}

// A keeper that was started here is watched even if it has ended by now: it is our child.
void LocalHost::RememberKeeper(Seen& seen, int folder) const {
  const auto history = ReadHistory(folder);
  if (history && history->same_numbers) seen.keeper = history->run->keeper;
}

ProviderResult<Seen> LocalHost::Create(const ProviderCreate& request, const std::stop_token& stop) {
  const auto meta = MakeMeta(request);
  if (!meta) return Refuse(meta.error());
  for (int tries = 0; tries < kCreateTries && !stop.stop_requested(); ++tries) {
    auto adopted = Adopt(*meta, stop);
    if (!adopted) return std::unexpected(std::move(adopted).error());
    if (*adopted) return **std::move(adopted);
    auto created = CreateNew(*meta, request, stop);
    if (!created) return std::unexpected(std::move(created).error());
    if (*created) return **std::move(created);
  }
  return Refuse(Unavailable(
      fmt::format("instance {} is created and removed by others", request.instance_id.text())));
}

void LocalHost::KeepLogs(const std::string& trash) const {
  const std::string id = trash.substr(kTrashPrefix.size());
  if (!ParsePuidv7(id)) return;
  const std::string logs(kLogsFolder);
  (void)::mkdirat(root_.number(), logs.c_str(), 0700);
  const auto keep = [&](std::string_view from, std::string_view suffix) {
    const std::string old_name = fmt::format("{}/{}", trash, from);
    const std::string new_name = fmt::format("{}/{}.log{}", logs, id, suffix);
    (void)::renameat(root_.number(), old_name.c_str(), root_.number(), new_name.c_str());
  };
  keep(kConsoleFile, "");
  keep(kOldConsoleFile, ".1");
}

// REQUIRES: the lock is held, or the instance is called off.
Status LocalHost::Discard(const std::string& name) {
  const std::string trash = fmt::format("{}{}", kTrashPrefix, name);
  RETURN_IF_ERROR(RemoveTree(root_.number(), trash));  // Of an earlier life.
  if (::renameat(root_.number(), name.c_str(), root_.number(), trash.c_str()) != 0) {
    return Fail(SystemError(errno, fmt::format("taking {} out of its place", name)));
  }
  Step("remove-renamed");
  if (auto synced = SyncFolder(root_.number(), name); !synced) {
    return Fail(std::move(synced).error().MaybeDone());
  }
  Step("remove-synced");
  // From here on it is gone; what cannot be removed now is swept at the next start.
  if (options_.options.keep_logs) KeepLogs(trash);
  Step("remove-kept");
  (void)RemoveTree(root_.number(), trash);
  Step("remove-removed");
  return {};
}

// From here on no keeper runs it, whoever has the lock. kNotFound: it was removed meanwhile.
Status LocalHost::CallOff(const InstanceId& id, int folder) const {
  const Status placed = PlaceFile(folder, std::string(kRunFile), kCalledOff, 0600);
  if (!placed && placed.error().code != Code::kAlreadyExists) return placed;
  Step("remove-called-off");
  struct stat held{};
  struct stat named{};
  const bool in_place =
      ::fstat(folder, &held) == 0 &&
      ::fstatat(root_.number(), id.text().c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  if (in_place) return {};
  return Fail(NotFound(fmt::format("instance {} was removed meanwhile", id.text())));
}

Result<Leaving> LocalHost::Bury(const InstanceId& id, int folder, Urge urge) {
  auto lock = TakeLock(id, folder);
  if (!lock && lock.error().code == Code::kNotFound) return Leaving::kAlreadyGone;
  if (!lock) return Fail(std::move(lock).error());
  if (!lock->is_open()) {
    // Somebody is about to start it, or has just removed it, and has had the time for that.
    if (urge != Urge::kKill) return Leaving::kAlive;
    const Status off = CallOff(id, folder);
    if (!off && off.error().code == Code::kNotFound) return Leaving::kAlreadyGone;
    if (!off) return Fail(off.error());
  }
  // Nobody can start it any more; but somebody may have, before it was ours.
  ASSIGN_OR_RETURN(const History history, ReadHistory(folder));
  ASSIGN_OR_RETURN(const Tree tree, FindTree(id.text(), history.Keeper()));
  if (tree.keeper_alive || !tree.members.empty()) return Leaving::kAlive;
  Step("remove-locked");
  const Status discarded = Discard(id.text());
  if (!discarded && discarded.error().code == Code::kNotFound) return Leaving::kAlreadyGone;
  if (!discarded) return Fail(discarded.error());
  return Leaving::kGone;
}

ProviderResult<LeavingReport> LocalHost::Remove(const ProviderTarget& target, Urge urge) {
  if (auto checked = CheckTarget(target); !checked) return Mismatch(std::move(checked).error());
  const InstanceId& id = target.instance_id;
  const auto folder = OpenInstance(id);
  if (!folder && folder.error().code == Code::kNotFound) {
    return LeavingReport{.state = Leaving::kAlreadyGone};
  }
  if (!folder) return Refuse(folder.error());
  const auto meta = ReadMeta(folder->number());
  if (!meta && meta.error().code == Code::kNotFound) {
    return Refuse(NoMeta(id));
  }
  if (!meta) return Refuse(meta.error());
  if (auto owner = CheckOwner(*meta, id); !owner) return Refuse(std::move(owner).error());
  const auto history = ReadHistory(folder->number());
  if (!history) return Refuse(history.error());
  if (history->this_boot && !history->same_numbers && !history->run->exit_code) {
    return Refuse(FailedPrecondition(fmt::format(
        "instance {} runs in another pid namespace: only a server there can end it", id.text())));
  }
  const auto keeper = history->Keeper();
  const auto tree = FindTree(id.text(), keeper);
  if (!tree) return Refuse(tree.error());
  Step("remove-found");
  if (!tree->keeper_alive && tree->members.empty()) {
    const auto buried = Bury(id, folder->number(), urge);
    if (!buried) return Refuse(buried.error());
    return LeavingReport{.state = *buried};
  }
  if (urge != Urge::kWait) {
    const int signal = urge == Urge::kKill ? SIGKILL : SIGTERM;
    for (const Process& process : tree->members) SendSignal(process.name, signal);
    // The keeper goes by itself after the last of them.
    if (urge == Urge::kKill && tree->members.empty()) SendSignal(*keeper, SIGKILL);
  }
  Step("remove-signalled");
  return LeavingReport{.state = Leaving::kAlive,
                       .keeper = tree->keeper_alive ? keeper : std::nullopt};
}

// Takes the lock of what a crash has left; what is locked is being made or removed right now.
Status LocalHost::SweepOne(const std::string& name) {
  const auto folder = OpenFolder(root_.number(), name);
  if (!folder) {
    return folder.error().code == Code::kNotFound ? Status() : Status(Fail(folder.error()));
  }
  auto lock = OpenFile(folder->number(), std::string(kLockFile), O_RDWR);
  if (!lock && lock.error().code == Code::kNotFound && name.starts_with(kNewPrefix)) {
    // Just made, or left empty: only an empty folder can be removed this way.
    if (::unlinkat(root_.number(), name.c_str(), AT_REMOVEDIR) == 0 || errno != ENOTEMPTY) {
      return {};
    }
    // The lock is the first thing in it: whoever has just made it has one now. What is full and has
    // none was being removed when its remover died.
    lock = OpenFile(folder->number(), std::string(kLockFile), O_RDWR);
  }
  if (lock && ::flock(lock->number(), LOCK_EX | LOCK_NB) != 0) return {};
  if (name.starts_with(kTrashPrefix) && options_.options.keep_logs) KeepLogs(name);
  return RemoveTree(root_.number(), name);
}

Status LocalHost::Sweep() {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(root_.number()));
  for (const std::string& name : names) {
    if (!name.starts_with(kNewPrefix) && !name.starts_with(kTrashPrefix)) continue;
    // What cannot be removed is in nobody's way.
    (void)SweepOne(name);
  }
  return {};
}

}  // namespace nstance::provider_local
