// `nstance-admin store reset-journal`.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/cluster_view.h"
#include "admin/storage/fields.h"
#include "admin/storage/store_commands.h"
#include "base/json.h"
#include "base/text.h"
#include "core/journal.h"
#include "core/lease.h"
#include "core/object_layout.h"
#include "core/stored_object.h"

namespace nstance::admin {
namespace {

constexpr Duration kLeastWatch = Duration::Seconds(10);

// The highest epoch and seq of everything that was looked at.
struct Traces {
  JournalTraces highest = {};
  std::size_t objects = 0;
  std::vector<std::string> unreadable = {};

  void See(std::int64_t epoch, std::int64_t seq) {
    highest.highest_epoch = std::max(highest.highest_epoch, epoch);
    highest.highest_seq = std::max(highest.highest_seq, seq);
  }
};

std::optional<std::int64_t> IntegerIn(const json::Value& object, std::string_view key) {
  const json::Value* value = object.Find(key);
  if (value == nullptr || value->if_integer() == nullptr) return std::nullopt;
  const std::int64_t number = *value->if_integer();
  if (number < 0 || number >= kMaxStoredInteger) return std::nullopt;
  return number;
}

// What a damaged object still tells counts: an epoch that is too high does no harm.
void LookAtJson(const ObjectKey& key, std::string_view bytes, Traces& traces) {
  ++traces.objects;
  const Result<json::Value> value = json::Parse(bytes);
  if (!value.has_value() || value->if_object() == nullptr) {
    traces.unreadable.push_back(key.text());
    return;
  }
  traces.See(IntegerIn(*value, "epoch").value_or(0), IntegerIn(*value, "seq").value_or(0));
}

// "// nstance epoch=3 seq=17 ...": the stamp counts also when a person has edited what follows.
void LookAtGroups(std::string_view bytes, Traces& traces) {
  ++traces.objects;
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const auto number = [&](std::string_view name) -> std::int64_t {
    const std::size_t at = line.find(name);
    if (at == std::string_view::npos) return 0;
    std::int64_t value = 0;
    const char* begin = line.data() + at + name.size();
    const auto read = std::from_chars(begin, line.data() + line.size(), value);
    return read.ec == std::errc() && value >= 0 && value < kMaxStoredInteger ? value : 0;
  };
  if (line.starts_with("// nstance ")) traces.See(number(" epoch="), number(" seq="));
}

class Reset final {
 public:
  Reset(const StoreResetJournal& command, const StorageDeps& deps)
      : command_(command), deps_(deps), store_(deps) {}

  struct Done {
    Journal journal;
    Traces traces;
  };
  Result<Done> Do();

 private:
  // Whether the lease stands still. kFailedPrecondition: somebody leads.
  [[nodiscard]] Status WatchLease();
  [[nodiscard]] Result<Traces> Look();
  [[nodiscard]] ObjectKey Key(std::string_view folder, std::string_view suffix) const {
    return KnownKey(fmt::format("{}/{}{}", folder, command_.shard.text(), suffix));
  }
  // Empty: there is none.
  [[nodiscard]] Result<std::optional<Object>> Find(const ObjectKey& key);

  const StoreResetJournal& command_;
  const StorageDeps& deps_;
  StoreSession store_;
};

Result<std::optional<Object>> Reset::Find(const ObjectKey& key) {
  Result<Object> object = store_.Get(key);
  if (object.has_value()) return *std::move(object);
  if (object.error().code == Code::kNotFound) return std::nullopt;
  return Fail(std::move(object).error());
}

Status Reset::WatchLease() {
  const ObjectKey key = Key("leader", ".json");
  ASSIGN_OR_RETURN(const std::optional<Object> before, Find(key));
  Duration watch = kLeastWatch;
  std::string holder = "somebody";
  if (before) {
    const DecodedLease lease = DecodeLease(before->bytes);
    if (lease.form == LeaseForm::kValid) {
      holder = fmt::format("{} ({})", lease.record.leader_id, lease.record.leader_addr);
      if (!lease.record.released) watch = std::max(watch, lease.record.lease);
    }
  }
  deps_.note(fmt::format("Watching the lease of shard {} for {}.", command_.shard.text(),
                         FormatDuration(watch)));
  Pause(deps_.turns, deps_.loop, watch);
  ASSIGN_OR_RETURN(const std::optional<Object> after, Find(key));
  const bool same = before.has_value() == after.has_value() &&
                    (!before || (before->version == after->version &&  //
                                 before->bytes == after->bytes));
  if (same) return {};
  return Fail(FailedPrecondition(
      fmt::format("shard {} has a leader: its lease has changed within {}, held by {}. Stop the "
                  "shard's servers first",
                  command_.shard.text(), FormatDuration(watch), holder)));
}

Result<Traces> Reset::Look() {
  Traces traces;
  for (const std::string& prefix :
       {InstanceRecordPrefix(command_.shard), fmt::format("certlog/{}/", command_.shard.text())}) {
    ASSIGN_OR_RETURN(const std::vector<ObjectKey> keys, store_.List(prefix));
    RETURN_IF_ERROR(store_.GetAll(keys, [&](const ObjectKey& key, const Object& object) {
      LookAtJson(key, object.bytes, traces);
    }));
  }
  ASSIGN_OR_RETURN(const std::optional<Object> groups, Find(Key("groups", ".jsonc")));
  if (groups) LookAtGroups(groups->bytes, traces);
  return traces;
}

Result<Reset::Done> Reset::Do() {
  ASSIGN_OR_RETURN(const ClusterView view, ReadCluster(store_, command_.cluster));
  const ObjectKey key = Key("journal", ".json");
  ASSIGN_OR_RETURN(const std::optional<Object> present, Find(key));
  RETURN_IF_ERROR(WatchLease());
  ASSIGN_OR_RETURN(Traces traces, Look());
  if (present) LookAtJson(key, present->bytes, traces);
  const JournalStamp stamp = {
      .holder = fmt::format("nstance-admin/{}", HexEncode(deps_.random.Array<8>())),
      .write_id = store_.NewWriteId(),
      .at = deps_.loop.WallNow()};
  Journal journal =
      ResetJournal({.cluster = view.cluster, .shard = command_.shard}, traces.highest, stamp);
  PutCondition condition = IfAbsent{};
  if (present) condition = IfVersion{present->version};
  const Result<ObjectVersion> put =
      store_.Put({.key = key, .bytes = EncodeJournal(journal), .condition = std::move(condition)});
  if (!put.has_value()) {
    if (put.error().code != Code::kAborted) return Fail(put.error());
    return Fail(FailedPrecondition(
        "the journal has changed meanwhile: a server runs; stop the shard's servers first"));
  }
  return Done{.journal = std::move(journal), .traces = std::move(traces)};
}

}  // namespace

Ending Run(const StoreResetJournal& command, const CommonFlags& common, const StorageDeps& deps) {
  const Result<Reset::Done> done = Reset(command, deps).Do();
  if (!done.has_value()) return Failed(done.error(), common.output);
  std::vector<std::string> warnings;
  warnings.reserve(done->traces.unreadable.size());
  for (const std::string& key : done->traces.unreadable) {
    warnings.push_back(key + " is not readable: its epoch is not known");
  }
  return Told({{"shard", command.shard.text()},
               {"epoch", fmt::format("{}", done->journal.epoch)},
               {"seq", fmt::format("{}", done->journal.seq)},
               {"looked_at", fmt::format("{} objects", done->traces.objects)}},
              warnings, common);
}

}  // namespace nstance::admin
