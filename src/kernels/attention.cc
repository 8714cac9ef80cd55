// Block-wise softmax attention (Milakov and Gimelshein, arXiv 1805.02867). A task takes a few rows
// and the query heads that share one key/value head; a block of kAttentionBlock keys lies
// transposed in the cache, so that a lane is a key and no horizontal sum is needed. Keys and values
// are converted to float32 as they are read. For one query and one key the sum runs over the
// dimensions in ascending order in one lane; for one output value it runs over the keys in
// ascending position order in one lane. So no bit depends on how rows and heads are tiled, nor on
// the slots that keys lie in.
#include <algorithm>
#include <limits>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/attention.cc"
#include "hwy/foreach_target.h"  // re-includes this file once for each target

#include "hwy/highway.h"
#include "kernels/attention_tiles-inl.h"
#include "kernels/half_vector-inl.h"
#include "kernels/partial_vector-inl.h"
#include "step/kv_layout.h"

#ifndef TAHMIN_KERNELS_ATTENTION_ONCE_
#define TAHMIN_KERNELS_ATTENTION_ONCE_
namespace tahmin::kernels {

constexpr int32_t kMaxQueries = 64;  // rows times heads of one task
constexpr int32_t kMaxRows = 16;     // rows of one task

// The part of an attention call that one thread works on.
struct AttentionTask {
  const AttentionRow* rows;
  int32_t num_rows;  // all of one sequence
  int32_t kv_head;
  int32_t first_head;  // num_heads query heads from here on; all read kv_head
  int32_t num_heads;
  float* scratch;
};

// Scratch of one task; every part starts at a multiple of 16 floats.
struct AttentionScratch {
  float* keys;         // [head_dim, kAttentionBlock], where they are gathered
  float* values;       // [kAttentionBlock, row_stride]
  float* accumulated;  // [kMaxQueries, row_stride]
  float* maxima;       // [kMaxQueries]
  float* sums;         // [kMaxQueries]
};

// What a row sees: positions [start, end); those below `contiguous` lie in the slot of their
// number.
struct VisibleRange {
  int64_t start, end, contiguous;
};

// One query in one block: the keys [first, last) of it.
struct BlockQuery {
  int32_t query;
  int32_t first, last;
};

inline int64_t PaddedDim(int32_t head_dim) {
  return (static_cast<int64_t>(head_dim) + 15) / 16 * 16;
}

// Floats from one row of values or sums to the next. One cache line more than they need: a power of
// two between rows would put the same strip of all of them into a few sets of the cache.
inline int64_t RowStride(int32_t head_dim) { return PaddedDim(head_dim) + 16; }

}  // namespace tahmin::kernels
#endif  // TAHMIN_KERNELS_ATTENTION_ONCE_

HWY_BEFORE_NAMESPACE();
namespace tahmin::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries in one register tile: as many as the accumulators leave registers for.
constexpr int32_t kTile = kLanes == 16 ? 6 : kLanes == 8 ? 3 : 2;

// Values of keys [first, last) to float32 rows, zeros behind head_dim to the end of its vector.
template <typename T>
void LoadValues(const T* values, int32_t head_dim, const int64_t* slots, int32_t first,
                int32_t last, float* out) {
  const int64_t row_stride = RowStride(head_dim);
  constexpr int32_t kStep = static_cast<int32_t>(kLanes);
  for (int32_t k = first; k < last; ++k) {
    const T* from = values + slots[k] * head_dim;
    float* to = out + k * row_stride;
    int32_t d = 0;
    for (; d + kStep <= head_dim; d += kStep) {
      hn::StoreU(LoadCacheVector(from + d), FloatTag(), to + d);
    }
    if (d >= head_dim) continue;
    HWY_ALIGN T tail[kLanes] = {};
    std::memcpy(tail, from + d, static_cast<size_t>(head_dim - d) * sizeof(T));
    hn::StoreU(LoadCacheVector(tail), FloatTag(), to + d);
  }
}

// Where the keys and values of a block are: in the cache, or converted in scratch.
struct BlockPlaces {
  int64_t keys_ahead = 0;  // see BringLine; 0 where they are in scratch
  int64_t values_ahead = 0;
  const uint16_t* half_keys = nullptr;  // [head_dim, kAttentionBlock]; null: single_keys
  const float* single_keys = nullptr;
  bool has_half_values = false;
  const uint16_t* half_values[kAttentionBlock];
  const float* single_values[kAttentionBlock];
};

HWY_INLINE float CacheValue(uint16_t bits) { return HalfToFloat(bits); }
HWY_INLINE float CacheValue(float value) { return value; }

// A whole block of keys to float32.
template <typename T>
HWY_INLINE void ConvertKeys(const T* keys, int32_t head_dim, float* out) {
  for (int32_t i = 0; i < head_dim * kBlock; i += static_cast<int32_t>(kLanes))
    hn::StoreU(LoadCacheVector(keys + i), FloatTag(), out + i);
}

// Keys that do not all lie in the block of their positions: what does is taken whole, the rest one
// by one. Lanes outside [first, last) hold anything: nobody reads their scores.
template <typename T>
void GatherKeys(const T* keys, int32_t head_dim, int64_t block_start, const int64_t* slots,
                int32_t first, int32_t last, float* out) {
  const auto is_in_place = [&](int32_t k) { return slots[k] == block_start + k; };
  int32_t k = first;
  if (is_in_place(k)) {
    ConvertKeys(keys + KeyOffset(0, block_start, 0, head_dim), head_dim, out);
    while (k < last && is_in_place(k)) ++k;
  }
  for (; k < last; ++k) {
    const T* from = keys + KeyOffset(0, slots[k], 0, head_dim);
    for (int32_t d = 0; d < head_dim; ++d) out[d * kBlock + k] = CacheValue(from[d * kBlock]);
  }
}

template <typename T>
HWY_INLINE void UseKeysInPlace(const T* keys, BlockPlaces& places) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    places.half_keys = keys;
  } else {
    places.single_keys = keys;
  }
}

template <typename T>
void PlaceValues(const AttentionTask& task, const AttentionShape& shape, const int64_t* slots,
                 int32_t first, int32_t last, const AttentionScratch& scratch,
                 BlockPlaces& places) {
  const KvRows& kv = task.rows[0].kv;
  const T* values =
      static_cast<const T*>(kv.values) + ValueOffset(task.kv_head, 0, kv.num_slots, shape.head_dim);
  // Whole vectors are read from the cache as they are used; rows that end inside one are not.
  places.has_half_values = std::is_same_v<T, uint16_t> && shape.head_dim % kLanes == 0;
  if constexpr (std::is_same_v<T, uint16_t>) {
    if (places.has_half_values) {
      for (int32_t k = first; k < last; ++k)
        places.half_values[k] = values + slots[k] * shape.head_dim;
      return;
    }
  }
  LoadValues(values, shape.head_dim, slots, first, last, scratch.values);
  for (int32_t k = first; k < last; ++k)
    places.single_values[k] = scratch.values + k * RowStride(shape.head_dim);
}

// Neighbours in a list of queries that see the same keys: one register tile.
struct QueryTile {
  const BlockQuery* queries;
  int32_t count;
  float* weights;      // [count, kBlock]
  float* corrections;  // [count] what older sums are multiplied by
};

template <int32_t kQueries, typename T>
HWY_INLINE void ScoreUpTo(int32_t count, const float* const* queries, int32_t head_dim,
                          const T* keys, int64_t ahead, float* scores) {
  if (count == kQueries) {
    ScoreTile<kQueries>(queries, head_dim, keys, ahead, scores);
  } else if constexpr (kQueries > 1) {
    ScoreUpTo<kQueries - 1>(count, queries, head_dim, keys, ahead, scores);
  }
}

// The weights of a tile's keys.
HWY_INLINE void WeighKeys(const AttentionTask& task, const AttentionShape& shape,
                          const QueryTile& tile, const BlockPlaces& places, int64_t ahead,
                          const AttentionScratch& scratch) {
  const float* queries[kTile];
  for (int32_t i = 0; i < tile.count; ++i) {
    const int32_t query = tile.queries[i].query;
    const int32_t head = task.first_head + query % task.num_heads;
    queries[i] =
        task.rows[query / task.num_heads].queries + static_cast<int64_t>(head) * shape.head_dim;
  }
  if (places.half_keys != nullptr) {
    ScoreUpTo<kTile>(tile.count, queries, shape.head_dim, places.half_keys, ahead, tile.weights);
  } else {
    ScoreUpTo<kTile>(tile.count, queries, shape.head_dim, places.single_keys, ahead, tile.weights);
  }
  for (int32_t i = 0; i < tile.count; ++i) {
    const BlockQuery& entry = tile.queries[i];
    tile.corrections[i] =
        UpdateSoftmax(tile.weights + i * kBlock, shape.scale, entry.first, entry.last,
                      scratch.maxima[entry.query], scratch.sums[entry.query]);
  }
}

// Values times weights of a tile of at most kQueries queries, for kWide vectors from dimension d.
template <int32_t kQueries, int32_t kWide, typename T>
HWY_INLINE void AddValues(const QueryTile& tile, int64_t d, int64_t row_stride,
                          const T* const* value_rows, int64_t ahead, float* sums) {
  if (tile.count == kQueries) {
    float* accumulated[kQueries];
    for (int32_t i = 0; i < kQueries; ++i)
      accumulated[i] = sums + tile.queries[i].query * row_stride;
    ValueStrip<kQueries, kWide>(accumulated, d, tile.corrections, tile.weights, tile.queries->first,
                                tile.queries->last, value_rows, ahead);
  } else if constexpr (kQueries > 1) {
    AddValues<kQueries - 1, kWide>(tile, d, row_stride, value_rows, ahead, sums);
  }
}

// All tiles of at most kQueries queries, a strip of kWide vectors after the other: what a strip
// reads of values and sums stays in the first-level cache for all tiles. The first tile of each
// strip brings the next block's.
template <int32_t kQueries, int32_t kWide, typename T>
HWY_NOINLINE void AddAllValues(std::span<const QueryTile> tiles, int32_t head_dim,
                               const T* const* value_rows, int64_t ahead, float* sums) {
  const int64_t row_stride = RowStride(head_dim);
  constexpr int64_t kStep = static_cast<int64_t>(kLanes);
  int64_t d = 0;
  for (; d + kWide * kStep <= head_dim; d += kWide * kStep) {
    for (const QueryTile& tile : tiles) {
      const int64_t brought = &tile == tiles.data() ? ahead : 0;
      AddValues<kQueries, kWide>(tile, d, row_stride, value_rows, brought, sums);
    }
  }
  for (; d < head_dim; d += kStep) {
    for (const QueryTile& tile : tiles) {
      const int64_t brought = &tile == tiles.data() ? ahead : 0;
      AddValues<kQueries, 1>(tile, d, row_stride, value_rows, brought, sums);
    }
  }
}

// As many sums as registers hold, in wide strips for few queries.
template <typename T>
void AddTiles(std::span<const QueryTile> tiles, int32_t head_dim, const T* const* value_rows,
              int64_t ahead, float* sums) {
  const int32_t alone = tiles.size() == 1 ? tiles[0].count : kTile;
  if (alone == 1) return AddAllValues<1, 8>(tiles, head_dim, value_rows, ahead, sums);
  if (alone <= 3)
    return AddAllValues<std::min(kTile, 3), 4>(tiles, head_dim, value_rows, ahead, sums);
  AddAllValues<kTile, 2>(tiles, head_dim, value_rows, ahead, sums);
}

// All queries that read the block.
void AttendBlock(const AttentionTask& task, const AttentionShape& shape,
                 std::span<const BlockQuery> list, const AttentionScratch& scratch,
                 const BlockPlaces& places) {
  HWY_ALIGN float weights[kMaxQueries * kBlock];
  float corrections[kMaxQueries];
  QueryTile tiles[kMaxQueries];
  size_t num_tiles = 0;
  for (size_t begin = 0; begin < list.size();) {
    int32_t count = 1;
    while (count < kTile && begin + count < list.size() &&
           list[begin + count].first == list[begin].first &&
           list[begin + count].last == list[begin].last) {
      ++count;
    }
    tiles[num_tiles] = {&list[begin], count, weights + begin * kBlock, corrections + begin};
    WeighKeys(task, shape, tiles[num_tiles], places, num_tiles == 0 ? places.keys_ahead : 0,
              scratch);
    ++num_tiles;
    begin += static_cast<size_t>(count);
  }
  const std::span<const QueryTile> all(tiles, num_tiles);
  if (places.has_half_values) {
    AddTiles(all, shape.head_dim, places.half_values, places.values_ahead, scratch.accumulated);
  } else {
    AddTiles(all, shape.head_dim, places.single_values, 0, scratch.accumulated);
  }
}

// Adds the queries of row r to the list; [first, last) are its keys in the block.
HWY_INLINE void AppendQueries(int32_t r, int32_t num_heads, int32_t first, int32_t last,
                              BlockQuery* list, int32_t& num_queries) {
  for (int32_t h = 0; h < num_heads; ++h) list[num_queries++] = {r * num_heads + h, first, last};
}

template <typename T>
void AttendRowsInBlock(const AttentionTask& task, const AttentionShape& shape,
                       const VisibleRange* ranges, int64_t block_start, int64_t end,
                       const AttentionScratch& scratch) {
  int64_t slots[kBlock];
  BlockQuery list[kMaxQueries];
  const KvRows& kv = task.rows[0].kv;
  const T* keys =
      static_cast<const T*>(kv.keys) + KeyOffset(task.kv_head, 0, kv.num_slots, shape.head_dim);
  int32_t num_queries = 0, shared_first = kBlock, shared_last = 0;
  for (int32_t pass = 0; pass < 2; ++pass) {
    // Pass 0 takes the rows whose keys lie in slot order: one loaded block serves all of them. Pass
    // 1 gathers the keys of each other row.
    for (int32_t r = 0; r < task.num_rows; ++r) {
      const VisibleRange& range = ranges[r];
      const int64_t first = std::max<int64_t>(range.start - block_start, 0);
      const int64_t last = std::min<int64_t>(range.end - block_start, kBlock);
      if (first >= last) continue;
      const bool is_shared = range.contiguous >= block_start + last;
      if (is_shared != (pass == 0)) continue;
      AppendQueries(r, task.num_heads, static_cast<int32_t>(first), static_cast<int32_t>(last),
                    list, num_queries);
      if (is_shared) {
        shared_first = std::min(shared_first, static_cast<int32_t>(first));
        shared_last = std::max(shared_last, static_cast<int32_t>(last));
        continue;
      }
      const AttentionRow& row = task.rows[r];
      for (int64_t k = first; k < last; ++k) {
        const int64_t position = block_start + k;
        slots[k] =
            position < row.prefix_length ? position : row.tail_slots[position - row.prefix_length];
      }
      const int32_t begin = static_cast<int32_t>(first), count_end = static_cast<int32_t>(last);
      BlockPlaces places;
      GatherKeys(keys, shape.head_dim, block_start, slots, begin, count_end, scratch.keys);
      places.single_keys = scratch.keys;
      PlaceValues<T>(task, shape, slots, begin, count_end, scratch, places);
      AttendBlock(task, shape, std::span(list, num_queries), scratch, places);
      num_queries = 0;
    }
    if (pass == 0 && num_queries > 0) {
      for (int32_t k = shared_first; k < shared_last; ++k) slots[k] = block_start + k;
      const T* block_keys = keys + KeyOffset(0, block_start, 0, shape.head_dim);
      BlockPlaces places;
      const int64_t ahead = block_start + kBlock < end ? kBlock * shape.head_dim : 0;
      places.values_ahead = ahead;
      places.keys_ahead = ahead;
      UseKeysInPlace(block_keys, places);
      PlaceValues<T>(task, shape, slots, shared_first, shared_last, scratch, places);
      AttendBlock(task, shape, std::span(list, num_queries), scratch, places);
      num_queries = 0;
    }
  }
}

VisibleRange RangeOf(const AttentionRow& row, int64_t window) {
  VisibleRange range;
  range.end = row.prefix_length + row.tail_size;
  range.start = window > 0 ? std::max<int64_t>(range.end - window, 0) : 0;
  int32_t in_place = 0;
  while (in_place < row.tail_size && row.tail_slots[in_place] == row.prefix_length + in_place) {
    ++in_place;
  }
  range.contiguous = row.prefix_length + in_place;
  return range;
}

void StoreOutputs(const AttentionTask& task, const AttentionShape& shape,
                  const AttentionScratch& scratch) {
  const int64_t row_stride = RowStride(shape.head_dim);
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  for (int32_t query = 0; query < task.num_rows * task.num_heads; ++query) {
    const int32_t head = task.first_head + query % task.num_heads;
    float* out = task.rows[query / task.num_heads].out + head * static_cast<int64_t>(head_dim);
    const float* from = scratch.accumulated + query * row_stride;
    const FloatVector sum = hn::Set(FloatTag(), scratch.sums[query]);
    for (size_t d = 0; d < head_dim; d += kLanes) {
      StorePartial(hn::Div(hn::LoadU(FloatTag(), from + d), sum), out + d, head_dim - d);
    }
  }
}

void Attend(const AttentionTask& task, const AttentionShape& shape) {
  const int64_t row_stride = RowStride(shape.head_dim);
  AttentionScratch scratch;
  scratch.keys = task.scratch;
  scratch.values = scratch.keys + static_cast<int64_t>(shape.head_dim) * kBlock;
  scratch.accumulated = scratch.values + kBlock * row_stride;
  scratch.maxima = scratch.accumulated + kMaxQueries * row_stride;
  scratch.sums = scratch.maxima + kMaxQueries;

  const int32_t num_queries = task.num_rows * task.num_heads;
  std::fill_n(scratch.accumulated, num_queries * row_stride, 0.0f);
  std::fill_n(scratch.maxima, num_queries, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.sums, num_queries, 0.0f);

  VisibleRange ranges[kMaxRows];
  int64_t start = std::numeric_limits<int64_t>::max(), end = 0;
  for (int32_t r = 0; r < task.num_rows; ++r) {
    ranges[r] = RangeOf(task.rows[r], shape.window);
    start = std::min(start, ranges[r].start);
    end = std::max(end, ranges[r].end);
  }
  for (int64_t block = start / kBlock * kBlock; block < end; block += kBlock) {
    if (task.rows[0].kv.is_half) {
      AttendRowsInBlock<uint16_t>(task, shape, ranges, block, end, scratch);
    } else {
      AttendRowsInBlock<float>(task, shape, ranges, block, end, scratch);
    }
  }
  StoreOutputs(task, shape, scratch);
}

}  // namespace tahmin::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tahmin::kernels {

HWY_EXPORT(Attend);

namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a call is cut into tasks: tiles of rows x key/value heads x parts of the query heads of each.
struct TaskGrid {
  int64_t num_tiles, rows_per_tile;
  int64_t num_parts, heads_per_part;
};

TaskGrid MakeGrid(int64_t num_rows, const AttentionShape& shape, int num_threads) {
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  TaskGrid grid;
  grid.num_parts = CeilDivide(group, kMaxQueries);
  grid.heads_per_part = CeilDivide(group, grid.num_parts);
  const int64_t most_rows = std::min<int64_t>(kMaxRows, kMaxQueries / grid.heads_per_part);
  grid.num_tiles = CeilDivide(num_rows, most_rows);
  grid.rows_per_tile = CeilDivide(num_rows, grid.num_tiles);
  grid.num_tiles = CeilDivide(num_rows, grid.rows_per_tile);
  // Threads without work cost more than blocks converted twice.
  const int64_t num_tasks = grid.num_tiles * shape.num_kv_heads * grid.num_parts;
  if (num_tasks < num_threads) {
    grid.num_parts = std::min<int64_t>(group, grid.num_parts * CeilDivide(num_threads, num_tasks));
    grid.heads_per_part = CeilDivide(group, grid.num_parts);
    grid.num_parts = CeilDivide(group, grid.heads_per_part);
  }
  return grid;
}

bool SameCache(const KvRows& a, const KvRows& b) {
  return a.keys == b.keys && a.values == b.values && a.num_slots == b.num_slots &&
         a.is_half == b.is_half;
}

}  // namespace

int64_t AttentionScratchFloats(const AttentionShape& shape) {
  const int64_t row_stride = RowStride(shape.head_dim);
  return shape.head_dim * kAttentionBlock + (kAttentionBlock + kMaxQueries) * row_stride +
         2 * kMaxQueries;
}

void Attention(std::span<const AttentionRow> rows, const AttentionShape& shape, float* scratch,
               ThreadPool& pool) {
  if (rows.empty()) return;
  TAHMIN_CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  const int64_t num_rows = static_cast<int64_t>(rows.size());
  const int64_t group = shape.num_heads / shape.num_kv_heads;
  const TaskGrid grid = MakeGrid(num_rows, shape, pool.num_threads());
  const int64_t scratch_floats = AttentionScratchFloats(shape);
  const auto attend = HWY_DYNAMIC_DISPATCH(Attend);

  const int64_t tasks_per_tile = shape.num_kv_heads * grid.num_parts;
  pool.ParallelFor(grid.num_tiles * tasks_per_tile, [&](int64_t index, int thread) {
    // Later rows see more keys: the longest tasks come first, shorter ones are taken over.
    const int64_t tile = grid.num_tiles - 1 - index / tasks_per_tile;
    const int64_t kv_head = index % tasks_per_tile / grid.num_parts;
    const int64_t part_start = index % grid.num_parts * grid.heads_per_part;
    const int64_t rows_end = std::min((tile + 1) * grid.rows_per_tile, num_rows);
    AttentionTask task;
    task.kv_head = static_cast<int32_t>(kv_head);
    task.first_head = static_cast<int32_t>(kv_head * group + part_start);
    task.num_heads = static_cast<int32_t>(std::min(grid.heads_per_part, group - part_start));
    task.scratch = scratch + thread * scratch_floats;
    // A tile may hold rows of several sequences: one run of rows for each.
    for (int64_t begin = tile * grid.rows_per_tile; begin < rows_end;) {
      int64_t end = begin + 1;
      while (end < rows_end && SameCache(rows[begin].kv, rows[end].kv)) ++end;
      task.rows = rows.data() + begin;
      task.num_rows = static_cast<int32_t>(end - begin);
      attend(task, shape);
      begin = end;
    }
  });
}

}  // namespace tahmin::kernels
#endif  // HWY_ONCE
