// The threads that pack a matrix, and how they go through its rows: slice after slice, all threads
// on one slice. After each slice the calling thread tells that its rows are done, so that what they
// were read from can leave memory before the next ones are read. A plain pool is one slice of which
// nobody hears.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "base/thread_pool.h"

namespace tahmin::kernels {

struct SlicedPool {
  // Implicit: wherever slices are taken, a plain pool will do.
  // NOLINTNEXTLINE(google-explicit-constructor)
  SlicedPool(ThreadPool& pool) : threads(pool) {}

  // Runs body(begin, end) over [0, num_rows) in runs of task_rows rows (the last may be shorter),
  // several at a time. A slice is a whole number of runs.
  template <typename Body>
  void ForRows(int64_t num_rows, int64_t task_rows, Body&& body) const {
    const auto num_tasks = [task_rows](int64_t rows) { return (rows + task_rows - 1) / task_rows; };
    const int64_t step = num_tasks(std::min(slice_rows, num_rows)) * task_rows;
    for (int64_t begin = 0; begin < num_rows; begin += step) {
      const int64_t end = std::min(num_rows, begin + step);
      threads.ParallelFor(num_tasks(end - begin), [&](int64_t task, int) {
        const int64_t first = begin + task * task_rows;
        body(first, std::min(end, first + task_rows));
      });
      if (on_done) on_done(begin, end);
    }
  }

  ThreadPool& threads;
  int64_t slice_rows = std::numeric_limits<int64_t>::max();      // >= 1
  std::function<void(int64_t begin, int64_t end)> on_done = {};  // may be empty
};

}  // namespace tahmin::kernels
