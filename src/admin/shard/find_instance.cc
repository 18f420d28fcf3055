#include "admin/shard/find_instance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/print.h"
#include "admin/printable.h"
#include "admin/shard/words.h"

namespace nstance::admin {

Result<FoundInstance> PickFound(const Session& session, const std::string& id,
                                const ShardAnswers<api::InstanceStatusResponse>& all) {
  const Error* trouble = nullptr;
  std::size_t troubled = 0;
  std::vector<std::string> asked;
  for (const auto& [server, answer] : all) {
    if (answer) return FoundInstance{.server = server, .status = *answer};
    if (answer.error().code == Code::kNotFound) {
      asked.push_back(session.name(server));
    } else if (trouble == nullptr) {
      trouble = &answer.error();
      troubled = server;
    }
  }
  if (trouble != nullptr) {
    return Fail(trouble->Under(
        fmt::format("{} may be in {}, which could not be asked", id, session.name(troubled))));
  }
  return Fail(NotFound(fmt::format(
      "tenant {} has no instance {} in {}; `nstance-admin instance list` shows those there are",
      session.identity().tenant.text(), id, fmt::join(asked, ", "))));
}

Ending NotThere(const Session& session, const Error& error) {
  Error printable = error;
  if (!session.json()) printable.message = Printable(error.message);
  return Failed(printable, session.common().output);
}

}  // namespace nstance::admin
