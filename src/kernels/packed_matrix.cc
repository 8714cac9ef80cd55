#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/packing.h"

namespace tahmin::kernels {

std::string_view PackedLayoutName(PackedLayout layout) {
  switch (layout) {
    case PackedLayout::kQ4Super:
      return "q4_super";
    case PackedLayout::kQ5Super:
      return "q5_super";
    case PackedLayout::kQ6Super:
      return "q6_super";
    case PackedLayout::kQ2Super:
      return "q2_super";
    case PackedLayout::kQ4Block:
      return "q4_block";
    case PackedLayout::kQ5Block:
      return "q5_block";
    case PackedLayout::kQ8Block:
      return "q8_block";
    case PackedLayout::kF16:
      return "f16";
    case PackedLayout::kBF16:
      return "bf16";
    case PackedLayout::kF32:
      return "f32";
  }
  return "?";
}

int64_t LayoutBlockColumns(PackedLayout layout) {
  if (layout >= PackedLayout::kF16) return 1;
  return layout <= PackedLayout::kQ2Super ? kSuperColumns : kBlockColumns;
}

size_t PackedMatrix::PackedBytes(TensorType type, int64_t rows, int64_t columns) {
  const PackedGeometry* geometry = FindPackedGeometry(type);
  if (geometry == nullptr || rows <= 0 || columns <= 0) return 0;
  const size_t num_groups = static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup);
  return num_groups * GroupBytes(*geometry, columns);
}

namespace {

// The value of the packed number at `column` of `lane`, in the order of operations that
// DequantizeRow defines.
class GroupReader {
 public:
  GroupReader(const PackedGeometry& geometry, const uint8_t* group, int64_t columns, int64_t lane)
      : geometry_(geometry),
        halves_(group),
        units_(group + HalvesBytes(geometry, columns)),
        lane_(lane) {}

  float Value(int64_t column) const {
    switch (geometry_.layout) {
      case PackedLayout::kF16:
        return HalfToFloat(Load<uint16_t>(column));
      case PackedLayout::kBF16:
        return BfloatToFloat(Load<uint16_t>(column));
      case PackedLayout::kF32:
        return Load<float>(column);
      default:
        break;
    }
    const int64_t unit = column / geometry_.unit_columns;
    const uint8_t* bytes = units_ + unit * geometry_.unit_bytes;
    const int64_t in_unit = column % geometry_.unit_columns;
    const uint8_t* quants = bytes + geometry_.scale_bytes + geometry_.min_bytes +
                            in_unit / kBlockColumns * geometry_.quant_bytes;
    const int32_t quant = Quant(quants, in_unit % kBlockColumns);
    const float d = Half(unit, 0);
    if (geometry_.unit_columns == kBlockColumns) {
      const float value = d * static_cast<float>(quant - geometry_.zero_point);
      return geometry_.has_min ? value + Half(unit, 1) : value;
    }
    const int64_t index = in_unit / geometry_.scale_columns;
    const size_t at = static_cast<size_t>((index / 2 * kLanes + lane_) * 2 + index % 2);
    if (!geometry_.has_min) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(bytes[at]));
      return scale * static_cast<float>(quant - geometry_.zero_point);
    }
    const float scale = d * static_cast<float>(bytes[at]);
    const float min = Half(unit, 1) * static_cast<float>(bytes[geometry_.scale_bytes + at]);
    return scale * static_cast<float>(quant) - min;
  }

 private:
  template <typename T>
  T Load(int64_t column) const {
    T value;
    std::memcpy(&value, units_ + (column * kLanes + lane_) * sizeof(T), sizeof(T));
    return value;
  }

  float Half(int64_t unit, int64_t which) const {
    uint16_t bits;
    const int64_t per_unit = geometry_.has_min ? 2 : 1;
    std::memcpy(&bits, halves_ + ((unit * per_unit + which) * kLanes + lane_) * 2, 2);
    return HalfToFloat(bits);
  }

  int32_t Quant(const uint8_t* quants, int64_t column) const {
    const int64_t quad = column / 4;
    const int64_t byte = lane_ * 4 + column % 4;
    if (geometry_.layout == PackedLayout::kQ8Block) {
      return static_cast<int8_t>(quants[quad * kLineBytes + byte]);
    }
    int32_t value = quants[quad / 2 * kLineBytes + byte] >> (4 * (quad % 2)) & 15;
    const uint8_t* plane = quants + kNibbleBytes;
    if (geometry_.plane_bits == 1) value |= (plane[byte] >> quad & 1) << 4;
    if (geometry_.plane_bits == 2) {
      value |= (plane[quad / 4 * kLineBytes + byte] >> (2 * (quad % 4)) & 3) << 4;
    }
    return value;
  }

  const PackedGeometry& geometry_;
  const uint8_t* halves_;
  const uint8_t* units_;
  int64_t lane_;
};

}  // namespace

void PackedMatrix::UnpackRow(int64_t row, std::span<float> out) const {
  TAHMIN_CHECK(row >= 0 && row < rows_ && static_cast<int64_t>(out.size()) == columns_);
  const PackedGeometry* geometry = FindPackedGeometry(source_type_);
  const GroupReader reader(*geometry, group(row / kRowGroup), columns_, row % kRowGroup);
  for (int64_t column = 0; column < columns_; ++column) out[column] = reader.Value(column);
}

}  // namespace tahmin::kernels
