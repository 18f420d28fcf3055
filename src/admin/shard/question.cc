#include "admin/shard/question.h"

#include <utility>

#include <fmt/format.h>

#include "admin/print.h"

namespace nstance::admin {

Pending AskYesNo(Session& session, std::string_view question,
                 std::move_only_function<void(bool yes)> answered) {
  session.terminal().Write(Terminal::Stream::kErr, fmt::format("{} [y/N] ", question));
  return session.terminal().ReadLine(
      [answered = std::move(answered)](const std::optional<std::string>& line) mutable {
        answered(line && (*line == "y" || *line == "Y" || *line == "yes"));
      });
}

Ending NobodyToAsk(const Session& session) {
  Ending ending = Failed("nobody can be asked, since this is no terminal: confirm with --yes",
                         "INVALID_ARGUMENT", session.common().output);
  ending.exit_code = kExitBadCommandLine;
  return ending;
}

Ending NotConfirmed() { return {.exit_code = kExitError, .err = "Nothing was changed.\n"}; }

}  // namespace nstance::admin
