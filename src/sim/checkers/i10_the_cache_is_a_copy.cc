// I-10, at quiescence: the leader's cache on disk is what a rebuild from storage would give.
//
// Of instances: one row for each record of the shard, with what the record says; times of the last
// look at the provider are not compared. Of groups: one row for each group, with its size. A cache
// that was lost under a running process is nobody's mistake: the next leadership writes it anew.
#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

// A change reaches the disk a moment later.
constexpr Duration kWrittenBehind = Duration::Seconds(5);

class I10TheCacheIsACopy final : public Checker {
 public:
  explicit I10TheCacheIsACopy(CheckerWorld& world) : Checker("I-10", world) {}

  void AtQuiet() override {
    for (const ServerStanding& server : world().Servers()) {
      if (!server.acting || !server.leads || !world().InCore(server.shard)) continue;
      const SimCacheDisk* cache = world().CacheOf(server.name);
      if (cache == nullptr) continue;
      JudgeInstances(server, *cache);
      JudgeGroups(server, *cache);
    }
  }

 private:
  void JudgeInstances(const ServerStanding& server, const SimCacheDisk& cache) {
    const auto& records = world().truth().Of(server.shard).records;
    for (const auto& [id, record] : records) {
      if (record.last_updated + kWrittenBehind > world().wall()) continue;
      const auto row = cache.instances.find(id);
      if (row == cache.instances.end()) {
        Complain(server, fmt::format("{} ({}) has no row", id.text(), PhaseName(record.phase)));
      } else if (const std::string_view field = Differs(row->second, record); !field.empty()) {
        Complain(server, fmt::format("{}: {} differs from its record", id.text(), field));
      }
    }
    for (const auto& [id, row] : cache.instances) {
      if (!records.contains(id)) Complain(server, id.text() + " has a row and no record");
    }
  }

  void JudgeGroups(const ServerStanding& server, const SimCacheDisk& cache) {
    const auto sizes = world().DesiredSizes(server.shard);
    for (const auto& [name, size] : sizes) {
      const auto row = cache.groups.find(name);
      if (row == cache.groups.end()) {
        Complain(server, "group " + NameOf(name) + " has no row");
      } else if (row->second.size != size) {
        Complain(server, fmt::format("group {} has size {}, its row {}", NameOf(name), size,
                                     row->second.size));
      }
    }
    for (const auto& [name, row] : cache.groups) {
      if (!sizes.contains(name)) Complain(server, "group " + NameOf(name) + " is over");
    }
  }

  // The first field that differs; empty: none.
  static std::string_view Differs(const cache::InstanceRow& row, const InstanceRecord& record) {
    if (row.tenant != record.tenant || row.group != record.group) return "the group";
    if (row.phase != PhaseName(record.phase)) return "the phase";
    if (row.on_demand != record.on_demand) return "on demand or not";
    if (row.provider_id != record.provider_instance_id) return "the provider id";
    if (row.ip4 != record.private_ipv4 || row.ip6 != record.private_ipv6) return "an address";
    if (row.hostname != record.hostname) return "the hostname";
    if (row.subnet_id != record.subnet_id) return "the subnet";
    if (row.nonce_sha256 != record.nonce_sha256) return "the token";
    if (row.infra_config_hash != record.infra_config_hash) return "the configuration";
    if (row.cert_serial != record.cert_serial) return "the serial";
    if (row.registered_at != record.registered_at) return "the registration";
    return {};
  }

  void Complain(const ServerStanding& server, const std::string& what) {
    Violated(fmt::format("cache of {}: {}", server.name, what));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI10(CheckerWorld& world) {
  return std::make_unique<I10TheCacheIsACopy>(world);
}

}  // namespace nstance::sim
