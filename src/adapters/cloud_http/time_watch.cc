#include "adapters/cloud_http/time_watch.h"

#include <string>

#include "adapters/cloud_http/http_date.h"

namespace nstance::cloud {

Pending TimeWatch::Watch(ObjectStore::TimeTold told) {
  told_ = std::make_shared<ObjectStore::TimeTold>(std::move(told));
  return Pending([weak = std::weak_ptr(told_)] {
    if (const auto held = weak.lock()) *held = nullptr;
  });
}

void TimeWatch::Tell(const Result<HttpResponse>& answer) const {
  if (told_ == nullptr || *told_ == nullptr || !answer.has_value()) return;
  const std::string* date = answer->Header("date");
  if (date == nullptr) return;
  if (const auto time = ParseHttpDate(*date)) (*told_)(*time);
}

}  // namespace nstance::cloud
