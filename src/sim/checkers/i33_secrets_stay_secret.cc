// I-33: no token, private key or encryption key appears in logs, metrics, events or tags, or in
// storage unless it is sealed.
//
// Secrets are known by their form, whoever made them: three parts of base64url that begin as a JWT
// does, the first line of a private key in PEM, and the bytes of the world's encryption key. Logs
// are heard in one world of eight. What a provider gets as user data is for the machine itself, and
// no tag.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/checkers/checkers.h"
#include "sim/checkers/seen.h"

namespace nstance::sim {
namespace {

constexpr std::size_t kLeastPart = 16;  // Of a token: shorter is a word with dots.

bool IsOfToken(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '_';
}

// The length of the run of token letters that `text` begins with.
std::size_t RunOf(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, IsOfToken) - text.begin());
}

bool BeginsWithToken(std::string_view text) {
  for (int part = 0; part < 3; ++part) {
    const std::size_t length = RunOf(text);
    if (length < kLeastPart) return false;
    text.remove_prefix(length);
    if (part == 2) return true;
    if (!text.starts_with('.')) return false;
    text.remove_prefix(1);
  }
  return true;
}

// What is in there; empty: nothing secret.
std::string_view SecretIn(std::string_view text) {
  if (text.contains("PRIVATE KEY-----")) return "a private key";
  static const std::string kWorldKey(32, 'k');  // server_node.cc.
  if (text.contains(kWorldKey)) return "the encryption key";
  for (std::size_t at = text.find("eyJ"); at != std::string_view::npos;
       at = text.find("eyJ", at + 1)) {
    if (BeginsWithToken(text.substr(at))) return "a registration token";
  }
  return {};
}

class I33SecretsStaySecret final : public Checker {
 public:
  explicit I33SecretsStaySecret(CheckerWorld& world) : Checker("I-33", world) {}

  void OnChange(const SimChange& change) override {
    if (change.after == nullptr || change.key.text().starts_with("leader/")) return;
    const std::string_view found = SecretIn(change.after->bytes);
    if (!found.empty()) {
      Violated(fmt::format("{} wrote {} into {}", IsByHand(change) ? "somebody" : change.process,
                           found, change.key.text()));
    }
  }

  void OnVm(const SimVmChange& change) override {
    if (change.before) return;
    const ProviderInstance& vm = change.vm->shown;
    if (change.vm->request) {
      for (const auto& [name, value] : change.vm->request->tags) {
        const std::string_view found = SecretIn(value);
        if (!found.empty())
          Violated(fmt::format("{} is in tag {} of {}", found, name, vm.shown_id));
      }
    }
    for (const std::string* tag :
         {&vm.shown_id, &vm.cluster_id, &vm.shard, &vm.tenant, &vm.group}) {
      const std::string_view found = SecretIn(*tag);
      if (!found.empty()) Violated(fmt::format("{} is in a tag of {}", found, vm.shown_id));
    }
  }

  void OnLog(const log::Record& record) override {
    Judge(record, record.message);
    for (const std::span<const log::Field> fields : {record.bound, record.fields}) {
      for (const log::Field& field : fields) {
        if (const auto* text = std::get_if<std::string>(&field.value())) Judge(record, *text);
      }
    }
  }

  void OnInstanceEvent(const TenantId& operator_of, const ShardId& /*shard*/,
                       const api::InstanceEvent& event) override {
    for (const std::string* text : {&event.reason, &event.status, &event.drain_id}) {
      const std::string_view found = SecretIn(*text);
      if (found.empty()) continue;
      Violated(fmt::format("the operator of {} was told {} in an event of {}", operator_of.text(),
                           found, event.instance_id));
    }
  }

  void OnAnswer(const OperatorAnswer& answer) override {
    if (answer.status.has_value()) return;
    const std::string_view found = SecretIn(answer.status.error().message);
    if (found.empty()) return;
    Violated(fmt::format("an error told {} {}", answer.tenant.text(), found));
  }

  void OnMetric(std::string_view name) override {
    const std::string_view found = SecretIn(name);
    if (!found.empty()) Violated(fmt::format("{} is in the labels of a metric", found));
  }

 private:
  void Judge(const log::Record& record, std::string_view text) {
    const std::string_view found = SecretIn(text);
    if (found.empty()) return;
    Violated(fmt::format("{} logged {} (\"{}\")", record.component, found, record.message));
  }
};

}  // namespace

std::unique_ptr<Checker> MakeI33(CheckerWorld& world) {
  return std::make_unique<I33SecretsStaySecret>(world);
}

}  // namespace nstance::sim
