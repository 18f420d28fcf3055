#include "admin/storage/secrets_commands.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/print.h"
#include "admin/storage/cluster_view.h"
#include "admin/table.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/envelope.h"

namespace nstance::admin {
namespace {

struct Row {
  std::string name = {};
  std::string old_key = {};  // "legacy" where the form names none.
  std::string new_key = {};
  std::string result = {};  // "resealed", "to reseal", "unchanged", "failed".
  std::string detail = {};
};

class Resealing final {
 public:
  Resealing(const SecretsReseal& command, const StorageDeps& deps)
      : command_(command), deps_(deps), store_(deps) {}

  Result<std::vector<Row>> Do();

 private:
  // Servers open what the configurations name keys for: the present key has to be among those.
  [[nodiscard]] Status CheckPresent(const ClusterView& view, const config::EncryptionKey& present,
                                    const crypto::KeyId& id);
  [[nodiscard]] Row Reseal(const ObjectKey& name, const ClusterId& cluster,
                           const crypto::KeyRing& keys);
  [[nodiscard]] Result<std::string> Seal(const Object& object, const crypto::KeyRing& keys,
                                         const crypto::SealedPlace& place);

  const SecretsReseal& command_;
  const StorageDeps& deps_;
  StoreSession store_;
};

Result<std::vector<Row>> Resealing::Do() {
  ASSIGN_OR_RETURN(const ClusterView view, ReadCluster(store_, command_.cluster));
  for (const StoredConfig& stored : view.configs) {
    if (stored.config.server.secrets.envelope != config::Envelope::kLegacy) continue;
    if (store_.layout() == config::Layout::kNstanceV2) {
      return Fail(FailedPrecondition(fmt::format(
          "{} asks for the legacy envelope, as configurations of layout nstance-v2 do: the Go "
          "servers cannot read v1. When none of them runs any more, set server.secrets.envelope "
          "to v1",
          stored.name)));
    }
    return Fail(FailedPrecondition(
        fmt::format("{} asks for the legacy envelope (server.secrets.envelope), for programs that "
                    "cannot read v1; take that out first",
                    stored.name)));
  }
  ASSIGN_OR_RETURN(const config::EncryptionKey present, ChooseKey(view, command_.cluster));
  ASSIGN_OR_RETURN(const crypto::KeyRing keys, LoadKeys(deps_, view, present));
  RETURN_IF_ERROR(CheckPresent(view, present, keys.current.id()));
  ASSIGN_OR_RETURN(const std::vector<ObjectKey> names, store_.List(view.secrets_prefix));
  std::vector<Row> rows;
  rows.reserve(names.size());
  for (const ObjectKey& name : names) rows.push_back(Reseal(name, view.cluster, keys));
  return rows;
}

Status Resealing::CheckPresent(const ClusterView& view, const config::EncryptionKey& present,
                               const crypto::KeyId& id) {
  for (const StoredConfig& stored : view.configs) {
    const auto& named = stored.config.server.secrets.encryption_key;
    if (!named || *named == present) continue;
    // One that is not on this machine cannot be compared.
    const Result<crypto::EncryptionKey> key = LoadKey(deps_, *named);
    if (!key.has_value() || key->id() == id) continue;
    return Fail(FailedPrecondition(fmt::format(
        "{} names another key ({}) than the one given ({}): its servers could not open what is "
        "sealed with that. Leave --key-provider and --key-source out, or change the configuration "
        "first",
        stored.name, Describe(*named), Describe(present))));
  }
  return {};
}

Result<std::string> Resealing::Seal(const Object& object, const crypto::KeyRing& keys,
                                    const crypto::SealedPlace& place) {
  ASSIGN_OR_RETURN(const crypto::OpenedSecret opened,
                   crypto::Open(keys, AsBytes(object.bytes), {.place = place, .source = {}}));
  ASSIGN_OR_RETURN(const Bytes sealed,
                   crypto::Seal(keys.current, opened.plain.Reveal(),
                                {.place = place,
                                 .form = crypto::EnvelopeForm::kV1,
                                 .nonce = deps_.random.Array<crypto::kEnvelopeNonceSize>()}));
  return std::string(AsText(sealed));
}

Row Resealing::Reseal(const ObjectKey& name, const ClusterId& cluster,
                      const crypto::KeyRing& keys) {
  Row row{.name = name.text(), .new_key = HexEncode(keys.current.id())};
  const auto failed = [&](const Error& error) {
    row.result = "failed";
    row.detail = error.message;
    return row;
  };
  const Result<Object> object = store_.Get(name);
  if (!object.has_value()) return failed(object.error());
  const auto sealed_with = crypto::SealedWith(AsBytes(object->bytes));
  row.old_key = sealed_with ? HexEncode(*sealed_with) : "legacy";
  // Opened also when nothing is to be done: what does not open is to be known.
  Result<std::string> sealed = Seal(*object, keys, {.cluster = cluster, .object = name.text()});
  if (!sealed.has_value()) return failed(sealed.error());
  if (sealed_with == keys.current.id()) {
    row.result = "unchanged";
    return row;
  }
  if (command_.rehearsal == Rehearsal::kDryRun) {
    row.result = "to reseal";
    return row;
  }
  const Result<ObjectVersion> put = store_.Put(
      {.key = name, .bytes = *std::move(sealed), .condition = IfVersion{object->version}});
  if (!put.has_value()) return failed(put.error());
  row.result = "resealed";
  return row;
}

std::string JsonOf(const std::vector<Row>& rows) {
  json::Array secrets;
  for (const Row& row : rows) {
    json::Value one = json::Value::Map({});
    one.Set("name", json::Value::String(row.name));
    one.Set("old_key_id", json::Value::String(row.old_key));
    one.Set("new_key_id", json::Value::String(row.new_key));
    one.Set("result", json::Value::String(row.result));
    if (!row.detail.empty()) one.Set("error", json::Value::String(row.detail));
    secrets.push_back(std::move(one));
  }
  json::Value out = json::Value::Map({});
  out.Set("secrets", json::Value::List(std::move(secrets)));
  return json::Write(out, {.indent = 2}) + "\n";
}

std::string TableOf(const std::vector<Row>& rows) {
  Table table({{"SECRET"}, {"OLD_KEY"}, {"NEW_KEY"}, {"RESULT"}, {"DETAIL"}});
  for (const Row& row : rows) {
    table.Add({row.name, row.old_key, row.new_key, row.result, row.detail});
  }
  return table.Text(Paint::kPlain);
}

}  // namespace

Ending Run(const SecretsReseal& command, const CommonFlags& common, const StorageDeps& deps) {
  const Result<std::vector<Row>> rows = Resealing(command, deps).Do();
  if (!rows.has_value()) return Failed(rows.error(), common.output);
  std::size_t failed = 0;
  for (const Row& row : *rows) failed += row.result == "failed" ? 1 : 0;
  Ending ending;
  if (failed > 0) {
    ending = Failed(fmt::format("{} of {} secrets were not resealed and stay as they are; old keys "
                                "are named by server.secrets.old_encryption_keys",
                                failed, rows->size()),
                    "FAILED_PRECONDITION", common.output);
  }
  if (common.output == Output::kJson) {
    ending.out = JsonOf(*rows);
  } else {
    ending.out = rows->empty() ? "there are no secrets\n" : TableOf(*rows);
  }
  return ending;
}

}  // namespace nstance::admin
