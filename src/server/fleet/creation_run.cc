#include "server/fleet/creation_run.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fault_point.h"
#include "base/overloaded.h"
#include "base/text.h"
#include "core/instance_config/stored_config.h"
#include "server/fleet/engine.h"

namespace nstance {
namespace {

constexpr std::size_t kTokenIdBytes = 16;
constexpr Duration kLeaseRetry = Duration::Milliseconds(200);

// A tombstone for an id that never got a record: it stands in the way of a late write.
InstanceRecord Tombstone(const NewInstance& instance, Timestamp now, const Error& why) {
  InstanceRecord record = {.instance_id = instance.id,
                           .tenant = instance.tenant,
                           .group = instance.group,
                           .on_demand = instance.on_demand,
                           .created_at = now,
                           .last_updated = now};
  record.phase = InstancePhase::kGone;
  record.phase_at = now;
  record.request_id = instance.request_id;
  record.failure = RecordFailure{.code = "cancelled", .message = why.message, .at = now};
  return record;
}

void Adopt(InstanceRecord& record, const ProviderInstance& vm, Timestamp now) {
  if (record.phase == InstancePhase::kCreating) {
    record.phase = InstancePhase::kProvisioned;
    record.phase_at = now;
  }
  if (Planted(Plant::kC5Overwrites)) record.public_key_pem.clear();
  NameVm(record, vm);
}

}  // namespace

CreationRun::CreationRun(Fleet::Engine& engine, Plan plan, CreationMachine machine)
    : engine_(engine),
      plan_(std::move(plan)),
      id_(plan_.instance.id),
      machine_(std::move(machine)),
      waiting_since_(engine.loop().Now()) {}

CreationRun::~CreationRun() = default;

CreationRun::Machine::Input CreationRun::Input() {
  return {.now = engine_.loop().Now(), .jitter = engine_.jitter()};
}

const InstanceRecord* CreationRun::record() const {
  const auto* entry = engine_.Find(id_);
  CHECK(entry != nullptr, "{}", id_.text());
  return entry->instance.record();
}

void CreationRun::Start() {
  Do(machine_.Start(Input()));
  if (plan_.recorded && machine_.waits_for_turn() && record() == nullptr) {
    recording_only_ = true;
    Prepare();
  }
}

void CreationRun::TurnCame() {
  if (recording_only_) {
    // The record is on its way: the turn is taken up when it is there.
    return;
  }
  Do(machine_.TurnCame(Input()));
}

void CreationRun::NoLongerWanted() { Do(machine_.NoLongerWanted(Input())); }

void CreationRun::Do(Machine::Command command) {
  std::visit(
      Overloaded{
          [](const Machine::Nothing&) {},
          [this](const Machine::AwaitTurn& turn) {
            not_before_ = turn.not_before;
            engine_.PickCreationsSoon();
          },
          [this](const Machine::Prepare&) { Prepare(); }, [this](const Machine::Call&) { Call(); },
          [this](const Machine::Look&) { Look(); },
          [this](const Machine::Wait& wait) {
            call_ = engine_.loop().CallAt(wait.until, [this] { Do(machine_.Woke(Input())); });
          },
          [this](const Machine::WriteProvisioned& write) { WriteProvisioned(write.vm); },
          [this](const Machine::WriteFailed& write) { WriteFailed(write.error, write.failure); },
          [this](const Machine::Bury& bury) { Bury(bury.why); },
          [this](const Machine::Finish& finish) {
            engine_.CreationFinished(id_, finish.result);  // Destroys this, later.
          }},
      command);
}

// --- The record, and what will be sent -----------------------------------------------------------

void CreationRun::Prepare() {
  const InstanceRecord* stored = record();
  if (stored == nullptr && !plan_.config) {
    return NotPrepared(FailedPrecondition("there is neither a record nor a configuration"));
  }
  InstanceRecord next = {
      .instance_id = id_, .tenant = plan_.instance.tenant, .group = plan_.instance.group};
  if (stored != nullptr) {
    next = *stored;
    if (Planted(Plant::kOtherBytes) && next.nonce) --next.nonce->iat;
  } else {
    std::array<std::uint8_t, kTokenIdBytes> token_id{};
    engine_.random().Fill(token_id);
    next = NewInstanceRecord(plan_.instance, *plan_.config, engine_.Terms(token_id));
  }
  const Result<MergedInstanceConfig> config = DecodeStoredConfig(next.config);
  if (!config.has_value()) return NotPrepared(FailedPrecondition(config.error().message));
  if (config->userdata && config->userdata->effective_source() == config::UserDataSource::kUrl) {
    return FetchThenRender(next, *config->userdata);
  }
  Render(std::move(next), std::nullopt);
}

void CreationRun::FetchThenRender(const InstanceRecord& record, const config::UserData& userdata) {
  fetch_ = std::make_unique<UserDataFetch>(
      UserDataFetch::Deps{engine_.loop(), engine_.http(), engine_.user_data()}, userdata,
      [this, record](Result<std::string> body) {
        // The configuration decides what may be fetched; what fails now may be there later.
        if (!body.has_value()) return NotPrepared(Unavailable(body.error().message));
        Render(record, std::move(body).value());
      });
  fetch_->Start();
}

void CreationRun::Render(InstanceRecord record, std::optional<std::string> fetched) {
  const TokenPlace place = engine_.token_place();
  Result<RenderedCreate> rendered = RenderCreate(record, {.shared = engine_.shared_data(),
                                                          .place = place,
                                                          .token_key = *engine_.options().token_key,
                                                          .fetched = std::move(fetched)});
  if (!rendered.has_value()) {
    return NotPrepared(FailedPrecondition(rendered.error().message));
  }
  if (this->record() == nullptr) {
    record.nonce_sha256 = rendered->token_sha256;
    record.request_sha256 = rendered->request_sha256;
    if (Planted(Plant::kUserDataInRecord)) record.hostname = rendered->request.user_data;
    request_ = std::move(rendered->request);
    return WriteFirst(std::move(record));
  }
  if (record.request_sha256 != rendered->request_sha256 && !Planted(Plant::kOtherBytes)) {
    return NotPrepared(FailedPrecondition("the request would differ from the one in the record"));
  }
  request_ = std::move(rendered->request);
  Ready();
}

void CreationRun::NotPrepared(const Error& error) {
  request_.reset();
  if (recording_only_) {
    recording_only_ = false;
    if (plan_.recorded) std::exchange(plan_.recorded, nullptr)(Fail(error));
    return NoLongerWanted();
  }
  Do(machine_.NotPrepared(Input(), error));
}

void CreationRun::WriteFirst(InstanceRecord record) {
  engine_.records().Create(std::move(record),
                           {.persist = RecordStore::Persist::kOnce, .step = Step::kC3},
                           [this](Result<StoredRecord> stored) { OnRecorded(std::move(stored)); });
}

void CreationRun::OnRecorded(Result<StoredRecord> stored) {
  if (stored.has_value()) return Ready();
  // An earlier try of ours has landed after all: it is the record now.
  if (stored.error().code == Code::kAlreadyExists && record() != nullptr) return Prepare();
  NotPrepared(stored.error());
}

void CreationRun::Ready() {
  if (recording_only_) {
    recording_only_ = false;
    if (plan_.recorded) std::exchange(plan_.recorded, nullptr)({});
    return engine_.PickCreationsSoon();
  }
  const InstanceRecord& stored = *record();
  const Duration left = Timestamp::FromUnix(stored.nonce->exp) - engine_.loop().WallNow() -
                        engine_.times().registration_timeout / 2;
  Do(machine_.Prepared(Input(), engine_.loop().Now() + left));
}

// --- The provider --------------------------------------------------------------------------------

namespace {

// What the provider would refuse, or worse, start without ever booting.
std::optional<ProviderError> WrongArch(const TypeArchs& types, const ProviderCreate& request) {
  const std::optional<config::Arch> arch = types.Find(request.instance_type);
  if (!arch || *arch == request.arch) return std::nullopt;
  return ProviderError{
      .error = InvalidArgument(fmt::format("instance_type: {} is {}; the template's arch is {}",
                                           Quote(request.instance_type), config::Word(*arch),
                                           config::Word(request.arch))),
      .reason = ProviderReason::kInvalid};
}

}  // namespace

void CreationRun::Call() {
  TypeArchs* types = engine_.types();
  if (types == nullptr) return CallNow();
  if (!types->Settled({request_->instance_type})) {
    call_ = types->Learn({request_->instance_type}, [this] { Call(); });
    return;
  }
  if (auto wrong = WrongArch(*types, *request_)) {
    request_.reset();
    engine_.CreationTroubled(*engine_.Find(id_), *wrong);
    return Do(machine_.Called(Input(), std::unexpected(*std::move(wrong))));
  }
  CallNow();
}

void CreationRun::CallNow() {
  // Between two renewals this may be so for a moment; for longer only at the leadership's end.
  if (!engine_.MayStart(engine_.options().send_timeout)) {
    call_ = engine_.loop().CallAfter(kLeaseRetry, [this] { CallNow(); });
    return;
  }
  ProviderCreate request = std::move(*request_);
  request_.reset();
  AtStep(Step::kC4);
  call_ = engine_.provider().Create(
      engine_.CallFor(plan_.instance.tenant, engine_.create_time()), std::move(request),
      [this](ProviderResult<ProviderInstance> answer) {
        if (!answer.has_value()) engine_.CreationTroubled(*engine_.Find(id_), answer.error());
        Do(machine_.Called(Input(), std::move(answer)));
      });
}

void CreationRun::Look() {
  const InstanceRecord* stored = record();
  call_ = engine_.provider().Get(
      engine_.CallFor(plan_.instance.tenant, engine_.request_timeout()),
      {.instance_id = id_,
       .provider_instance_id = stored != nullptr ? stored->provider_instance_id : std::string()},
      [this](ProviderResult<ProviderInstance> answer) {
        Do(machine_.Looked(Input(), std::move(answer)));
      });
}

// --- The end -------------------------------------------------------------------------------------

void CreationRun::WriteProvisioned(const ProviderInstance& vm) {
  engine_.Found(*engine_.Find(id_), vm);
  engine_.records().Update(
      id_, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kC5},
      [vm, now = engine_.loop().WallNow()](InstanceRecord& record) -> Status {
        Adopt(record, vm, now);
        return {};
      },
      [this](const Result<StoredRecord>& stored) { OnWritten(stored); });
}

void CreationRun::WriteFailed(const Error& error, fleet::FailureClass failure) {
  engine_.CreationFailed(*engine_.Find(id_), failure, error);
  engine_.records().Update(
      id_, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kC5},
      [error, failure, now = engine_.Clock().wall](InstanceRecord& record) -> Status {
        if (record.phase != InstancePhase::kCreating) return {};  // Registered after all.
        record.phase = InstancePhase::kFailed;
        record.phase_at = now;
        record.failure = RecordFailure{
            .code = std::string(fleet::Word(failure)), .message = error.message, .at = now};
        return {};
      },
      [this](const Result<StoredRecord>& stored) { OnWritten(stored); });
}

void CreationRun::Bury(const Error& why) {
  const auto done = [this](const Result<StoredRecord>& stored) { OnWritten(stored); };
  const Timestamp now = engine_.Clock().wall;  // How long the tombstone is kept counts from it.
  if (record() == nullptr) {
    return engine_.records().Create(
        Tombstone(plan_.instance, now, why),
        {.persist = RecordStore::Persist::kUntilDone, .step = Step::kX5}, done);
  }
  engine_.records().Update(
      id_, {.persist = RecordStore::Persist::kUntilDone, .step = Step::kX5},
      [why, now](InstanceRecord& record) -> Status {
        if (record.phase != InstancePhase::kCreating) return {};  // Registered after all.
        record.phase = InstancePhase::kGone;
        record.phase_at = now;
        record.failure = RecordFailure{.code = "cancelled", .message = why.message, .at = now};
        return {};
      },
      done);
}

void CreationRun::OnWritten(const Result<StoredRecord>& stored) {
  if (!stored.has_value()) {
    // Nothing that this leader wrote can be in the way: what the store holds must be read again.
    engine_.log().Error("a record of a creation cannot be written",
                        {{"instance", id_}, {"error", stored.error()}});
    return engine_.StepDown(stored.error());
  }
  if (plan_.recorded) {
    std::exchange(plan_.recorded, nullptr)(Fail(Unavailable("the creation was cancelled")));
  }
  Do(machine_.Written(Input()));
}

}  // namespace nstance
