// GcsStore: ports/object_store.h on Google Cloud Storage (JSON API).
//
// Guarantees, each held by a test:
//   - a write is sent once, with its condition as ifGenerationMatch; whatever comes back is
//     translated into the normal form of the port, and the digest that the store tells is compared
//   - a write that was answered without a generation is followed by a read that learns it, within
//     the same deadline
//   - reads and listings are repeated up to three times while the store has passing trouble, with
//     jitter, inside the deadline
//   - redirects are never followed; tokens are sent to Google only, never to an explicit endpoint
//   - plain HTTP is refused except to loopback
//   - a listing is complete page by page or an error (adapters/cloud_http/list_position.h)
//
// Lives on one loop, like everything that it is given.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "adapters/cloud_http/cloud_call_runner.h"
#include "adapters/cloud_http/time_watch.h"
#include "adapters/gcp_credentials/gcp_authorizer.h"
#include "adapters/gcp_credentials/gcp_credentials.h"
#include "adapters/gcs_store/gcs_address.h"
#include "base/prng.h"
#include "ports/http.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance::gcs {

class GcsStore final : public ObjectStore {
 public:
  // All outlive the store, and the store every Pending that it gave.
  struct Deps {
    Loop& loop;
    HttpClient& http;
    gcp::GcpCredentials& credentials;
    Prng prng;  // For the jitter of repeated reads.
  };

  // kInvalidArgument when the options make no address (gcs_address.h). Asks nobody.
  [[nodiscard]] static Result<std::unique_ptr<GcsStore>> Make(Deps deps, const GcsOptions& options);

  [[nodiscard]] Pending Get(const ObjectKey& key, Done<Object> done) override;
  [[nodiscard]] Pending Head(const ObjectKey& key, Done<ObjectHead> done) override;
  [[nodiscard]] Pending Put(PutRequest request, Done<ObjectVersion> done) override;
  [[nodiscard]] Pending Delete(DeleteRequest request, Done<void> done) override;
  [[nodiscard]] Pending List(ListRequest request, Done<ListPage> done) override;
  [[nodiscard]] Pending WatchTime(TimeTold told) override { return time_.Watch(std::move(told)); }
  [[nodiscard]] Pending PutUnconditionally(ObjectKey key, std::string bytes,
                                           Done<ObjectVersion> done) override;

  // Of calls that begin from now on.
  void set_deadline(Duration deadline) { deadline_ = deadline; }

 private:
  GcsStore(Deps deps, const GcsOptions& options, GcsAddress address);

  using Answered = std::move_only_function<void(Result<HttpResponse>)>;
  struct Upload {
    ObjectKey key;
    std::string bytes;
    std::optional<PutCondition> condition;  // Empty: overwrite.
  };

  [[nodiscard]] Pending Call(HttpRequest request, Answered answered);
  [[nodiscard]] Pending Write(Upload upload, Done<ObjectVersion> done);
  // An answer that needs nobody.
  template <class T>
  [[nodiscard]] Pending Refuse(Error error, Done<T> done);

  Deps deps_;
  GcsAddress address_;
  Duration deadline_;
  cloud::TimeWatch time_;
  std::unique_ptr<cloud::RequestAuthorizer> authorizer_;
};

}  // namespace nstance::gcs
