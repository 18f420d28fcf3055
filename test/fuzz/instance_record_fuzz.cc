// Instance records: any bytes give a record or an error that says where; a record that was read is
// written and read back as the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "core/instance_record.h"

namespace nstance {
namespace {

void Check(std::string_view bytes) {
  const RecordKey key{.tenant = TenantId::Parse("prod").value(),
                      .instance_id = ParsePuidv7("knc06bgm7733st2576nx5jht4ecjw").value()};
  Result<InstanceRecord> record = DecodeInstanceRecord(bytes, key);
  if (!record) {
    CHECK(record.error().message.starts_with("corrupt instance record: "), "{}",
          record.error().message);
    return;
  }
  // Another program's record is written with a stamp of ours.
  if (record->epoch == 0) record->epoch = 1;
  const std::string written = EncodeInstanceRecord(*record);
  const Result<InstanceRecord> again = DecodeInstanceRecord(written, key);
  CHECK(again.has_value(), "{}: {}", written, again.error().message);
  CHECK(*again == *record, "{}", written);
  CHECK(EncodeInstanceRecord(*again) == written, "{}", written);
}

}  // namespace
}  // namespace nstance

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nstance::Check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
