// S3Store: ports/object_store.h on Amazon S3, and on what speaks its protocol.
//
// Guarantees, each held by a test:
//   - a write is sent once, with its condition as `If-None-Match: *` or `If-Match: "<tag>"` and
//     with Content-MD5; whatever comes back is translated into the normal form of the port
//   - a write that was answered without a usable tag is applied, without a version
//   - reads and listings are repeated up to three times while the store has passing trouble, with
//     jitter, inside the deadline
//   - redirects are never followed, and credentials are sent to the configured host only
//   - plain HTTP is refused except to loopback
//   - a listing is complete page by page or an error (adapters/cloud_http/list_position.h)
//
// Lives on one loop, like everything that it is given.
#pragma once

#include <memory>
#include <string>

#include "adapters/aws_credentials/aws_authorizer.h"
#include "adapters/aws_credentials/aws_credentials.h"
#include "adapters/cloud_http/cloud_call_runner.h"
#include "adapters/cloud_http/time_watch.h"
#include "adapters/s3_store/s3_address.h"
#include "base/prng.h"
#include "ports/http.h"
#include "ports/loop.h"
#include "ports/object_store.h"

namespace nstance::s3 {

class S3Store final : public ObjectStore {
 public:
  // All outlive the store, and the store every Pending that it gave.
  struct Deps {
    Loop& loop;
    HttpClient& http;
    aws::AwsCredentials& credentials;
    Prng prng;  // For the jitter of repeated reads.
  };

  // kInvalidArgument when the options make no address (s3_address.h). Asks nobody.
  [[nodiscard]] static Result<std::unique_ptr<S3Store>> Make(Deps deps, const S3Options& options);

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
  // What the probe has found out.
  void set_conditional_delete(ConditionalDelete value) { conditional_delete_ = value; }

 private:
  S3Store(Deps deps, const S3Options& options, S3Address address);

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
  S3Address address_;
  Duration deadline_;
  cloud::TimeWatch time_;
  ConditionalDelete conditional_delete_;
  aws::AwsAuthorizer authorizer_;
};

}  // namespace nstance::s3
