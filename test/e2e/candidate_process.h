// CandidateProcess: one elector_main as a process of its own, what it has told so far, and what
// may be done to it. Its way to the store is a proxy of its own.
#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/check.h"
#include "base/time.h"
#include "test/support/background_process.h"
#include "test/support/store_peers.h"

namespace nstance::test {

// A line of elector_main.
struct Told {
  Instant at;
  std::string what;
  std::string detail;
  std::int64_t epoch = 0;  // Commits: the first two numbers of the intent's id.
  std::int64_t seq = 0;
};

class CandidateProcess final {
 public:
  struct Config {
    std::string endpoint;
    std::string shard;
    std::string id;
    std::string proxy;  // The name of its way to the store.
    std::string output_file;
  };

  explicit CandidateProcess(Config config) : config_(std::move(config)) {}

  // A process that ran before is killed first.
  void Start(const std::string& bucket_age) {
    process_.reset();
    auto started = BackgroundProcess::Start(
        {.argv = {NSTANCE_ELECTOR_PROGRAM, config_.endpoint, std::string(RunningStore::kBucket),
                  config_.shard, config_.id, bucket_age},
         .environment = {fmt::format("AWS_ACCESS_KEY_ID={}", RunningStore::kAccessKey),
                         fmt::format("AWS_SECRET_ACCESS_KEY={}", RunningStore::kSecretKey),
                         "AWS_REGION=us-east-1"}},
        config_.output_file);
    CHECK(started.has_value(), "{}", started.error().ToString());
    process_ = *std::move(started);
    started_at_ = told_.size();
  }
  void Signal(int number) const { process_->Signal(number); }
  [[nodiscard]] bool Running() { return process_->Running(); }
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] std::string OutputTail() const { return process_->OutputTail(); }

  // Everything that it and those before it have told.
  [[nodiscard]] const std::vector<Told>& Listen() {
    std::ifstream file(config_.output_file, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(read_));
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::size_t whole = text.rfind('\n') + 1;  // A line may be half there.
    std::istringstream lines(text.substr(0, whole));
    for (std::string line; std::getline(lines, line);) told_.push_back(Parse(line));
    read_ += whole;
    return told_;
  }
  // Whether the process that runs now has told this, of what came after `from` lines.
  [[nodiscard]] bool HasTold(std::string_view what, std::size_t from) {
    const std::vector<Told>& told = Listen();
    for (std::size_t i = std::max(from, started_at_); i < told.size(); ++i) {
      if (told[i].what == what) return true;
    }
    return false;
  }

 private:
  static Told Parse(const std::string& line) {
    Told told;
    std::istringstream words(line);
    std::int64_t nanoseconds = 0;
    words >> nanoseconds >> told.what;
    std::getline(words >> std::ws, told.detail);
    CHECK(nanoseconds > 0, "not a line of elector_main: {}", line);
    told.at = Instant::FromClock(Duration::Nanoseconds(nanoseconds));
    if (told.what == "commit") {
      char hyphen = 0;
      std::istringstream(told.detail) >> told.epoch >> hyphen >> told.seq;
    }
    return told;
  }

  Config config_;
  std::unique_ptr<BackgroundProcess> process_;
  std::size_t read_ = 0;
  std::vector<Told> told_;
  std::size_t started_at_ = 0;
};

}  // namespace nstance::test
