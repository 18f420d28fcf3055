// TimeWatch: who is told what time it is by the clock of a store, from the `Date` of its answers.
#pragma once

#include <memory>
#include <utility>

#include "base/result.h"
#include "ports/http.h"
#include "ports/object_store.h"
#include "ports/pending.h"

namespace nstance::cloud {

class TimeWatch final {
 public:
  // ObjectStore::WatchTime().
  [[nodiscard]] Pending Watch(ObjectStore::TimeTold told);
  void Tell(const Result<HttpResponse>& answer) const;

 private:
  std::shared_ptr<ObjectStore::TimeTold> told_;
};

}  // namespace nstance::cloud
