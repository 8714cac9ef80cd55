#include "draft/ngram_pool.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tahmin {
namespace {

using Value = std::vector<int32_t>;

// The definition: keys and values in the order of their last Add, oldest first.
struct SlowPool {
  size_t values_per_key, max_keys;
  std::vector<std::pair<int32_t, std::vector<Value>>> keys = {};

  void Add(int32_t key, const Value& value) {
    std::vector<Value> values;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].first != key) continue;
      values = keys[i].second;
      keys.erase(keys.begin() + i);
      break;
    }
    values.erase(std::remove(values.begin(), values.end(), value), values.end());
    values.push_back(value);
    if (values.size() > values_per_key) values.erase(values.begin());
    keys.emplace_back(key, values);
    if (keys.size() > max_keys) keys.erase(keys.begin());
  }
};

TEST(NgramPool, EqualsTheDefinition) {
  std::mt19937 generator(1);
  for (const int32_t per_key : {1, 2, 5}) {
    for (const int32_t max_keys : {1, 3, 10}) {
      NgramPool pool(2, per_key, max_keys);
      SlowPool slow{static_cast<size_t>(per_key), static_cast<size_t>(max_keys)};
      for (int32_t i = 0; i < 3000; ++i) {
        const auto key = static_cast<int32_t>(generator() % 13);
        const Value value = {static_cast<int32_t>(generator() % 3),
                             static_cast<int32_t>(generator() % 3)};
        pool.Add(key, value);
        slow.Add(key, value);
        ASSERT_EQ(pool.num_keys(), static_cast<int32_t>(slow.keys.size()));
        for (const auto& [known, values] : slow.keys) {
          ASSERT_EQ(pool.NumValues(known), static_cast<int32_t>(values.size()));
          for (size_t j = 0; j < values.size(); ++j) {
            const auto got = pool.Value(known, static_cast<int32_t>(values.size() - 1 - j));
            ASSERT_TRUE(std::equal(got.begin(), got.end(), values[j].begin(), values[j].end()));
          }
        }
      }
    }
  }
}

TEST(NgramPool, UnknownKeyHasNoValues) { EXPECT_EQ(NgramPool(3, 4, 5).NumValues(7), 0); }

}  // namespace
}  // namespace tahmin
