// StoreProbeRunner: asks a store whether it honours conditional writes (core/store_probe.h).
//
// Several endpoints of one bucket are probed together: rivals are spread over them, and a write
// through one is read from all. A probe without trouble takes about 40 round trips and writes some
// 10 small objects below `probe/{shard}/`; it deletes them at the end, whatever the verdict. When
// the runner is destroyed on the way they stay.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "core/store_probe.h"
#include "ports/loop.h"
#include "ports/object_store.h"
#include "ports/pending.h"
#include "ports/secure_random.h"

namespace nstance {

class StoreProbeRunner final {
 public:
  struct Deps {
    Loop& loop;
    // At least one; all must outlive the runner.
    std::vector<std::reference_wrapper<ObjectStore>> endpoints;
    SecureRandom& random;
    Prng& jitter;
  };
  using Done = std::move_only_function<void(StoreProbeReport)>;

  // `done` is called once, on the loop, never from inside Start(), and may destroy the runner.
  StoreProbeRunner(Deps deps, std::string shard, Done done);
  StoreProbeRunner(const StoreProbeRunner&) = delete;
  StoreProbeRunner& operator=(const StoreProbeRunner&) = delete;

  void Start() { Do(machine_.Start(deps_.loop.Now())); }

 private:
  void Do(StoreProbe::Command command);
  [[nodiscard]] Pending Send(std::size_t number, StoreProbe::Request request);
  void Hand(StoreProbe::Answer answer);

  Deps deps_;
  StoreProbe machine_;
  Done done_;
  std::vector<Pending> pendings_;
};

}  // namespace nstance
