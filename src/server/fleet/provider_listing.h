// ProviderListing: one complete listing of the provider, page by page. All of it or an error.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ports/provider.h"

namespace nstance {

class ProviderListing final {
 public:
  using Done = std::move_only_function<void(ProviderResult<std::vector<ProviderInstance>>)>;
  // Makes the call's frame (epoch, deadline) for each page.
  using Frame = std::move_only_function<ProviderCall()>;

  // `done` is called once, never from inside Start(), and may destroy this object.
  ProviderListing(Provider& provider, Frame frame, Done done)
      : provider_(provider), frame_(std::move(frame)), done_(std::move(done)) {}

  void Start() { NextPage({}); }

 private:
  void NextPage(std::string token);
  void OnPage(ProviderResult<ProviderPage> page);
  void Finish(ProviderResult<std::vector<ProviderInstance>> result);

  // A provider that never ends its pages is broken.
  static constexpr std::size_t kMaxPages = 10'000;

  Provider& provider_;
  Frame frame_;
  Done done_;
  std::vector<ProviderInstance> found_;
  std::size_t pages_ = 0;
  Pending call_;
};

}  // namespace nstance
