// The guarantees of ports/provider.h as one suite for every provider, real and simulated. The tests
// carry the numbers of the list there.
//
// A provider joins by listing provider_contract.cc among the sources of its test and registering
// itself:
//
//   INSTANTIATE_TEST_SUITE_P(Providers, ProviderContractTest,
//                            testing::Values(ProviderTestKind{.name = "Local", .make = MakeLocal}),
//                            ProviderTestKindName);
//
// Every world begins empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/result.h"
#include "ports/loop.h"
#include "ports/provider.h"

namespace nstance::test {

class ProviderUnderTest {
 public:
  ProviderUnderTest() = default;
  ProviderUnderTest(const ProviderUnderTest&) = delete;
  ProviderUnderTest& operator=(const ProviderUnderTest&) = delete;
  virtual ~ProviderUnderTest() = default;

  virtual Loop& loop() = 0;
  // Ways to one and the same provider, as of several processes; at least two.
  virtual std::vector<Provider*> providers() = 0;
  // Runs the loop until `done` holds; false when that takes too long.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
  virtual void RunFor(Duration length) = 0;
  // All ways are made anew, as after a crash of every process.
  virtual void Restart() = 0;

  // A VM that stays until it is deleted, and counts itself.
  virtual ProviderCreate Request(const InstanceId& id) = 0;
  // How many VMs were ever made for this id.
  virtual std::size_t EverMade(const InstanceId& id) = 0;
  // The VM ends by itself.
  virtual void EndVm(const InstanceId& id) = 0;
  // The provider cannot be asked, and again it can.
  virtual void Break() = 0;
  virtual void Heal() = 0;
  // From now on effects happen but answers do not come; and again they do.
  virtual void LoseAnswers() = 0;
  virtual void GiveAnswers() = 0;
};

struct ProviderTestKind {
  std::string name;
  std::function<std::unique_ptr<ProviderUnderTest>()> make;
};

inline void PrintTo(const ProviderTestKind& kind, std::ostream* out) { *out << kind.name; }

[[nodiscard]] inline std::string ProviderTestKindName(
    const testing::TestParamInfo<ProviderTestKind>& kind) {
  return kind.param.name;
}

class ProviderContractTest : public testing::TestWithParam<ProviderTestKind> {
 public:
  void SetUp() override { world_ = GetParam().make(); }

  [[nodiscard]] ProviderUnderTest& world() { return *world_; }
  [[nodiscard]] Provider& provider(std::size_t way = 0) { return *world_->providers().at(way); }
  [[nodiscard]] Loop& loop() { return world_->loop(); }
  // A new id, later than those before.
  [[nodiscard]] InstanceId NewId();
  [[nodiscard]] ProviderCall Call(Duration patience = Duration::Seconds(60)) {
    return {.epoch = 1, .deadline = loop().Now() + patience};
  }
  // Lets the consistency window pass.
  void Settle();

  // One call, awaited.
  [[nodiscard]] ProviderResult<ProviderInstance> Create(const ProviderCreate& request,
                                                        std::size_t way = 0);
  [[nodiscard]] ProviderResult<ProviderInstance> Get(const InstanceId& id,
                                                     std::string provider_id = {},
                                                     std::size_t way = 0);
  [[nodiscard]] ProviderResult<ProviderDeleted> Delete(const InstanceId& id,
                                                       std::string provider_id = {},
                                                       std::size_t way = 0);
  [[nodiscard]] ProviderResult<ProviderPage> List(ProviderListRequest request, std::size_t way = 0);
  // All pages, without what is deleted; a failure of the test when one fails.
  [[nodiscard]] std::vector<ProviderInstance> ListAll(std::size_t page_size = 500);

  // Create, waited for until it runs and every look must show it.
  [[nodiscard]] ProviderInstance MakeVm(const InstanceId& id);
  // Looks until the provider says so: gone = not found, or kDeleted.
  [[nodiscard]] bool BecomesGone(const InstanceId& id);
  // It was made, and only once.
  [[nodiscard]] bool IsMadeOnce(const InstanceId& id);
  [[nodiscard]] bool BecomesStatus(const InstanceId& id, ProviderStatus status);

  template <class T, class F>
  ProviderResult<T> Await(F ask) {
    std::optional<ProviderResult<T>> answer;
    const Pending pending = ask([&](ProviderResult<T> result) { answer = std::move(result); });
    EXPECT_FALSE(answer.has_value()) << "answered from inside the call";
    if (!world_->RunUntil([&] { return answer.has_value(); })) {
      return std::unexpected(ProviderError{.error = Internal("no answer")});
    }
    return *std::move(answer);
  }

 private:
  std::unique_ptr<ProviderUnderTest> world_;
  Puidv7Generator ids_;
  std::uint8_t made_ = 0;
};

// "RESOURCE_EXHAUSTED: text [quota]", or "ok".
template <class T>
[[nodiscard]] std::string Words(const ProviderResult<T>& result) {
  if (result) return "ok";
  return result.error().error.ToString() + " [" +
         std::string(ProviderReasonName(result.error().reason)) + "]";
}

}  // namespace nstance::test
