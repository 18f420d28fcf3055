// Tmux: a terminal of a known size with a program in it, as a person sees it.
//
//   Tmux tmux(folder, {.columns = 80, .rows = 24, .script = "exec program"});
//   ASSERT_TRUE(tmux.Start()) << ...;
//   tmux.Screen(), tmux.Type("q"), tmux.Ask("#{alternate_on}")
//
// A server of its own on a socket of its own, ended when the object goes.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "test/support/process.h"

namespace nstance::test {

class Tmux final {
 public:
  struct Options {
    int columns = 80;
    int rows = 24;
    std::string script = {};  // Of sh.
    std::vector<std::string> environment = {};
  };

  Tmux(std::string folder, Options options)
      : folder_(std::move(folder)), options_(std::move(options)) {}
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;
  ~Tmux() { (void)Run({"kill-server"}); }

  [[nodiscard]] Status Start() const {
    std::ofstream(folder_ + "/script.sh") << options_.script;
    ASSIGN_OR_RETURN(
        const ProcessOutput started,
        Run({"-f", "/dev/null", "new-session", "-d", "-x", std::to_string(options_.columns), "-y",
             std::to_string(options_.rows), "sh " + folder_ + "/script.sh"}));
    if (started.exit_code != 0) return Fail(Unavailable(started.ToString()));
    return {};
  }
  // Its lines, without blanks at their ends.
  [[nodiscard]] std::string Screen() const { return OutputOf({"capture-pane", "-p"}); }
  // The value of a format of tmux(1).
  [[nodiscard]] std::string Ask(const std::string& format) const {
    return OutputOf({"display-message", "-p", format});
  }
  // A key by its name in tmux(1), or a character.
  void Press(const std::string& key) const { (void)Run({"send-keys", key}); }

 private:
  [[nodiscard]] std::string OutputOf(std::vector<std::string> words) const {
    const auto result = Run(std::move(words));
    return result ? result->out : result.error().ToString();
  }
  [[nodiscard]] Result<ProcessOutput> Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"tmux", "-S", folder_ + "/tmux.sock"});
    return RunProcess({.argv = std::move(words), .environment = options_.environment});
  }

  std::string folder_;
  Options options_;
};

}  // namespace nstance::test
