#include "kernels/packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace tahmin::kernels {
namespace {

constexpr PackedGeometry Super(TensorType type, PackedLayout layout, bool has_min,
                               int32_t zero_point, int32_t scale_columns, int32_t plane_bits) {
  const int32_t scales = kSuperColumns / scale_columns * kLanes;
  const int32_t quants = kNibbleBytes + plane_bits * kLineBytes;
  const int32_t mins = has_min ? scales : 0;
  const int32_t unit = scales + mins + kSuperColumns / kBlockColumns * quants;
  return {type,       layout, has_min, zero_point, kSuperColumns, scale_columns,
          plane_bits, scales, mins,    quants,     unit};
}

constexpr PackedGeometry Block(TensorType type, PackedLayout layout, bool has_min,
                               int32_t zero_point, int32_t plane_bits, int32_t quants) {
  return {type, layout, has_min, zero_point, kBlockColumns, 0, plane_bits, 0, 0, quants, quants};
}

constexpr PackedGeometry Float(TensorType type, PackedLayout layout, int32_t element_bytes) {
  const int32_t column = element_bytes * kLanes;
  return {type, layout, false, 0, 1, 0, 0, 0, 0, column, column};
}

// Q3_K's quants are stored plus 28, so that they share Q6_K's zero point.
constexpr int32_t kQ3Shift = 28;

constexpr PackedGeometry kGeometries[] = {
    Super(TensorType::kQ4_K, PackedLayout::kQ4Super, true, 0, 32, 0),
    Super(TensorType::kQ5_K, PackedLayout::kQ5Super, true, 0, 32, 1),
    Super(TensorType::kQ6_K, PackedLayout::kQ6Super, false, 32, 16, 2),
    Super(TensorType::kQ3_K, PackedLayout::kQ6Super, false, 32, 16, 2),
    Super(TensorType::kQ2_K, PackedLayout::kQ2Super, true, 0, 16, 0),
    Block(TensorType::kQ4_0, PackedLayout::kQ4Block, false, kQ4BlockZeroPoint, 0, kNibbleBytes),
    Block(TensorType::kQ4_1, PackedLayout::kQ4Block, true, 0, 0, kNibbleBytes),
    Block(TensorType::kQ5_0, PackedLayout::kQ5Block, false, kQ5BlockZeroPoint, 1,
          kNibbleBytes + kBitPlaneBytes),
    Block(TensorType::kQ5_1, PackedLayout::kQ5Block, true, 0, 1, kNibbleBytes + kBitPlaneBytes),
    Block(TensorType::kQ8_0, PackedLayout::kQ8Block, false, 0, 0, kByteQuantBytes),
    Float(TensorType::kF16, PackedLayout::kF16, 2),
    Float(TensorType::kBF16, PackedLayout::kBF16, 2),
    Float(TensorType::kF32, PackedLayout::kF32, 4),
};

// One row's unit, decoded: quants as bytes (Q8_0: signed), integer scales and minima, f16 bits.
struct DecodedUnit {
  uint8_t quants[kSuperColumns];
  uint8_t scales[16];
  uint8_t mins[16];
  uint16_t d = 0;
  uint16_t m = 0;
};

void Decode(const BlockQ4_0& block, DecodedUnit& unit) {
  unit.d = block.d;
  for (int i = 0; i < 16; ++i) {
    unit.quants[i] = block.qs[i] & 15;
    unit.quants[i + 16] = block.qs[i] >> 4;
  }
}

void Decode(const BlockQ4_1& block, DecodedUnit& unit) {
  unit.d = block.d;
  unit.m = block.m;
  for (int i = 0; i < 16; ++i) {
    unit.quants[i] = block.qs[i] & 15;
    unit.quants[i + 16] = block.qs[i] >> 4;
  }
}

uint32_t LoadWord(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, 4);
  return word;
}

void StoreWord(uint8_t* bytes, uint32_t word) { std::memcpy(bytes, &word, 4); }

// Sets bit 4 of quant i from bit i of the mask, four at a time: the product puts bit j of a nibble
// at bit 8 j.
void AddFifthBits(const uint8_t (&mask)[4], uint8_t* quants) {
  const uint32_t bits = LoadWord(mask);
  for (int quad = 0; quad < 8; ++quad) {
    const uint32_t spread = (bits >> (4 * quad) & 15) * 0x00204081u & 0x01010101u;
    StoreWord(quants + 4 * quad, LoadWord(quants + 4 * quad) | spread << 4);
  }
}

void Decode(const BlockQ5_0& block, DecodedUnit& unit) {
  unit.d = block.d;
  for (int i = 0; i < 16; ++i) {
    unit.quants[i] = block.qs[i] & 15;
    unit.quants[i + 16] = block.qs[i] >> 4;
  }
  AddFifthBits(block.qh, unit.quants);
}

void Decode(const BlockQ5_1& block, DecodedUnit& unit) {
  unit.d = block.d;
  unit.m = block.m;
  for (int i = 0; i < 16; ++i) {
    unit.quants[i] = block.qs[i] & 15;
    unit.quants[i + 16] = block.qs[i] >> 4;
  }
  AddFifthBits(block.qh, unit.quants);
}

void Decode(const BlockQ8_0& block, DecodedUnit& unit) {
  unit.d = block.d;
  std::memcpy(unit.quants, block.qs, 32);
}

// The eight 6-bit scales and minima of Q4_K and Q5_K.
void DecodeScales(const uint8_t (&packed)[12], DecodedUnit& unit) {
  for (int j = 0; j < 4; ++j) {
    unit.scales[j] = packed[j] & 63;
    unit.mins[j] = packed[j + 4] & 63;
    unit.scales[j + 4] = (packed[j + 8] & 15) | (packed[j] >> 6) << 4;
    unit.mins[j + 4] = (packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4;
  }
}

void Decode(const BlockQ4_K& block, DecodedUnit& unit) {
  unit.d = block.d;
  unit.m = block.dmin;
  DecodeScales(block.scales, unit);
  for (int part = 0; part < 4; ++part) {
    const uint8_t* bytes = block.qs + 32 * part;
    uint8_t* quants = unit.quants + 64 * part;
    for (int i = 0; i < 32; ++i) quants[i] = bytes[i] & 15;
    for (int i = 0; i < 32; ++i) quants[i + 32] = bytes[i] >> 4;
  }
}

void Decode(const BlockQ5_K& block, DecodedUnit& unit) {
  unit.d = block.d;
  unit.m = block.dmin;
  DecodeScales(block.scales, unit);
  for (int part = 0; part < 4; ++part) {
    const uint8_t* bytes = block.qs + 32 * part;
    uint8_t* quants = unit.quants + 64 * part;
    for (int i = 0; i < 32; ++i) {
      quants[i] = (bytes[i] & 15) | (block.qh[i] >> (2 * part) & 1) << 4;
      quants[i + 32] = (bytes[i] >> 4) | (block.qh[i] >> (2 * part + 1) & 1) << 4;
    }
  }
}

void Decode(const BlockQ6_K& block, DecodedUnit& unit) {
  unit.d = block.d;
  std::memcpy(unit.scales, block.scales, 16);
  for (int part = 0; part < 2; ++part) {
    const uint8_t* low = block.ql + 64 * part;
    const uint8_t* high = block.qh + 32 * part;
    uint8_t* quants = unit.quants + 128 * part;
    for (int i = 0; i < 32; ++i) {
      quants[i] = (low[i] & 15) | (high[i] & 3) << 4;
      quants[i + 32] = (low[i + 32] & 15) | (high[i] >> 2 & 3) << 4;
      quants[i + 64] = (low[i] >> 4) | (high[i] >> 4 & 3) << 4;
      quants[i + 96] = (low[i + 32] >> 4) | (high[i] >> 6) << 4;
    }
  }
}

void Decode(const BlockQ2_K& block, DecodedUnit& unit) {
  unit.d = block.d;
  unit.m = block.dmin;
  for (int j = 0; j < 16; ++j) {
    unit.scales[j] = block.scales[j] & 15;
    unit.mins[j] = block.scales[j] >> 4;
  }
  for (int i = 0; i < kSuperColumns; ++i) {
    unit.quants[i] = block.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
  }
}

void Decode(const BlockQ3_K& block, DecodedUnit& unit) {
  unit.d = block.d;
  for (int j = 0; j < 16; ++j) {
    const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
    const int high = block.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
    unit.scales[j] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  for (int i = 0; i < kSuperColumns; ++i) {
    const int low = block.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    const int high = block.hmask[i % 32] >> (i / 32) & 1;
    unit.quants[i] = static_cast<uint8_t>((low | high << 2) + kQ3Shift);
  }
}

// Writes 32 quants of one lane; each 4-byte word is one quad.
void WriteNibbles(const uint8_t* quants, int plane_bits, uint8_t* lane) {
  uint32_t planes[2] = {0, 0};
  for (int line = 0; line < 4; ++line) {
    const uint32_t even = LoadWord(quants + 8 * line);
    const uint32_t odd = LoadWord(quants + 8 * line + 4);
    StoreWord(lane + line * kLineBytes, (even & 0x0F0F0F0F) | (odd & 0x0F0F0F0F) << 4);
    const uint32_t even_top = even >> 4 & 0x03030303;
    const uint32_t odd_top = odd >> 4 & 0x03030303;
    if (plane_bits == 1) planes[0] |= even_top << (2 * line) | odd_top << (2 * line + 1);
    if (plane_bits == 2) {
      planes[line / 2] |= even_top << (line % 2 * 4) | odd_top << (line % 2 * 4 + 2);
    }
  }
  for (int plane = 0; plane < plane_bits; ++plane) {
    StoreWord(lane + kNibbleBytes + plane * kLineBytes, planes[plane]);
  }
}

void WriteBytes(const uint8_t* quants, uint8_t* lane) {
  for (int quad = 0; quad < 8; ++quad) {
    std::memcpy(lane + quad * kLineBytes, quants + 4 * quad, 4);
  }
}

void WriteScales(const uint8_t* scales, int count, int64_t lane, uint8_t* out) {
  for (int pair = 0; pair < count / 2; ++pair) {
    std::memcpy(out + (pair * kLanes + lane) * 2, scales + 2 * pair, 2);
  }
}

// The packed bytes of one group being written.
struct GroupWriter {
  const PackedGeometry& geometry;
  uint8_t* halves;
  uint8_t* units;

  void Write(int64_t unit_index, int64_t lane, const DecodedUnit& unit) const {
    const int64_t halves_per_unit = geometry.has_min ? 2 : 1;
    uint8_t* half = halves + (unit_index * halves_per_unit * kLanes + lane) * 2;
    std::memcpy(half, &unit.d, 2);
    if (geometry.has_min) std::memcpy(half + kHalvesBytes, &unit.m, 2);
    uint8_t* bytes = units + unit_index * geometry.unit_bytes;
    const int num_scales = geometry.scale_bytes / kLanes;
    WriteScales(unit.scales, num_scales, lane, bytes);
    if (geometry.min_bytes > 0) {
      WriteScales(unit.mins, num_scales, lane, bytes + geometry.scale_bytes);
    }
    uint8_t* quants = bytes + geometry.scale_bytes + geometry.min_bytes + lane * 4;
    for (int i = 0; i < geometry.unit_columns / kBlockColumns; ++i) {
      const uint8_t* source = unit.quants + i * kBlockColumns;
      if (geometry.layout == PackedLayout::kQ8Block) {
        WriteBytes(source, quants);
      } else {
        WriteNibbles(source, geometry.plane_bits, quants);
      }
      quants += geometry.quant_bytes;
    }
  }
};

template <typename Block>
void PackRow(const uint8_t* row_blocks, int64_t num_units, int64_t lane, const GroupWriter& group) {
  DecodedUnit unit;
  for (int64_t i = 0; i < num_units; ++i) {
    Block block;
    std::memcpy(&block, row_blocks + i * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
    Decode(block, unit);
    group.Write(i, lane, unit);
  }
}

template <typename Element>
void PackFloatRow(const uint8_t* row, int64_t columns, int64_t lane, const GroupWriter& group) {
  for (int64_t column = 0; column < columns; ++column) {
    std::memcpy(group.units + (column * kLanes + lane) * sizeof(Element),
                row + column * sizeof(Element), sizeof(Element));
  }
}

using PackRowFunction = void (*)(const uint8_t*, int64_t, int64_t, const GroupWriter&);

PackRowFunction RowPacker(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
      return PackRow<BlockQ4_0>;
    case TensorType::kQ4_1:
      return PackRow<BlockQ4_1>;
    case TensorType::kQ5_0:
      return PackRow<BlockQ5_0>;
    case TensorType::kQ5_1:
      return PackRow<BlockQ5_1>;
    case TensorType::kQ8_0:
      return PackRow<BlockQ8_0>;
    case TensorType::kQ2_K:
      return PackRow<BlockQ2_K>;
    case TensorType::kQ3_K:
      return PackRow<BlockQ3_K>;
    case TensorType::kQ4_K:
      return PackRow<BlockQ4_K>;
    case TensorType::kQ5_K:
      return PackRow<BlockQ5_K>;
    case TensorType::kQ6_K:
      return PackRow<BlockQ6_K>;
    case TensorType::kF32:
      return PackFloatRow<uint32_t>;
    default:
      return PackFloatRow<uint16_t>;
  }
}

}  // namespace

const PackedGeometry* FindPackedGeometry(TensorType type) {
  for (const PackedGeometry& geometry : kGeometries) {
    if (geometry.type == type) return &geometry;
  }
  return nullptr;
}

size_t HalvesBytes(const PackedGeometry& geometry, int64_t columns) {
  if (geometry.unit_columns == 1) return 0;
  const size_t per_unit = (geometry.has_min ? 2 : 1) * kHalvesBytes;
  const size_t num_units = static_cast<size_t>(columns / geometry.unit_columns);
  return (num_units * per_unit + kLineBytes - 1) / kLineBytes * kLineBytes;
}

size_t GroupBytes(const PackedGeometry& geometry, int64_t columns) {
  const size_t units = static_cast<size_t>(columns / geometry.unit_columns);
  const size_t bytes = HalvesBytes(geometry, columns) + units * geometry.unit_bytes;
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

namespace {

// Bytes of a row in GGUF blocks; the type and the columns are checked.
size_t RowBytes(TensorType type, int64_t columns) {
  const TensorTypeTraits& traits = *FindTensorType(static_cast<uint32_t>(type));
  return static_cast<size_t>(columns / traits.block_elements) * traits.block_bytes;
}

// Packs rows [begin, end) of one group; row_blocks(row) are a row's GGUF blocks.
template <typename RowBlocks>
void PackGroup(const PackedMatrix& matrix, int64_t begin, int64_t end, uint8_t* packed,
               RowBlocks&& row_blocks) {
  const PackedGeometry& geometry = *FindPackedGeometry(matrix.source_type());
  const PackRowFunction pack_row = RowPacker(matrix.source_type());
  uint8_t* bytes = packed + static_cast<size_t>(begin / kRowGroup) * matrix.group_bytes();
  const GroupWriter writer{geometry, bytes, bytes + matrix.halves_bytes()};
  for (int64_t row = begin; row < end; ++row) {
    pack_row(row_blocks(row), matrix.columns() / geometry.unit_columns, row % kRowGroup, writer);
  }
}

}  // namespace

absl::StatusOr<PackedMatrix> PackedMatrix::Prepare(TensorType type, int64_t rows, int64_t columns) {
  const PackedGeometry* geometry = FindPackedGeometry(type);
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  if (geometry == nullptr || traits == nullptr) {
    return absl::UnimplementedError(fmt::format("expected a weight type, found {}",
                                                TensorTypeName(static_cast<uint32_t>(type))));
  }
  if (rows <= 0 || columns <= 0 || columns % traits->block_elements != 0) {
    return absl::InvalidArgumentError(
        fmt::format("expected a positive number of rows and of columns in multiples of {} for {}, "
                    "found {} x {}",
                    traits->block_elements, traits->name, rows, columns));
  }
  absl::StatusOr<AlignedBuffer> buffer = AlignedBuffer::Create(PackedBytes(type, rows, columns));
  if (!buffer.ok()) return buffer.status();

  PackedMatrix matrix;
  matrix.layout_ = geometry->layout;
  matrix.source_type_ = type;
  matrix.has_min_ = geometry->has_min;
  matrix.zero_point_ = geometry->zero_point;
  matrix.rows_ = rows;
  matrix.columns_ = columns;
  matrix.halves_bytes_ = HalvesBytes(*geometry, columns);
  matrix.group_bytes_ = GroupBytes(*geometry, columns);
  matrix.buffer_ = *std::move(buffer);
  return matrix;
}

absl::StatusOr<PackedMatrix> PackedMatrix::Pack(TensorType type, int64_t rows, int64_t columns,
                                                std::span<const uint8_t> blocks,
                                                const SlicedPool& pool) {
  // The size first: a wrong one must not cost an allocation.
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  const bool is_sound = traits != nullptr && FindPackedGeometry(type) != nullptr && rows > 0 &&
                        columns > 0 && columns % traits->block_elements == 0;
  const size_t row_bytes = is_sound ? RowBytes(type, columns) : 0;
  if (is_sound &&
      (blocks.size() / row_bytes != static_cast<size_t>(rows) || blocks.size() % row_bytes != 0)) {
    return absl::InvalidArgumentError(fmt::format("expected {} rows of {} bytes, found {} bytes",
                                                  rows, row_bytes, blocks.size()));
  }
  absl::StatusOr<PackedMatrix> matrix = Prepare(type, rows, columns);
  if (!matrix.ok()) return matrix;
  uint8_t* packed = matrix->buffer_.data();
  pool.ForRows(rows, kRowGroup, [&](int64_t begin, int64_t end) {
    PackGroup(*matrix, begin, end, packed,
              [&](int64_t row) { return blocks.data() + row * row_bytes; });
  });
  return matrix;
}

absl::StatusOr<PackedMatrix> PackedMatrix::PackRows(TensorType type, int64_t rows, int64_t columns,
                                                    const WriteRow& write_row,
                                                    const SlicedPool& pool) {
  absl::StatusOr<PackedMatrix> matrix = Prepare(type, rows, columns);
  if (!matrix.ok()) return matrix;
  uint8_t* packed = matrix->buffer_.data();
  pool.ForRows(rows, kRowGroup, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> blocks(RowBytes(type, columns));
    PackGroup(*matrix, begin, end, packed, [&](int64_t row) {
      write_row(row, blocks);
      return blocks.data();
    });
  });
  return matrix;
}

}  // namespace tahmin::kernels
