#include "storage/prefixed_store.h"

#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace nstance {
namespace {

// Half of a key: our own names are shorter than the other half.
constexpr std::size_t kMaxPrefixBytes = 512;

}  // namespace

Result<std::string> CheckStorePrefix(std::string prefix) {
  if (prefix.empty()) return prefix;
  if (!prefix.ends_with('/')) prefix += '/';
  if (prefix.size() > kMaxPrefixBytes) {
    return Fail(InvalidArgument(
        fmt::format("prefix: {} bytes; at most {}", prefix.size(), kMaxPrefixBytes)));
  }
  RETURN_IF_ERROR(Under(ObjectKey::Parse(prefix + "x"), "prefix " + Quote(prefix)));
  return prefix;
}

Result<ObjectKey> PrefixedStore::Whole(const ObjectKey& key) const {
  return ObjectKey::Parse(prefix_ + key.text());
}

template <class T>
Pending PrefixedStore::Refuse(Error error, Done<T> done) {
  return loop_.CallAfter({}, [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

Pending PrefixedStore::Get(const ObjectKey& key, Done<Object> done) {
  Result<ObjectKey> whole = Whole(key);
  if (!whole.has_value()) return Refuse(std::move(whole).error(), std::move(done));
  return store_.Get(*whole, std::move(done));
}

Pending PrefixedStore::Head(const ObjectKey& key, Done<ObjectHead> done) {
  Result<ObjectKey> whole = Whole(key);
  if (!whole.has_value()) return Refuse(std::move(whole).error(), std::move(done));
  return store_.Head(*whole, std::move(done));
}

Pending PrefixedStore::Put(PutRequest request, Done<ObjectVersion> done) {
  Result<ObjectKey> whole = Whole(request.key);
  if (!whole.has_value()) return Refuse(std::move(whole).error(), std::move(done));
  request.key = std::move(whole).value();
  return store_.Put(std::move(request), std::move(done));
}

Pending PrefixedStore::Delete(DeleteRequest request, Done<void> done) {
  Result<ObjectKey> whole = Whole(request.key);
  if (!whole.has_value()) return Refuse(std::move(whole).error(), std::move(done));
  request.key = std::move(whole).value();
  return store_.Delete(std::move(request), std::move(done));
}

Pending PrefixedStore::List(ListRequest request, Done<ListPage> done) {
  request.prefix = prefix_ + request.prefix;
  return store_.List(std::move(request),
                     [cut = prefix_.size(), done = std::move(done)](Result<ListPage> page) mutable {
                       if (!page.has_value()) return done(std::move(page));
                       for (ListedObject& object : page->objects) {
                         Result<ObjectKey> key = ObjectKey::Parse(object.key.text().substr(cut));
                         if (!key.has_value())
                           return done(Fail(std::move(key).error().Under("listing")));
                         object.key = std::move(key).value();
                       }
                       done(std::move(page));
                     });
}

Pending PrefixedStore::PutUnconditionally(ObjectKey key, std::string bytes,
                                          Done<ObjectVersion> done) {
  Result<ObjectKey> whole = Whole(key);
  if (!whole.has_value()) return Refuse(std::move(whole).error(), std::move(done));
  return store_.PutUnconditionally(std::move(whole).value(), std::move(bytes), std::move(done));
}

}  // namespace nstance
