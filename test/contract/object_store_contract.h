// The guarantees of ports/object_store.h as one suite for every store, real and simulated.
//
// A store joins by listing object_store_contract.cc among the sources of its test and registering
// itself:
//
//   INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreContractTest,
//                            testing::Values(StoreKind{.name = "File", .make = MakeFileStore}),
//                            StoreKindName);
//
// Every test works below a prefix of its own, so that a bucket may be shared and need not be empty.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "adapters/real_loop/real_loop.h"
#include "base/result.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance::test {

class StoreUnderTest {
 public:
  StoreUnderTest() = default;
  StoreUnderTest(const StoreUnderTest&) = delete;
  StoreUnderTest& operator=(const StoreUnderTest&) = delete;
  virtual ~StoreUnderTest() = default;

  virtual Loop& loop() = 0;
  // Ways to one and the same bucket, as of several processes; at least one.
  virtual std::vector<ObjectStore*> stores() = 0;
  // Runs the loop until `done` holds; false when that takes too long.
  virtual bool RunUntil(const std::function<bool()>& done) = 0;
};

struct StoreKind {
  std::string name;
  // An error is the reason why the tests are skipped.
  std::function<Result<std::unique_ptr<StoreUnderTest>>()> make;
  // False for stores that ignore it, which the store probe reports: tests of it are skipped.
  bool honours_delete_condition = true;
};

// For the messages of GoogleTest.
inline void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }

[[nodiscard]] inline std::string StoreKindName(const testing::TestParamInfo<StoreKind>& kind) {
  return kind.param.name;
}

// RunUntil() for stores on a real loop.
[[nodiscard]] bool RunLoopUntil(RealLoop& loop, const std::function<bool()>& done);

class ObjectStoreContractTest : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override;

  // A key below this test's own prefix.
  [[nodiscard]] ObjectKey Key(std::string_view name) const;
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  [[nodiscard]] std::size_t ways() { return world_->stores().size(); }
  [[nodiscard]] ObjectStore& store(std::size_t way = 0) { return *world_->stores().at(way); }
  [[nodiscard]] Loop& loop() { return world_->loop(); }
  [[nodiscard]] bool RunUntil(const std::function<bool()>& done) { return world_->RunUntil(done); }

  // One call, awaited.
  [[nodiscard]] Result<Object> Get(const ObjectKey& key, std::size_t way = 0);
  [[nodiscard]] Result<ObjectHead> Head(const ObjectKey& key);
  [[nodiscard]] Result<ObjectVersion> Put(PutRequest request, std::size_t way = 0);
  [[nodiscard]] Result<ObjectVersion> Create(const ObjectKey& key, std::string bytes);
  [[nodiscard]] Result<ObjectVersion> Overwrite(const ObjectKey& key, std::string bytes);
  [[nodiscard]] Status Delete(const ObjectKey& key, std::optional<ObjectVersion> version = {});
  [[nodiscard]] Result<ListPage> List(ListRequest request);
  // All pages: the keys without this test's prefix, or the error in words.
  [[nodiscard]] std::vector<std::string> ListAll(std::string_view prefix, std::size_t page_size);

  // Sends all at once, spread over the ways, and returns their answers in the same order.
  [[nodiscard]] std::vector<Result<ObjectVersion>> PutAtOnce(std::vector<PutRequest> requests);

  template <class T, class F>
  Result<T> Await(F ask) {
    std::optional<Result<T>> answer;
    const Pending pending = ask([&](Result<T> result) { answer = std::move(result); });
    if (!RunUntil([&] { return answer.has_value(); })) return Fail(Internal("no answer"));
    return *std::move(answer);
  }

 private:
  std::string prefix_;
  std::unique_ptr<StoreUnderTest> world_;
};

}  // namespace nstance::test
