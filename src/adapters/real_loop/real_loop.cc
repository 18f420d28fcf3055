#include "adapters/real_loop/real_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace nstance {
namespace {

constexpr std::uint64_t kWakeId = 0;
constexpr std::uint64_t kTimerId = 1;
constexpr std::uint64_t kFirstWatchId = 2;
constexpr int kEventsPerTurn = 256;
// A batch that was larger than this gives its memory back.
constexpr std::size_t kKeptTasks = 4'096;

Instant ReadBoottime() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_BOOTTIME, &now) == 0, "errno {}", errno);
  return Instant::FromClock(Duration::Seconds(now.tv_sec) + Duration::Nanoseconds(now.tv_nsec));
}

std::uint32_t EpollMask(Interest interest) {
  return (interest.readable ? EPOLLIN | EPOLLRDHUP : 0U) | (interest.writable ? EPOLLOUT : 0U);
}

Readiness FromEpoll(std::uint32_t events) {
  const bool failed = (events & (EPOLLERR | EPOLLHUP)) != 0;
  return {.readable = (events & (EPOLLIN | EPOLLRDHUP)) != 0 || failed,
          .writable = (events & EPOLLOUT) != 0 || failed,
          .closed = failed || (events & EPOLLRDHUP) != 0};
}

}  // namespace

struct RealLoop::State {
  using TimerKey = std::pair<Instant, std::uint64_t>;

  explicit State(ReadClock read) : clock(read), seen(read()) {}

  const ReadClock clock;
  int epoll = -1;
  int wake = -1;
  int timer = -1;

  std::mutex mutex;                // Guards `posted` only.
  std::vector<Task> posted;        // What other threads and tasks have asked for.
  std::atomic<bool> stop = false;  // Read once per turn.
  std::atomic<std::thread::id> thread;

  std::array<epoll_event, kEventsPerTurn> ready{};  // Of the turn.
  std::function<void(Duration)> observe_turn;
  bool in_task = false;
  Instant task_time;
  Instant seen;  // What the clock has last shown.
  // By how much it has gone back so far. Timers wait for Now() + gone_back, which never does.
  Duration gone_back;
  bool went_back = false;  // And nobody was told yet.
  // Of the turn. It takes turns with `posted`, so that steady traffic allocates nothing.
  std::vector<Task> batch;
  std::uint64_t next_id = kFirstWatchId;
  std::map<TimerKey, Task> timers;
  Instant armed = Instant::Never();
  // The callback of a watch is taken out while it runs, so that it may destroy its own watch.
  std::unordered_map<std::uint64_t, DescriptorCallback> watches;
  std::map<std::uint64_t, std::shared_ptr<Task>> clock_watches;

  // What every look at the clock goes through.
  Instant Read() {
    const Instant now = clock();
    const Instant before = std::exchange(seen, now);
    if (now < before) {
      gone_back = gone_back + (before - now);
      went_back = true;
      armed = Instant::Never();
    }
    return now;
  }

  // Before anything runs. Who is told that the clock went back may end timers and watches.
  void LookAtClock() {
    task_time = Read();
    if (!std::exchange(went_back, false)) return;
    std::vector<std::uint64_t> ids;
    ids.reserve(clock_watches.size());
    for (const auto& [id, told] : clock_watches) ids.push_back(id);
    for (const std::uint64_t id : ids) {
      const auto at = clock_watches.find(id);
      if (at == clock_watches.end()) continue;
      const std::shared_ptr<Task> told = at->second;
      RunTask(*told);
      task_time = Read();
    }
  }

  // REQUIRES: LookAtClock() was called for it.
  void RunTask(Task& task) {
    in_task = true;
    task();
    in_task = false;
  }

  void Wake() const {
    const std::uint64_t one = 1;
    // EAGAIN means that the counter is full of wake-ups already.
    CHECK(write(wake, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN, "errno {}", errno);
  }

  // How long to wait for events, for epoll_wait: not at all when a timer is due already, else until
  // the timer descriptor tells. It is set only when it would tell too late: an expiry for a timer
  // that is gone costs one empty turn, which is less than setting it with every timer. The length
  // is for a clock that goes back: the descriptor would tell late.
  int ArmTimer() {
    if (timers.empty()) return -1;
    if (timers.begin()->first.first == Instant::Never()) return -1;
    const Instant now = Read();
    const Instant first = timers.begin()->first.first - gone_back;
    if (first <= now || went_back) return 0;
    const int length = static_cast<int>(
        std::min<std::int64_t>((first - now).milliseconds() + 2, std::numeric_limits<int>::max()));
    if (first >= armed) return length;
    armed = first;
    itimerspec at{};
    const std::int64_t nanoseconds = first.since_zero().nanoseconds();
    at.it_value.tv_sec = nanoseconds / 1'000'000'000;
    at.it_value.tv_nsec = nanoseconds % 1'000'000'000;
    CHECK(timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr) == 0, "errno {}", errno);
    return length;
  }

  void Control(int operation, int descriptor, std::uint64_t id, std::uint32_t mask) const {
    epoll_event event{};
    event.events = mask;
    event.data.u64 = id;
    CHECK(epoll_ctl(epoll, operation, descriptor, &event) == 0, "descriptor {} errno {}",
          descriptor, errno);
  }

  void CheckThread() const {
    const std::thread::id owner = thread.load();
    CHECK(owner == std::thread::id() || owner == std::this_thread::get_id(),
          "only Post() and Stop() may be called from another thread");
  }

  bool HasPosted() {
    const std::scoped_lock lock(mutex);
    return !posted.empty();
  }

  void RunDescriptor(std::uint64_t id, std::uint32_t events) {
    LookAtClock();
    const auto at = watches.find(id);
    if (at == watches.end() || !at->second) return;
    DescriptorCallback callback = std::move(at->second);
    Task task = [&] { callback(FromEpoll(events)); };
    RunTask(task);
    if (const auto again = watches.find(id); again != watches.end()) {
      again->second = std::move(callback);
    }
  }

  void RunDueTimers() {
    // Timers that are set meanwhile wait for the next turn, so that the turn ends.
    LookAtClock();
    const Instant now = task_time + gone_back;
    std::vector<TimerKey> due;
    for (const auto& [key, task] : timers) {
      if (key.first > now) break;
      due.push_back(key);
    }
    for (const TimerKey& key : due) {
      LookAtClock();
      auto node = timers.extract(key);
      if (!node.empty()) RunTask(node.mapped());
    }
  }

  void RunPosted() {
    {
      const std::scoped_lock lock(mutex);
      batch.swap(posted);
    }
    for (Task& task : batch) {
      LookAtClock();
      RunTask(task);
      task = nullptr;  // What it holds is not kept until the batch ends.
    }
    batch.clear();
    if (batch.capacity() > kKeptTasks) std::vector<Task>().swap(batch);
  }

  void Turn() {
    const int timed = ArmTimer();
    const int wait = HasPosted() ? 0 : timed;
    const int count = epoll_wait(epoll, ready.data(), kEventsPerTurn, wait);
    CHECK(count >= 0 || errno == EINTR, "errno {}", errno);
    LookAtClock();
    const Instant begun = task_time;
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready.at(static_cast<std::size_t>(i));
      // The first two are edge-triggered: a wake-up and an expiry each count once, unread.
      if (event.data.u64 == kTimerId) {
        armed = Instant::Never();
      } else if (event.data.u64 != kWakeId) {
        RunDescriptor(event.data.u64, event.events);
      }
    }
    RunDueTimers();
    RunPosted();
    if (observe_turn) observe_turn(std::max(clock() - begun, Duration()));
  }
};

RealLoop::RealLoop() : RealLoop(&ReadBoottime) {}

RealLoop::RealLoop(ReadClock clock) : state_(std::make_unique<State>(clock)) {
  state_->epoll = epoll_create1(EPOLL_CLOEXEC);
  state_->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  state_->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  CHECK(state_->epoll >= 0 && state_->wake >= 0 && state_->timer >= 0, "errno {}", errno);
  state_->Control(EPOLL_CTL_ADD, state_->wake, kWakeId, EPOLLIN | EPOLLET);
  state_->Control(EPOLL_CTL_ADD, state_->timer, kTimerId, EPOLLIN | EPOLLET);
}

RealLoop::~RealLoop() {
  {
    // Tasks may own Pendings of this loop, which look for their timers as they go: taken out first.
    const auto posted = std::exchange(state_->posted, {});
    const auto timers = std::exchange(state_->timers, {});
    const auto watches = std::exchange(state_->watches, {});
    const auto clock_watches = std::exchange(state_->clock_watches, {});
  }
  close(state_->timer);
  close(state_->wake);
  close(state_->epoll);
}

Instant RealLoop::Now() const { return state_->in_task ? state_->task_time : state_->clock(); }

Timestamp RealLoop::WallNow() const {
  timespec now{};
  CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0, "errno {}", errno);
  return Timestamp::FromUnix(now.tv_sec, static_cast<std::int32_t>(now.tv_nsec));
}

void RealLoop::Post(Task task) {
  bool first = false;
  {
    const std::scoped_lock lock(state_->mutex);
    first = state_->posted.empty();
    state_->posted.push_back(std::move(task));
  }
  if (first && !OnLoopThread()) state_->Wake();
}

Pending RealLoop::CallAt(Instant at, Task task) {
  state_->CheckThread();
  const State::TimerKey key(at == Instant::Never() ? at : at + state_->gone_back,
                            state_->next_id++);
  state_->timers.emplace(key, std::move(task));
  // Taken out before it is destroyed: the task may own the Pending of another timer.
  return Pending([state = state_.get(), key] { state->timers.extract(key); });
}

Pending RealLoop::WatchClock(Task told) {
  state_->CheckThread();
  const std::uint64_t id = state_->next_id++;
  state_->clock_watches.emplace(id, std::make_shared<Task>(std::move(told)));
  return Pending([state = state_.get(), id] { state->clock_watches.extract(id); });
}

void RealLoop::Run() {
  state_->thread = std::this_thread::get_id();
  while (!state_->stop.exchange(false)) state_->Turn();
  state_->thread = std::thread::id();
}

void RealLoop::Stop() {
  state_->stop = true;
  state_->Wake();
}

void RealLoop::ObserveTurns(std::function<void(Duration)> turn) {
  state_->observe_turn = std::move(turn);
}

bool RealLoop::OnLoopThread() const { return state_->thread.load() == std::this_thread::get_id(); }

std::unique_ptr<DescriptorWatch> RealLoop::Watch(int descriptor, Interest interest,
                                                 DescriptorCallback callback) {
  state_->CheckThread();
  const std::uint64_t id = state_->next_id++;
  state_->watches.emplace(id, std::move(callback));
  std::unique_ptr<DescriptorWatch> watch(new DescriptorWatch(*state_, id, descriptor));
  watch->SetInterest(interest);
  return watch;
}

DescriptorWatch::~DescriptorWatch() {
  SetInterest({});
  loop_.watches.extract(id_);
}

void DescriptorWatch::SetInterest(Interest interest) {
  if (interest == interest_) return;
  // Without any interest the descriptor leaves the set: epoll would go on reporting a peer that
  // hung up, turn after turn.
  const bool was_in_set = interest_ != Interest{};
  const bool stays_in_set = interest != Interest{};
  const int operation =
      !was_in_set ? EPOLL_CTL_ADD : (stays_in_set ? EPOLL_CTL_MOD : EPOLL_CTL_DEL);
  loop_.Control(operation, descriptor_, id_, EpollMask(interest));
  interest_ = interest;
}

}  // namespace nstance
