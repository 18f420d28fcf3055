#include "storage/nstance_v2_store.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::size_t kMaxRests = 4;

}  // namespace

struct NstanceV2Store::Gathering {
  ListRequest request;
  std::vector<std::string> regions;
  Done<ListPage> done;
  std::size_t region = 0;
  std::vector<ListedObject> objects = {};
  Pending call = {};
};

NstanceV2Store::NstanceV2Store(Loop& loop, ObjectStore& bucket, NstanceV2Names names)
    : loop_(loop), bucket_(bucket), names_(std::move(names)) {}

NstanceV2Store::~NstanceV2Store() = default;

template <class T>
Pending NstanceV2Store::Refuse(Error error, Done<T> done) {
  return loop_.CallAfter({}, [error = std::move(error), done = std::move(done)]() mutable {
    done(Fail(std::move(error)));
  });
}

Pending NstanceV2Store::Get(const ObjectKey& key, Done<Object> done) {
  Result<ObjectKey> theirs = names_.Theirs(key);
  if (!theirs.has_value()) return Refuse(std::move(theirs).error(), std::move(done));
  return bucket_.Get(*theirs, std::move(done));
}

Pending NstanceV2Store::Head(const ObjectKey& key, Done<ObjectHead> done) {
  Result<ObjectKey> theirs = names_.Theirs(key);
  if (!theirs.has_value()) return Refuse(std::move(theirs).error(), std::move(done));
  return bucket_.Head(*theirs, std::move(done));
}

Pending NstanceV2Store::Put(PutRequest request, Done<ObjectVersion> done) {
  Result<ObjectKey> theirs = names_.Theirs(request.key);
  if (!theirs.has_value()) return Refuse(std::move(theirs).error(), std::move(done));
  request.key = std::move(theirs).value();
  return bucket_.Put(std::move(request), std::move(done));
}

Pending NstanceV2Store::Delete(DeleteRequest request, Done<void> done) {
  Result<ObjectKey> theirs = names_.Theirs(request.key);
  if (!theirs.has_value()) return Refuse(std::move(theirs).error(), std::move(done));
  request.key = std::move(theirs).value();
  return bucket_.Delete(std::move(request), std::move(done));
}

Pending NstanceV2Store::PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) {
  Result<ObjectKey> theirs = names_.Theirs(key);
  if (!theirs.has_value()) return Refuse(std::move(theirs).error(), std::move(done));
  return bucket_.PutUnconditionally(std::move(theirs).value(), std::move(bytes), std::move(done));
}

// --- Listings ------------------------------------------------------------------------------------

Pending NstanceV2Store::List(ListRequest request, Done<ListPage> done) {
  std::vector<NstanceV2Names::Region> regions = names_.Regions(request.prefix);
  if (regions.size() == 1 && regions.front().in_order) {
    return ListInOrder(std::move(request), std::move(regions.front().prefix), std::move(done));
  }
  const auto rest = std::ranges::find_if(rests_, [&request](const Rest& one) {
    return one.token == request.page_token && one.prefix == request.prefix;
  });
  if (!request.page_token.empty() && rest != rests_.end()) {
    std::vector<ListedObject> objects = std::move(rest->objects);
    rests_.erase(rest);
    return loop_.CallAfter({}, [page = Cut(std::move(objects), request),
                                done = std::move(done)]() mutable { done(std::move(page)); });
  }
  std::vector<std::string> prefixes;
  prefixes.reserve(regions.size());
  for (NstanceV2Names::Region& region : regions) prefixes.push_back(std::move(region.prefix));
  return Gather(std::move(request), std::move(prefixes), std::move(done));
}

// Pages and tokens are the bucket's own. A name that is none of ours is left out.
Pending NstanceV2Store::ListInOrder(ListRequest request, std::string region, Done<ListPage> done) {
  request.prefix = std::move(region);
  return bucket_.List(std::move(request),
                      [this, done = std::move(done)](Result<ListPage> page) mutable {
                        if (!page.has_value()) return done(std::move(page));
                        std::vector<ListedObject> ours;
                        ours.reserve(page->objects.size());
                        for (ListedObject& object : page->objects) {
                          std::optional<ObjectKey> key = names_.Ours(object.key);
                          if (!key) continue;
                          object.key = *std::move(key);
                          ours.push_back(std::move(object));
                        }
                        page->objects = std::move(ours);
                        done(std::move(page));
                      });
}

Pending NstanceV2Store::Gather(ListRequest request, std::vector<std::string> regions,
                               Done<ListPage> done) {
  const std::uint64_t number = next_++;
  gatherings_.try_emplace(
      number,
      std::make_unique<Gathering>(Gathering{
          .request = std::move(request), .regions = std::move(regions), .done = std::move(done)}));
  GatherNext(number, {});
  return Pending([this, number] { gatherings_.erase(number); });
}

void NstanceV2Store::GatherNext(std::uint64_t number, std::string page_token) {
  Gathering& gathering = *gatherings_.at(number);
  gathering.call = bucket_.List(
      {.prefix = gathering.regions[gathering.region], .page_token = std::move(page_token)},
      [this, number](const Result<ListPage>& page) { OnPage(number, page); });
}

void NstanceV2Store::OnPage(std::uint64_t number, const Result<ListPage>& page) {
  if (!page.has_value()) return Finish(number, Fail(page.error()));
  Gathering& gathering = *gatherings_.at(number);
  for (const ListedObject& object : page->objects) {
    std::optional<ObjectKey> key = names_.Ours(object.key);
    if (!key || !key->text().starts_with(gathering.request.prefix)) continue;
    if (key->text() <= gathering.request.page_token) continue;
    gathering.objects.push_back(
        {.key = *std::move(key), .version = object.version, .size = object.size});
  }
  if (!page->next_page_token.empty()) return GatherNext(number, page->next_page_token);
  if (++gathering.region < gathering.regions.size()) return GatherNext(number, {});
  std::ranges::sort(gathering.objects, {}, &ListedObject::key);
  const auto twice = std::ranges::unique(gathering.objects, {}, &ListedObject::key);
  gathering.objects.erase(twice.begin(), twice.end());
  Finish(number, Cut(std::move(gathering.objects), gathering.request));
}

void NstanceV2Store::Finish(std::uint64_t number, Result<ListPage> page) {
  auto node = gatherings_.extract(number);
  CHECK(!node.empty(), "{}", number);
  // Its own callback is on the stack: it goes in a turn of its own.
  std::shared_ptr<Gathering> gathering = std::move(node.mapped());
  loop_.Post([gathering] {});
  gathering->done(std::move(page));
}

// The token is the last key that was handed out.
ListPage NstanceV2Store::Cut(std::vector<ListedObject> objects, const ListRequest& request) {
  const std::size_t size = std::max<std::size_t>(request.page_size, 1);
  if (objects.size() <= size) return {.objects = std::move(objects), .next_page_token = {}};
  const auto cut = objects.begin() + static_cast<std::ptrdiff_t>(size);
  ListPage page;
  page.objects.assign(std::make_move_iterator(objects.begin()), std::make_move_iterator(cut));
  objects.erase(objects.begin(), cut);
  page.next_page_token = page.objects.back().key.text();
  rests_.push_back(
      {.prefix = request.prefix, .token = page.next_page_token, .objects = std::move(objects)});
  if (rests_.size() > kMaxRests) rests_.pop_front();
  return page;
}

}  // namespace nstance
