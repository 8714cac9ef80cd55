// How each GGUF type maps to a packed layout: sizes of the parts of a group, and the numbers that
// tell its values. packing.cc fills groups, packed_matrix.cc reads them back, matmul_tables.h draws
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor_type.h"
#include "kernels/matmul_tables.h"
#include "kernels/packed_matrix.h"

namespace tahmin::kernels {

struct PackedGeometry {
  TensorType type;
  PackedLayout layout;
  bool has_min;           // m is stored beside d
  int32_t zero_point;     // subtracted from the stored quant; 0 where has_min
  int32_t unit_columns;   // 256, 32, or 1 for float layouts
  int32_t scale_columns;  // columns per integer scale (super layouts), else 0
  int32_t plane_bits;     // bits of a quant that are kept outside the nibbles
  int32_t scale_bytes;    // integer scales of a unit
  int32_t min_bytes;      // integer minima of a unit
  int32_t quant_bytes;    // quants of 32 columns (float layouts: of one column)
  int32_t unit_bytes;
};

const PackedGeometry* FindPackedGeometry(TensorType type);  // nullptr: no weight

size_t HalvesBytes(const PackedGeometry& geometry, int64_t columns);  // f16 section of a group
size_t GroupBytes(const PackedGeometry& geometry, int64_t columns);

}  // namespace tahmin::kernels
