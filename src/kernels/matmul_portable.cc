// Integer matmul kernels in plain C++, for CPUs without a kernel of their own and as a second
// opinion in tests: lane by lane over the same groups as the vector kernels, products and sums
// rounded one by one.
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "kernels/matmul_tables.h"

namespace tahmin::kernels {
namespace portable {
namespace {

constexpr int kQuads = 8;  // quads of 4 columns in a run of quants

// 32 columns x 16 lanes as [quad][lane][4], zero points not subtracted.
struct Quants {
  int8_t values[kQuads][kLanes][4];
};

template <int kPlaneBits>
void UnpackNibbles(const uint8_t* bytes, Quants& quants) {
  for (int quad = 0; quad < kQuads; ++quad) {
    const uint8_t* line = bytes + quad / 2 * kLineBytes;
    const uint8_t* plane = bytes + kNibbleBytes;
    if (kPlaneBits == 2) plane += quad / 4 * kLineBytes;
    const int shift = kPlaneBits == 1 ? quad : quad % 4 * 2;
    const int mask = kPlaneBits == 1 ? 1 : 3;
    int8_t* out = &quants.values[quad][0][0];
    for (int i = 0; i < kLineBytes; ++i) {
      int value = line[i] >> (quad % 2 * 4) & 15;
      if (kPlaneBits > 0) value |= (plane[i] >> shift & mask) << 4;
      out[i] = static_cast<int8_t>(value);
    }
  }
}

void UnpackBytes(const uint8_t* bytes, Quants& quants) {
  int8_t* out = &quants.values[0][0][0];
  for (int i = 0; i < kByteQuantBytes; ++i) out[i] = static_cast<int8_t>(bytes[i]);
}

// dots[lane] = quants . x over `num_quads` quads from `first`.
void Dot(const Quants& quants, const int8_t* x, int first, int num_quads, int32_t (&dots)[kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane) dots[lane] = 0;
  for (int quad = first; quad < first + num_quads; ++quad) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int8_t* w = quants.values[quad][lane];
      const int8_t* v = x + 4 * quad;
      dots[lane] += w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3];
    }
  }
}

void LoadHalves(const uint8_t* bytes, float (&out)[kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    uint16_t bits;
    __builtin_memcpy(&bits, bytes + 2 * lane, 2);
    out[lane] = HalfToFloat(bits);
  }
}

void ClearOut(const GroupPass& pass) {
  for (int32_t i = 0; i < pass.num_rows * kLanes; ++i) pass.out[i] = 0.0f;
}

// ---- Super layouts -----------------------------------------------------------------------------

template <int kPlaneBitsOf, int kScaleColumnsOf, bool kHasMinOf>
struct SuperLayout {
  static constexpr int kPlaneBits = kPlaneBitsOf, kScaleColumns = kScaleColumnsOf;
  static constexpr bool kHasMin = kHasMinOf;
  static constexpr int kScaleBytes = kSuperColumns / kScaleColumns * kLanes;
  static constexpr int kMinBytes = kHasMin ? kScaleBytes : 0;
  static constexpr int kQuantBytes = kNibbleBytes + kPlaneBits * kLineBytes;
  static constexpr int kNumRuns = kSuperColumns / kBlockColumns;
  static constexpr int kUnitBytes = kScaleBytes + kMinBytes + kNumRuns * kQuantBytes;
  static constexpr int kUnitHalves = (kHasMin ? 2 : 1) * kHalvesBytes;
};

// One unit, unpacked for all rows.
template <typename L>
struct SuperUnit {
  float d[kLanes];
  float m[kLanes];
  int32_t scales[kSuperColumns / L::kScaleColumns][kLanes];
  int32_t mins[kSuperColumns / L::kScaleColumns][kLanes];
  Quants runs[L::kNumRuns];
};

template <typename L>
void UnpackUnit(const uint8_t* halves, const uint8_t* bytes, SuperUnit<L>& unit) {
  LoadHalves(halves, unit.d);
  if (L::kHasMin) LoadHalves(halves + kHalvesBytes, unit.m);
  for (int i = 0; i < kSuperColumns / L::kScaleColumns; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int at = (i / 2 * kLanes + lane) * 2 + i % 2;
      if (L::kHasMin) {
        unit.scales[i][lane] = bytes[at];
        unit.mins[i][lane] = bytes[L::kScaleBytes + at];
      } else {
        // value = scale * (quant - 32): the zero point acts as a minimum of 32 scales.
        unit.scales[i][lane] = static_cast<int8_t>(bytes[at]);
        unit.mins[i][lane] = 32 * unit.scales[i][lane];
      }
    }
  }
  const uint8_t* quants = bytes + L::kScaleBytes + L::kMinBytes;
  for (int run = 0; run < L::kNumRuns; ++run) {
    UnpackNibbles<L::kPlaneBits>(quants + run * L::kQuantBytes, unit.runs[run]);
  }
}

// out += the unit times one row; one float step per activation block.
template <typename L>
void AddUnit(const SuperUnit<L>& unit, const QuantizedRow& row, int64_t row_column, int32_t block,
             float* out) {
  for (int first = 0; first < kSuperColumns; first += block) {
    int32_t dots[kLanes] = {};
    int32_t min_dots[kLanes] = {};
    for (int column = first; column < first + block; column += L::kScaleColumns) {
      int32_t dot[kLanes];
      Dot(unit.runs[column / 32], row.values + row_column + column / 32 * 32, column % 32 / 4,
          L::kScaleColumns / 4, dot);
      const int index = column / L::kScaleColumns;
      const int64_t sum_index = (row_column + column) / L::kScaleColumns;
      const int32_t sum = L::kScaleColumns == 16 ? row.sums16[sum_index] : row.sums32[sum_index];
      for (int lane = 0; lane < kLanes; ++lane) {
        dots[lane] += unit.scales[index][lane] * dot[lane];
        min_dots[lane] += unit.mins[index][lane] * sum;
      }
    }
    const float scale = row.scales[(row_column + first) / block];
    for (int lane = 0; lane < kLanes; ++lane) {
      if (L::kHasMin) {
        out[lane] += static_cast<float>(dots[lane]) * (unit.d[lane] * scale);
        out[lane] -= static_cast<float>(min_dots[lane]) * (unit.m[lane] * scale);
      } else {
        out[lane] += static_cast<float>(dots[lane] - min_dots[lane]) * (unit.d[lane] * scale);
      }
    }
  }
}

template <typename L>
void Super(const GroupPass& pass) {
  ClearOut(pass);
  SuperUnit<L> unit;
  for (int64_t u = 0; u < pass.columns / kSuperColumns; ++u) {
    UnpackUnit<L>(pass.group + u * L::kUnitHalves,
                  pass.group + pass.halves_bytes + u * L::kUnitBytes, unit);
    for (int32_t row = 0; row < pass.num_rows; ++row) {
      AddUnit<L>(unit, pass.rows[row], u * kSuperColumns, pass.block, pass.out + row * kLanes);
    }
  }
}

// ---- Block layouts -----------------------------------------------------------------------------

struct NibbleBlock {
  static constexpr int kQuantBytes = kNibbleBytes;
  static void Unpack(const uint8_t* bytes, Quants& quants) { UnpackNibbles<0>(bytes, quants); }
};
struct FiveBitBlock {
  static constexpr int kQuantBytes = kNibbleBytes + kBitPlaneBytes;
  static void Unpack(const uint8_t* bytes, Quants& quants) { UnpackNibbles<1>(bytes, quants); }
};
struct ByteBlock {
  static constexpr int kQuantBytes = kByteQuantBytes;
  static void Unpack(const uint8_t* bytes, Quants& quants) { UnpackBytes(bytes, quants); }
};

template <typename L>
void Block(const GroupPass& pass) {
  ClearOut(pass);
  const int unit_halves = (pass.has_min ? 2 : 1) * kHalvesBytes;
  Quants quants;
  float d[kLanes];
  float m[kLanes] = {};
  for (int64_t u = 0; u < pass.columns / kBlockColumns; ++u) {
    const uint8_t* halves = pass.group + u * unit_halves;
    LoadHalves(halves, d);
    if (pass.has_min) LoadHalves(halves + kHalvesBytes, m);
    L::Unpack(pass.group + pass.halves_bytes + u * L::kQuantBytes, quants);
    for (int32_t r = 0; r < pass.num_rows; ++r) {
      const QuantizedRow& row = pass.rows[r];
      float* out = pass.out + r * kLanes;
      int32_t dots[kLanes];
      Dot(quants, row.values + u * kBlockColumns, 0, kQuads, dots);
      const float scale = row.scales[u * kBlockColumns / pass.block];
      const int32_t zero = pass.zero_point * row.sums32[u];
      for (int lane = 0; lane < kLanes; ++lane) {
        out[lane] += static_cast<float>(dots[lane] - zero) * (d[lane] * scale);
      }
      if (!pass.has_min) continue;
      for (int lane = 0; lane < kLanes; ++lane) out[lane] += m[lane] * row.scaled_sums[u];
    }
  }
}

}  // namespace
}  // namespace portable

const MatMulTable kMatMulPortable = {{
    portable::Super<portable::SuperLayout<0, 32, true>>,
    portable::Super<portable::SuperLayout<1, 32, true>>,
    portable::Super<portable::SuperLayout<2, 16, false>>,
    portable::Super<portable::SuperLayout<0, 16, true>>,
    portable::Block<portable::NibbleBlock>,
    portable::Block<portable::FiveBitBlock>,
    portable::Block<portable::ByteBlock>,
}};

}  // namespace tahmin::kernels
