#include "server/fleet/census.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace nstance {
namespace {

Instance Some(Prng& prng, int number) {
  const std::string tenants[] = {"default", "prod"};
  const std::string groups[] = {"web", "db"};
  const std::string subnets[] = {"", "s1", "s2"};
  Puidv7Generator::Entropy entropy{};
  entropy[0] = static_cast<std::uint8_t>(number);
  Puidv7Generator ids;
  Instance instance = {.id = ids.Next("wrk", Timestamp::FromUnix(1'700'000'000 + number), entropy),
                       .tenant = *TenantId::Parse(tenants[prng.Below(2)]),
                       .group = *GroupKey::Parse(groups[prng.Below(2)])};
  instance.subnet = subnets[prng.Below(3)];
  if (prng.Chance(1, 2)) {
    instance.vm_since = Instant::FromClock(Duration::Seconds(static_cast<int>(prng.Below(5))));
  }
  if (prng.Chance(1, 3)) {
    instance.create = OpenIntent{.intent = {.id = {},
                                            .kind = IntentKind::kCreate,
                                            .instance_id = instance.id,
                                            .tenant = instance.tenant,
                                            .group = instance.group,
                                            .opened_at = {}}};
  }
  if (prng.Chance(1, 2)) {
    instance.stored = StoredRecord{
        .record = {.instance_id = instance.id,
                   .tenant = instance.tenant,
                   .group = instance.group,
                   .phase = prng.Chance(1, 3) ? InstancePhase::kGone : InstancePhase::kRegistered},
        .version = {}};
  }
  return instance;
}

struct Counted {
  int population = 0;
  int creating = 0;
  std::size_t live = 0;
  std::size_t late = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};

// Ten instances change two hundred times, in any way: the counts are those of a fresh look.
TEST(CensusTest, CountsAreThoseOfAFreshLook) {
  const TenantId tenant = *TenantId::Parse("prod");
  const GroupKey group = *GroupKey::Parse("web");
  const Instant moment = Instant::FromClock(Duration::Seconds(2));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Prng prng(seed);
    std::map<int, Instance> table;
    Census census;
    for (int step = 0; step < 200; ++step) {
      const int number = static_cast<int>(prng.Below(10));
      const Instance changed = Some(prng, number);
      if (prng.Chance(1, 4)) {
        table.erase(number);
        census.Remove(changed.id);
      } else {
        table.insert_or_assign(number, changed);
        census.Set(changed);
      }
      Counted fresh;
      for (const auto& [key, one] : table) {
        if (one.live() && one.tenant == tenant) ++fresh.population;
        if (one.create && one.tenant == tenant && one.group == group) ++fresh.creating;
        if (!one.live() || one.subnet != "s1") continue;
        ++fresh.live;
        if (!one.vm_since || *one.vm_since >= moment) ++fresh.late;
      }
      const Counted kept = {.population = census.Population(tenant),
                            .creating = census.OpenCreations({tenant, group}),
                            .live = census.LiveIn("s1"),
                            .late = census.NewIn("s1", moment)};
      ASSERT_EQ(kept, fresh) << "seed " << seed << " step " << step;
    }
    Census again;
    for (const auto& [key, one] : table) again.Set(one);
    EXPECT_EQ(again, census) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nstance
