// LateStore: a store that may not be there yet. Every call tries to open it, at most once a second,
// until that has succeeded; what is asked before ends with kUnavailable, kNotDone.
//
//   LateStore store(loop, [&] { return FileStore::Open(loop, options); });
//
// Who asks tries again by rules of its own, so a process that starts before its store does needs
// no rule for that.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance {

class LateStore final : public ObjectStore {
 public:
  // May block for a few system calls. Errors: kUnavailable, tried again.
  using Open = std::move_only_function<Result<std::unique_ptr<ObjectStore>>()>;

  LateStore(Loop& loop, Open open) : loop_(loop), open_(std::move(open)) {}

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

 private:
  // Null: not there; `why_` says why.
  [[nodiscard]] ObjectStore* Try();
  template <class T>
  [[nodiscard]] Pending Refuse(Done<T> done);

  Loop& loop_;
  Open open_;
  std::unique_ptr<ObjectStore> store_;
  std::optional<Instant> tried_at_ = std::nullopt;
  Error why_;
};

}  // namespace nstance
