// Journals: any bytes give a journal or an error that says why; a journal that was read is written
// and read back as the same, and so is what a new leader makes of it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "core/journal.h"
#include "core/journal_table.h"

namespace nstance {
namespace {

void CheckFixedPoint(const Journal& journal, const JournalIdentity& identity) {
  const std::string written = EncodeJournal(journal);
  const Result<Journal> again = DecodeJournal(written, identity);
  CHECK(again.has_value(), "{}: {}", written, again.error().message);
  CHECK(EncodeJournal(*again) == written, "{}", written);
}

void Check(std::string_view bytes) {
  const JournalIdentity identity{.cluster = ClusterId::Parse("example-cluster").value(),
                                 .shard = ShardId::Parse("dc1-zone-a").value()};
  Result<Journal> journal = DecodeJournal(bytes, identity);
  if (!journal) {
    CHECK(!journal.error().message.empty());
    return;
  }
  CheckFixedPoint(*journal, identity);
  const JournalStamp stamp{.holder = "s/1", .write_id = "w", .at = Timestamp()};
  // Numbers at the very end of their range have no successor.
  constexpr std::int64_t kRoom = std::int64_t{1} << 52U;
  if (journal->epoch > kRoom || journal->seq > kRoom) return;
  CheckFixedPoint(TakeOver(*journal, stamp), identity);
  const JournalTable table(*std::move(journal), {});
  CheckFixedPoint(table.Plan({}, stamp).table.journal(), identity);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
