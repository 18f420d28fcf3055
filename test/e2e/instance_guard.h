// InstanceGuard: no process of an instance outlives the test that started it.
//
// When it goes, every process of the instances below its folder is killed: those whose environment
// says NSTANCE_LOCAL_ID and that work below the folder, or are named after it. Should the test
// itself be killed, a small process that waits for that does the same.
#pragma once

#include <string>
#include <vector>

#include "adapters/real_loop/real_loop.h"

namespace nstance::test {

struct InstanceProcess {
  int pid = 0;
  std::string instance_id = {};
  friend bool operator==(const InstanceProcess&, const InstanceProcess&) = default;
};

// Processes whose environment has NSTANCE_LOCAL_ID, and whose working folder or one of whose
// arguments (the keepers') lies below `root`.
[[nodiscard]] std::vector<InstanceProcess> InstanceProcesses(const std::string& root);

class InstanceGuard final {
 public:
  // To be made before the first thread. `loop` outlives it.
  InstanceGuard(RealLoop& loop, std::string root);
  InstanceGuard(const InstanceGuard&) = delete;
  InstanceGuard& operator=(const InstanceGuard&) = delete;
  ~InstanceGuard();

 private:
  RealLoop& loop_;
  std::string root_;
  int guarded_ = -1;  // While it is open, this process lives.
  int guard_ = -1;
};

}  // namespace nstance::test
