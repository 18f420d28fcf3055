#include "storage/operator_enrolment.h"

#include <utility>

#include "base/fault_point.h"
#include "core/object_layout.h"

namespace nstance {

Result<crypto::OperatorSubject> SubjectOf(const OperatorRecord& record) {
  if (const Result<Puidv7> id = ParsePuidv7(record.client_id, "opr"); id.has_value()) {
    return crypto::OperatorSubject{.tenant = record.tenant, .id = *id};
  }
  const Result<ClusterId> cluster = ClusterId::Parse(record.client_id);
  if (!cluster.has_value()) {
    return Fail(
        Error{.code = Code::kDataLoss,
              .message = "operator record: client_id is neither an operator nor a cluster"});
  }
  return crypto::OperatorSubject{.tenant = record.tenant, .id = *cluster};
}

namespace {

// The caller's input is good: it is the record that nothing can be signed for.
Error NotSigned(Error error) {
  if (error.code == Code::kInvalidArgument) error.code = Code::kFailedPrecondition;
  error.message = "the operator's record: " + error.message;
  return error;
}

}  // namespace

OperatorEnrolment::OperatorEnrolment(Deps deps, Request request, Done done)
    : deps_(deps), request_(std::move(request)), done_(std::move(done)) {}

void OperatorEnrolment::Start() {
  put_ = std::make_unique<SettledPut>(
      SettledPut::Deps{deps_.loop, deps_.store, deps_.jitter},
      SettledPut::Request{
          .put = {.key = OperatorKey(request_.record.tenant, OperatorStorageKey(request_.key)),
                  .bytes = EncodeOperatorRecord(request_.record),
                  .condition = IfAbsent{}},
          .deadline = deps_.loop.Now() + request_.settle_limit},
      [this](const Result<ObjectVersion>& version) {
        if (version.has_value()) {
          written_ = *version;
          return LookAround({});
        }
        if (version.error().code == Code::kAborted) return Read();
        done_(Fail(Unavailable(version.error().message)));
      });
  AtStep(Step::kR5);
  put_->Start();
}

void OperatorEnrolment::Read() {
  call_ = deps_.store.Get(OperatorKey(request_.record.tenant, OperatorStorageKey(request_.key)),
                          [this](const Result<Object>& object) { OnRecord(object); });
}

void OperatorEnrolment::OnRecord(const Result<Object>& object) {
  if (!object.has_value()) return done_(Fail(Unavailable(object.error().message)));
  Result<OperatorRecord> record = DecodeOperatorRecord(object->bytes);
  if (!record.has_value()) return done_(Fail(record.error()));
  if (record->public_key_pem != request_.key.ToPem()) {
    return done_(Fail(AlreadyExists("another key was registered under this name")));
  }
  request_.record = *std::move(record);
  LookAround({});
}

void OperatorEnrolment::LookAround(std::string page_token) {
  call_ = deps_.store.List({.prefix = "operator/", .page_token = std::move(page_token)},
                           [this](const Result<ListPage>& page) { OnNames(page); });
}

void OperatorEnrolment::OnNames(const Result<ListPage>& page) {
  if (!page.has_value()) return done_(Fail(Unavailable(page.error().message)));
  const std::string own = OperatorStorageKey(request_.key);
  for (const ListedObject& object : page->objects) {
    const Result<OperatorName> name = ParseOperatorKey(object.key);
    if (!name.has_value() || name->storage_key != own) continue;
    if (name->tenant != request_.record.tenant) return GiveUp();
  }
  if (!page->next_page_token.empty()) return LookAround(page->next_page_token);
  Issue();
}

void OperatorEnrolment::GiveUp() {
  const auto refuse = [this] {
    done_(Fail(InvalidArgument("the key belongs to another identity")));
  };
  if (!written_) return refuse();
  // A record that stays behind would not harm: nothing was signed for it.
  call_ = deps_.store.Delete(
      {.key = OperatorKey(request_.record.tenant, OperatorStorageKey(request_.key)),
       .version = written_},
      [refuse](const Status&) { refuse(); });
}

void OperatorEnrolment::Issue() {
  const OperatorRecord& record = request_.record;
  Result<crypto::OperatorSubject> subject = SubjectOf(record);
  if (!subject.has_value()) return done_(Fail(subject.error()));
  const Result<crypto::SerialNumber> serial = crypto::SerialNumber::FromDecimal(record.cert_serial);
  if (!serial.has_value()) return done_(Fail(serial.error()));
  deps_.issuer.Issue(
      {.subject = *std::move(subject),
       .key = request_.key,
       .serial = *serial,
       .issued_at = record.issued_at(),
       .life = record.expires_at - record.issued_at(),
       .log_step = Step::kR7,
       .sign_step = Step::kR6},
      [this](Result<std::string> pem) {
        if (!pem.has_value()) return done_(Fail(NotSigned(std::move(pem).error())));
        done_(EnrolledOperator{.record = request_.record, .certificate_pem = *std::move(pem)});
      });
}

}  // namespace nstance
