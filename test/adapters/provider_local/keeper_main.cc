// The keeper of the tests' instances: a program that is nothing else. Arguments: the folder, and in
// front of it, for the tests that kill it, `--die-at STEP`.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/provider_local/keeper.h"

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  std::string fatal;
  if (words.size() == 3 && words[0] == "--die-at") fatal = words[1];
  if (words.empty()) return 2;
  const int code = nstance::provider_local::RunKeeper(
      {.folder = words.back(), .console_limit = 4'096, .step = [&](std::string_view step) {
         if (step == fatal) (void)::kill(::getpid(), SIGKILL);
       }});
  // Nothing is looked for at the end: the process is thrown away whole.
  std::_Exit(code);
}
