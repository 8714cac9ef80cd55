// The contract between the matmul driver and the per-ISA kernels: the byte layout of one packed
// group (kRowGroup weight rows), the arguments of one pass over a group, and the table of kernels
// that every ISA exports. A plain header: the per-ISA translation units include nothing else of
// ours, because the linker may keep any copy of a shared inline function, compiled for the wrong
// CPU.
//
// A group is a section of f16 numbers, rounded up to 64 bytes, followed by its units. A unit is 256
// columns of a super layout or 32 columns of a block layout. All numbers are interleaved over the
// 16 weight rows ("lanes").
//   f16 section   per unit: d [16], then, where the layout has minima, m [16]
//   unit, by layout:
//     kQ4Super    scales [4][16][2] u8, mins [4][16][2] u8 (pairs of 32 columns), 8 x quants
//     kQ5Super    the same; quants with a bit plane
//     kQ6Super    scales [8][16][2] s8 (pairs of 16 columns), 8 x quants with a two-bit plane
//     kQ2Super    scales [8][16][2] u8, mins [8][16][2] u8 (pairs of 16 columns), 8 x quants
//     kQ4Block, kQ5Block, kQ8Block    quants
//   quants        32 columns x 16 rows, as 8 "quads" of 4 consecutive columns:
//     nibbles     4 lines of 64 bytes; byte [lane][c] of line l has column c of quad 2l in its low
//                 nibble and of quad 2l + 1 in its high nibble
//     bit plane   one line after the nibbles; bit j of byte [lane][c] is the fifth bit of quad j
//     2-bit plane two lines after the nibbles; bits 2f, 2f + 1 of byte [lane][c] of line p are the
//                 upper two bits of quad 4p + f
//     bytes       (kQ8Block) 8 lines; byte [lane][c] of line j is column c of quad j, signed
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quantized_row.h"

namespace tahmin::kernels {

constexpr int kLanes = 16;                    // weight rows of a group
constexpr int kLineBytes = 64;                // 16 lanes of 4 bytes
constexpr int kSuperColumns = 256;            // columns of a super unit
constexpr int kBlockColumns = 32;             // columns of a block unit, and of one run of quants
constexpr int kNibbleBytes = 4 * kLineBytes;  // nibbles of 32 columns
constexpr int kBitPlaneBytes = kLineBytes;    // fifth bits of 32 columns
constexpr int kTwoBitPlaneBytes = 2 * kLineBytes;             // upper two bits of 32 columns
constexpr int kByteQuantBytes = 8 * kLineBytes;               // 8-bit quants of 32 columns
constexpr int kScales32Bytes = 8 * kLanes;                    // one byte per 32 columns and lane
constexpr int kScales16Bytes = 16 * kLanes;                   // one byte per 16 columns and lane
constexpr int kHalvesBytes = 2 * kLanes;                      // one f16 per lane
constexpr int kQ4BlockZeroPoint = 8, kQ5BlockZeroPoint = 16;  // of block layouts without minima

// Kernels of the integer layouts are indexed by PackedLayout's first values.
constexpr int kNumIntegerLayouts = 7;

// One group of weight rows times some activation rows.
struct GroupPass {
  const uint8_t* group;
  int64_t columns;
  int64_t halves_bytes;  // size of the f16 section
  const QuantizedRow* rows;
  int32_t num_rows;
  int32_t block;       // activation columns that share one scale
  bool has_min;        // block layouts: m is stored
  int32_t zero_point;  // block layouts: value = d * (quant - zero_point)
  float* out;          // [num_rows][16], 64-byte aligned, written
};

// Writes out[row][lane] for all rows. The bits of a row depend on the group and on that row alone.
using GroupKernel = void (*)(const GroupPass& pass);

struct MatMulTable {
  GroupKernel kernels[kNumIntegerLayouts];  // [PackedLayout]
};

// The AVX2 kernels of the block layouts are a file of their own (matmul_avx2_blocks.cc).
void MatMulQ4BlockAvx2(const GroupPass& pass);
void MatMulQ5BlockAvx2(const GroupPass& pass);
void MatMulQ8BlockAvx2(const GroupPass& pass);

extern const MatMulTable kMatMulPortable;
extern const MatMulTable kMatMulNeonDot;
extern const MatMulTable kMatMulAvx2;
extern const MatMulTable kMatMulAvxVnni;
extern const MatMulTable kMatMulAvx512Vnni;

}  // namespace tahmin::kernels
