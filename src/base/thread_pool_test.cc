#include "base/thread_pool.h"

#include <time.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tahmin {
namespace {

class ThreadPoolSizes : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolSizes, RunsEveryTaskOnceWithValidThreadIndex) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.num_threads(), GetParam());
  for (const int64_t num_tasks : {0, 1, 2, 3, 7, 64, 1000}) {
    // Plain ints: a task that ran twice at once, or after the return, is a race for TSan to see.
    std::vector<int> num_runs(static_cast<size_t>(num_tasks), 0);
    std::atomic<bool> is_index_valid{true};
    pool.ParallelFor(num_tasks, [&](int64_t task_index, int thread_index) {
      ++num_runs[static_cast<size_t>(task_index)];
      if (thread_index < 0 || thread_index >= GetParam()) is_index_valid = false;
    });
    EXPECT_EQ(num_runs, std::vector<int>(static_cast<size_t>(num_tasks), 1));
    EXPECT_TRUE(is_index_valid);
  }
}

TEST_P(ThreadPoolSizes, ThreadIndexIsNeverSharedByTwoRunningTasks) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> per_thread(static_cast<size_t>(GetParam()), 0);
  constexpr int64_t kNumTasks = 10000;
  pool.ParallelFor(kNumTasks, [&](int64_t, int thread_index) {
    ++per_thread[static_cast<size_t>(thread_index)];
  });
  EXPECT_EQ(std::accumulate(per_thread.begin(), per_thread.end(), int64_t{0}), kNumTasks);
}

TEST_P(ThreadPoolSizes, ManyTinyRegionsSeeEachOthersWrites) {
  ThreadPool pool(GetParam());
  constexpr int kNumRegions = 100000;
  std::vector<int64_t> values(4, 0);
  for (int region = 0; region < kNumRegions; ++region) {
    // Each task reads what another task, likely on another thread, wrote one region before.
    std::vector<int64_t> next(values.size());
    pool.ParallelFor(4, [&](int64_t task_index, int) {
      next[static_cast<size_t>(task_index)] = values[static_cast<size_t>((task_index + 1) % 4)] + 1;
    });
    values = next;
  }
  EXPECT_EQ(values, std::vector<int64_t>(4, kNumRegions));
}

TEST_P(ThreadPoolSizes, WakesAfterSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(100, [&](int64_t task_index, int) { sum += task_index; });
    ASSERT_EQ(sum, 4950);
  }
}

// The gap between regions is about as long as the workers spin: the hardest place for wake-ups.
TEST_P(ThreadPoolSizes, NoWakeUpIsLostAroundTheSpinLimit) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 2000; ++round) {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::microseconds(40 + round % 40);
    while (std::chrono::steady_clock::now() < until) {
    }
    std::atomic<int64_t> sum{0};
    pool.ParallelFor(3, [&](int64_t task_index, int) { sum += task_index; });
    ASSERT_EQ(sum, 3);
  }
}

TEST_P(ThreadPoolSizes, StartsAndStopsWithoutWork) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolSizes, testing::Values(1, 2, 3, 5));

int64_t ProcessCpuNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

TEST(ThreadPool, IdleUsesNoCpu) {
  ThreadPool pool(4);
  pool.ParallelFor(100, [](int64_t, int) {});
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // the workers' spin, on a busy machine
  const int64_t before = ProcessCpuNanoseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(ProcessCpuNanoseconds() - before, 4'000'000);
}

// A caller that waits for a worker's long task must leave its core to others.
TEST(ThreadPool, WaitingCallerSleeps) {
  ThreadPool pool(2);
  std::atomic<int> num_started{0};
  int64_t before = 0;
  pool.ParallelFor(2, [&](int64_t, int thread_index) {
    ++num_started;
    while (num_started < 2) std::this_thread::yield();
    if (thread_index == 0) {
      before = ProcessCpuNanoseconds();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  EXPECT_LT(ProcessCpuNanoseconds() - before, 20'000'000);
}

// Workers that are held up hold up only the tasks that they own.
TEST(ThreadPool, CallerFinishesAloneWhileAWorkerIsStuckInOneTask) {
  ThreadPool pool(2);
  std::atomic<int> num_done{0};
  std::atomic<bool> is_worker_inside{false};
  pool.ParallelFor(100, [&](int64_t, int thread_index) {
    if (thread_index == 1) {
      is_worker_inside = true;
      while (num_done < 99) std::this_thread::yield();  // returns only if the caller did the rest
    } else {
      while (!is_worker_inside) std::this_thread::yield();
    }
    ++num_done;
  });
  EXPECT_EQ(num_done, 100);
}

#if defined(__x86_64__)
TEST(ThreadPool, TasksKeepDenormalsWhateverTheCallersMode) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
  ThreadPool pool(3);
  const volatile float smallest = std::numeric_limits<float>::min();
  std::vector<uint32_t> bits(300, 0);
  pool.ParallelFor(300, [&](int64_t task_index, int) {
    const volatile float half = smallest * 0.5f;
    const float copy = half;
    std::memcpy(&bits[static_cast<size_t>(task_index)], &copy, sizeof(copy));
  });
  EXPECT_EQ(_mm_getcsr() & 0x8040u, 0x8040u);  // the caller's own mode is back
  _mm_setcsr(saved);
  EXPECT_EQ(bits, std::vector<uint32_t>(300, 0x00400000u));
}
#endif

}  // namespace
}  // namespace tahmin
