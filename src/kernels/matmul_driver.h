// The driver of matmul.h with the kernels named by the caller: tests run tables that ActiveIsa()
// would not pick (an emulated one).
#pragma once

#include <span>

#include "kernels/matmul.h"
#include "kernels/matmul_tables.h"

namespace tahmin::kernels {

void MatMulWithTable(const MatMulTable& table, std::span<const MatMulJob> jobs,
                     const ActivationRows& input, ThreadPool& pool);

}  // namespace tahmin::kernels
