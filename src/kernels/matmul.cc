#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "base/check.h"
#include "kernels/isa.h"
#include "kernels/matmul_driver.h"
#include "kernels/matmul_float.h"
#include "kernels/matmul_tables.h"

namespace tahmin::kernels {
namespace {

static_assert(kLanes == kRowGroup);
static_assert(static_cast<int>(PackedLayout::kQ8Block) + 1 == kNumIntegerLayouts);

constexpr int32_t kMaxPassRows = 64;  // activation rows of one kernel call
constexpr int64_t kActivationBytes = 192
                                     << 10;  // of those rows: they stay in the second-level cache
constexpr int64_t kMinTaskBytes = 8 << 10;   // of packed weights; a smaller task is all overhead
constexpr int64_t kMaxTaskBytes = 64 << 10;  // stays in the second-level cache over all passes
constexpr int64_t kTasksPerThread = 16;

const MatMulTable& ActiveTable() {
  switch (ActiveIsa()) {
#if defined(__x86_64__)
    case Isa::kAvx512Vnni:
      return kMatMulAvx512Vnni;
    case Isa::kAvxVnni:
      return kMatMulAvxVnni;
    case Isa::kAvx2:
      return kMatMulAvx2;
#elif defined(__aarch64__)
    case Isa::kNeonDot:
      return kMatMulNeonDot;
#endif
    default:
      return kMatMulPortable;
  }
}

// The outputs of one group of weight rows.
struct GroupOut {
  const MatMulJob& job;
  int64_t group;

  // Residual rows (each directly behind its base row) are added here, then the bias.
  void Write(const float* base, const float* residual, int64_t base_row) const {
    const int64_t first = group * kRowGroup;
    const int64_t count = std::min(kRowGroup, job.matrix->rows() - first);
    float result[kRowGroup];
    std::memcpy(result, base, sizeof(result));
    if (residual != nullptr) {
      for (int64_t i = 0; i < kRowGroup; ++i) result[i] += residual[i];
    }
    if (job.bias != nullptr) {
      for (int64_t i = 0; i < count; ++i) result[i] += job.bias[first + i];
    }
    std::memcpy(job.out + base_row * job.out_stride + first, result, count * sizeof(float));
  }
};

// Groups [begin, end) of one matrix.
struct Task {
  const MatMulJob& job;
  int64_t begin;
  int64_t end;
};

int32_t PassRows(int64_t columns, int64_t element_bytes) {
  const int64_t rows = kActivationBytes / (columns * element_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(rows, 16, kMaxPassRows));
}

void RunIntegerTask(const Task& task, const ActivationRows& input, const MatMulTable& table) {
  const PackedMatrix& matrix = *task.job.matrix;
  const std::span<const QuantizedRow> rows = input.quantized_rows();
  const GroupKernel kernel = table.kernels[static_cast<int>(matrix.layout())];
  alignas(64) float results[kMaxPassRows * kRowGroup];
  GroupPass pass{};
  pass.columns = matrix.columns();
  pass.halves_bytes = static_cast<int64_t>(matrix.halves_bytes());
  pass.block = input.format().block;
  pass.has_min = matrix.has_min();
  pass.zero_point = matrix.zero_point();
  pass.out = results;
  const size_t max_rows = static_cast<size_t>(PassRows(matrix.columns(), 1));
  for (size_t first = 0; first < rows.size();) {
    size_t last = std::min(rows.size(), first + max_rows);
    if (last < rows.size() && rows[last].is_residual) --last;  // stays with its base row
    pass.rows = rows.data() + first;
    pass.num_rows = static_cast<int32_t>(last - first);
    for (int64_t group = task.begin; group < task.end; ++group) {
      pass.group = matrix.group(group);
      kernel(pass);
      const GroupOut out{task.job, group};
      for (int32_t i = 0; i < pass.num_rows; ++i) {
        if (pass.rows[i].is_residual) continue;
        const bool has_residual = i + 1 < pass.num_rows && pass.rows[i + 1].is_residual;
        const float* result = results + i * kRowGroup;
        out.Write(result, has_residual ? result + kRowGroup : nullptr, pass.rows[i].base_row);
      }
    }
    first = last;
  }
}

void RunFloatTask(const Task& task, const ActivationRows& input) {
  const PackedMatrix& matrix = *task.job.matrix;
  const float* rows[kMaxPassRows];
  alignas(64) float results[kMaxPassRows * kRowGroup];
  FloatGroupPass pass{matrix.layout(), nullptr, matrix.columns(), rows, 0, results};
  const int32_t max_rows = PassRows(matrix.columns(), sizeof(float));
  for (int32_t first = 0; first < input.num_rows(); first += pass.num_rows) {
    pass.num_rows = std::min(max_rows, input.num_rows() - first);
    for (int32_t i = 0; i < pass.num_rows; ++i) rows[i] = input.row(first + i);
    for (int64_t group = task.begin; group < task.end; ++group) {
      pass.group = matrix.group(group);
      FloatMatMulGroup(pass);
      const GroupOut out{task.job, group};
      for (int32_t i = 0; i < pass.num_rows; ++i) {
        out.Write(results + i * kRowGroup, nullptr, first + i);
      }
    }
  }
}

void CheckJobs(std::span<const MatMulJob> jobs, const ActivationRows& input) {
  for (const MatMulJob& job : jobs) {
    TAHMIN_CHECK(job.matrix->columns() == input.columns());
    const bool is_sealed = static_cast<int64_t>(input.quantized_rows().size()) >= input.num_rows();
    TAHMIN_CHECK(job.matrix->is_float() || is_sealed);
  }
}

}  // namespace

void MatMul(std::span<const MatMulJob> jobs, const ActivationRows& input, ThreadPool& pool) {
  MatMulWithTable(ActiveTable(), jobs, input, pool);
}

void MatMulWithTable(const MatMulTable& table, std::span<const MatMulJob> jobs,
                     const ActivationRows& input, ThreadPool& pool) {
  CheckJobs(jobs, input);
  int64_t total_bytes = 0;
  for (const MatMulJob& job : jobs) {
    total_bytes += static_cast<int64_t>(job.matrix->packed_bytes());
  }
  const int64_t task_bytes = std::clamp(total_bytes / (pool.num_threads() * kTasksPerThread),
                                        kMinTaskBytes, kMaxTaskBytes);
  struct JobTasks {
    int64_t first_task;
    int64_t groups_per_task;
  };
  absl::InlinedVector<JobTasks, 8> job_tasks;
  int64_t num_tasks = 0;
  for (const MatMulJob& job : jobs) {
    const int64_t group_bytes = static_cast<int64_t>(job.matrix->group_bytes());
    const int64_t groups = std::max<int64_t>(1, task_bytes / std::max<int64_t>(1, group_bytes));
    job_tasks.push_back({num_tasks, groups});
    num_tasks += (job.matrix->num_groups() + groups - 1) / groups;
  }
  pool.ParallelFor(num_tasks, [&](int64_t task_index, int) {
    size_t j = jobs.size() - 1;
    while (job_tasks[j].first_task > task_index) --j;
    const int64_t begin = (task_index - job_tasks[j].first_task) * job_tasks[j].groups_per_task;
    const int64_t end =
        std::min(begin + job_tasks[j].groups_per_task, jobs[j].matrix->num_groups());
    const Task task{jobs[j], begin, end};
    if (jobs[j].matrix->is_float()) {
      RunFloatTask(task, input);
    } else {
      RunIntegerTask(task, input, table);
    }
  });
}

}  // namespace tahmin::kernels
