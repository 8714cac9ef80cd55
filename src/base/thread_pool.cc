#include "base/thread_pool.h"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"

namespace tahmin {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 32;
constexpr int kNumYields = 3;

inline void CpuPause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Waits actively, and not long, for is_ready. Returns whether it came true; if not, it is time to
// sleep, so that a thread which has the work but not a core can get this one.
template <typename IsReady>
bool SpinUntil(const IsReady& is_ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (is_ready()) return true;
      CpuPause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  for (int i = 0; i < kNumYields; ++i) {
    if (is_ready()) return true;
    std::this_thread::yield();
  }
  return is_ready();
}

// Denormals kept, round to nearest, no traps, for as long as it lives: an embedding program may
// have switched its own thread to flush-to-zero, and results must not depend on who runs a task.
class ScopedFloatMode {
 public:
#if defined(__x86_64__)
  ScopedFloatMode() : saved_(_mm_getcsr()) {
    if (!IsDefault()) _mm_setcsr(kDefaultControl);
  }
  ~ScopedFloatMode() {
    if (!IsDefault()) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefaultControl = 0x1F80;
  static constexpr unsigned kStatusBits = 0x3F;
  bool IsDefault() const { return (saved_ & ~kStatusBits) == kDefaultControl; }
  unsigned saved_;
#else
  ScopedFloatMode() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~ScopedFloatMode() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
 public:
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;
};

}  // namespace

// A task is owned by whoever lowers num_unclaimed. The description of a region (the three plain
// members) is read only while owning a task of it, and the region cannot end before that task is
// reported, so the description is stable and the caller waits for owned tasks only: a worker that
// is asleep, late or without a core holds nothing up. A late worker that claims from the next
// region simply works there.
struct ThreadPool::State {
  Invoke invoke = nullptr;
  void* context = nullptr;
  int64_t num_tasks = 0;

  alignas(64) std::atomic<int64_t> num_unclaimed{0};
  alignas(64) std::atomic<int64_t> num_unfinished{0};

  // The sleeping protocol: a sleeper announces itself and then looks again, the other side changes
  // the counter and then looks for sleepers, all sequentially consistent, so one of them sees the
  // other. Waking takes the mutex, so it cannot fall between a look and the wait.
  alignas(64) std::atomic<int> num_sleeping_workers{0};
  std::atomic<bool> is_caller_asleep{false};
  std::atomic<bool> is_stopping{false};
  std::mutex mutex;
  std::condition_variable work_arrived;
  std::condition_variable work_finished;
  std::vector<std::thread> workers;

  void RunClaimedTasks(int thread_index);
  void WaitUntilFinished();
  void WaitForWork();
  void WakeWorkers();
  void WorkerMain(int thread_index);
};

void ThreadPool::State::RunClaimedTasks(int thread_index) {
  int64_t num_done = 0;
  int64_t unclaimed = num_unclaimed.load(std::memory_order_relaxed);
  while (unclaimed > 0) {
    if (!num_unclaimed.compare_exchange_weak(unclaimed, unclaimed - 1, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      continue;
    }
    invoke(context, num_tasks - unclaimed, thread_index);
    ++num_done;
    unclaimed = num_unclaimed.load(std::memory_order_relaxed);
  }
  if (num_done == 0) return;
  if (num_unfinished.fetch_sub(num_done) != num_done) return;
  if (!is_caller_asleep.load()) return;
  std::lock_guard<std::mutex> lock(mutex);
  work_finished.notify_one();
}

void ThreadPool::State::WaitUntilFinished() {
  const auto is_finished = [this] { return num_unfinished.load(std::memory_order_acquire) == 0; };
  if (is_finished() || SpinUntil(is_finished)) return;
  std::unique_lock<std::mutex> lock(mutex);
  is_caller_asleep.store(true);
  while (num_unfinished.load() != 0) work_finished.wait(lock);
  is_caller_asleep.store(false);
}

void ThreadPool::State::WaitForWork() {
  const auto has_news = [this] {
    return num_unclaimed.load(std::memory_order_relaxed) > 0 ||
           is_stopping.load(std::memory_order_relaxed);
  };
  if (SpinUntil(has_news)) return;
  std::unique_lock<std::mutex> lock(mutex);
  num_sleeping_workers.fetch_add(1);
  while (num_unclaimed.load() == 0 && !is_stopping.load()) work_arrived.wait(lock);
  num_sleeping_workers.fetch_sub(1);
}

void ThreadPool::State::WakeWorkers() {
  if (num_sleeping_workers.load() == 0) return;
  std::lock_guard<std::mutex> lock(mutex);
  work_arrived.notify_all();
}

void ThreadPool::State::WorkerMain(int thread_index) {
  const ScopedFloatMode float_mode;
  while (!is_stopping.load(std::memory_order_acquire)) {
    RunClaimedTasks(thread_index);
    WaitForWork();
  }
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads), state_(std::make_unique<State>()) {
  TAHMIN_CHECK(num_threads >= 1);
  state_->workers.reserve(static_cast<size_t>(num_threads - 1));
  for (int thread_index = 1; thread_index < num_threads; ++thread_index) {
    state_->workers.emplace_back([this, thread_index] { state_->WorkerMain(thread_index); });
  }
}

ThreadPool::~ThreadPool() {
  state_->is_stopping.store(true);
  state_->WakeWorkers();
  for (std::thread& worker : state_->workers) worker.join();
}

void ThreadPool::Run(int64_t num_tasks, Invoke invoke, void* context) {
  const ScopedFloatMode float_mode;
  if (num_tasks <= 1 || num_threads_ == 1) {
    for (int64_t task_index = 0; task_index < num_tasks; ++task_index) {
      invoke(context, task_index, 0);
    }
    return;
  }
  State& state = *state_;
  TAHMIN_DCHECK(state.num_unfinished.load() == 0);
  state.invoke = invoke;
  state.context = context;
  state.num_tasks = num_tasks;
  state.num_unfinished.store(num_tasks, std::memory_order_relaxed);
  state.num_unclaimed.store(num_tasks);
  state.WakeWorkers();
  state.RunClaimedTasks(0);
  state.WaitUntilFinished();
}

}  // namespace tahmin
