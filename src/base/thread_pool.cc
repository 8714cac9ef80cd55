#include "base/thread_pool.h"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
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

// Tasks [begin, end) that nobody has taken, in one word so that one compare-and-swap takes one of
// them: its thread from the front, others from the back.
class TaskRange {
 public:
  void Publish(uint64_t begin, uint64_t end) { word_.store(begin << 32 | end); }

  // The index of a task that is now the caller's, or -1.
  int64_t TakeFirst() { return Take(/*is_first=*/true); }
  int64_t TakeLast() { return Take(/*is_first=*/false); }

 private:
  int64_t Take(bool is_first) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (true) {
      const uint64_t begin = word >> 32, end = word & 0xffffffff;
      if (begin >= end) return -1;
      const uint64_t rest = is_first ? (begin + 1) << 32 | end : begin << 32 | (end - 1);
      if (!word_.compare_exchange_weak(word, rest, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        continue;
      }
      return static_cast<int64_t>(is_first ? begin : end - 1);
    }
  }

  alignas(64) std::atomic<uint64_t> word_{0};
};

}  // namespace

// A region's tasks are split evenly into one range for each thread, so that a thread's tasks are
// neighbours in memory; whoever has none left takes from the others. A task is owned by whoever
// took it. The description of a region (the two plain members) is read only while owning a task of
// it, and the region cannot end before that task is reported, so the description is stable and the
// caller waits for owned tasks only: a worker that is asleep, late or without a core holds nothing
// up. A late worker that takes a task of the next region simply works there.
struct ThreadPool::State {
  explicit State(int num_threads) : ranges(static_cast<size_t>(num_threads)) {}

  Invoke invoke = nullptr;
  void* context = nullptr;

  std::vector<TaskRange> ranges;  // by thread
  alignas(64) std::atomic<int64_t> num_unfinished{0};
  alignas(64) std::atomic<uint64_t> num_regions{0};  // published so far

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

  int64_t TakeTask(int thread_index);
  void RunTasks(int thread_index);
  void WaitUntilFinished();
  void WaitForRegion(uint64_t num_seen);
  void WakeWorkers();
  void WorkerMain(int thread_index);
};

int64_t ThreadPool::State::TakeTask(int thread_index) {
  const size_t own = static_cast<size_t>(thread_index);
  int64_t task_index = ranges[own].TakeFirst();
  for (size_t i = 1; task_index < 0 && i < ranges.size(); ++i)
    task_index = ranges[(own + i) % ranges.size()].TakeLast();
  return task_index;
}

void ThreadPool::State::RunTasks(int thread_index) {
  int64_t num_done = 0;
  for (int64_t task; (task = TakeTask(thread_index)) >= 0; ++num_done)
    invoke(context, task, thread_index);
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

void ThreadPool::State::WaitForRegion(uint64_t num_seen) {
  const auto has_news = [this, num_seen] {
    return num_regions.load(std::memory_order_relaxed) != num_seen ||
           is_stopping.load(std::memory_order_relaxed);
  };
  if (SpinUntil(has_news)) return;
  std::unique_lock<std::mutex> lock(mutex);
  num_sleeping_workers.fetch_add(1);
  while (num_regions.load() == num_seen && !is_stopping.load()) work_arrived.wait(lock);
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
    // Read before the tasks are looked at: what is published after that is news.
    const uint64_t num_seen = num_regions.load(std::memory_order_acquire);
    RunTasks(thread_index);
    WaitForRegion(num_seen);
  }
}

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads), state_(std::make_unique<State>(num_threads)) {
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
  TAHMIN_CHECK(num_tasks <= UINT32_MAX);
  state.invoke = invoke;
  state.context = context;
  state.num_unfinished.store(num_tasks, std::memory_order_relaxed);
  const auto total = static_cast<uint64_t>(num_tasks);
  const auto num_threads = static_cast<uint64_t>(num_threads_);
  for (uint64_t i = 0; i < num_threads; ++i)
    state.ranges[i].Publish(i * total / num_threads, (i + 1) * total / num_threads);
  state.num_regions.fetch_add(1);
  state.WakeWorkers();
  state.RunTasks(0);
  state.WaitUntilFinished();
}

}  // namespace tahmin
