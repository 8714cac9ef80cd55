// A pool that splits independent outputs (weight rows, heads, tokens) over threads. The calling
// thread takes part. Each thread begins with an equal run of neighbouring tasks, so that it reads
// memory in one stream, and then takes the last ones of others: a thread that the system takes away
// delays only the task that it holds. Which thread runs a task never changes a result, because
// tasks never share an output.
//
// Workers spin for a short time after a region (a decoding step opens hundreds of them), then sleep
// in the kernel: an idle program uses no CPU. All threads share one floating-point mode
// (denormals kept, round to nearest), set when a worker starts.
//
// One region runs at a time; ParallelFor may be called from one thread at a time, and not from
// inside a task. Uses std::mutex, std::condition_variable and std::atomic only (TSan-clean).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace tahmin {

class ThreadPool {
 public:
  // num_threads >= 1 counts the caller: 1 means that no worker is started.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Runs body(task_index, thread_index) for task_index in [0, num_tasks), thread_index in
  // [0, num_threads). Returns when all are done. With one task or one thread it runs inline.
  template <typename Body>
  void ParallelFor(int64_t num_tasks, Body&& body) {
    auto invoke = [](void* context, int64_t task_index, int thread_index) {
      (*static_cast<std::remove_reference_t<Body>*>(context))(task_index, thread_index);
    };
    Run(num_tasks, invoke, const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Invoke = void (*)(void* context, int64_t task_index, int thread_index);
  void Run(int64_t num_tasks, Invoke invoke, void* context);

  struct State;
  int num_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace tahmin
