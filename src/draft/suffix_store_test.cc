#include "draft/suffix_store.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tahmin {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<int32_t>;

constexpr SuffixStoreOptions kOptions = {
    .max_bytes = 4 << 20, .fingerprint = 17, .vocab_size = 50000};

std::unique_ptr<SuffixStore> Make(const SuffixStoreOptions& options) {
  auto store = SuffixStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

Tokens RandomOutput(std::mt19937& random, int32_t size) {
  Tokens output;
  for (int32_t i = 0; i < size; ++i) {
    // Skewed as words are: low ids are frequent.
    const double x = static_cast<double>(random() % 10000) / 10000;
    output.push_back(static_cast<int32_t>(x * x * x * 40000));
  }
  return output;
}

int32_t OccurrencesOf(const SuffixStore& store, const Tokens& string) {
  int32_t sum = 0;
  for (int32_t i = 0; i < SuffixStore::kNumTexts; ++i) {
    SuffixMatch match;
    for (int32_t token : string) match = store.text(i).Extend(match, token);
    if (match.length == static_cast<int32_t>(string.size())) {
      sum += store.text(i).Occurrences(match);
    }
  }
  return sum;
}

TEST(SuffixStore, OptionsAreChecked) {
  SuffixStoreOptions options = kOptions;
  options.max_bytes = SuffixStore::kSmallestBytes - 1;
  EXPECT_EQ(SuffixStore::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.max_bytes = SuffixStore::kLargestBytes + 1;
  EXPECT_EQ(SuffixStore::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = kOptions;
  options.vocab_size = 0;
  EXPECT_EQ(SuffixStore::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SuffixStore, OutputsDoNotRunIntoOneAnother) {
  const auto store = Make(kOptions);
  store->Add(Tokens{1, 2, 3});
  store->Add(Tokens{4, 5, 1, 2});
  EXPECT_EQ(OccurrencesOf(*store, {1, 2}), 2);
  EXPECT_EQ(OccurrencesOf(*store, {3, 4}), 0);
  EXPECT_EQ(store->num_tokens(), 9);  // with what parts them
}

TEST(SuffixStore, IdsOutsideTheVocabularyPartAnOutput) {
  const auto store = Make(kOptions);
  store->Add(Tokens{1, kOptions.vocab_size, 2, -5, 3});
  EXPECT_EQ(OccurrencesOf(*store, {1}), 1);
  EXPECT_EQ(OccurrencesOf(*store, {kOptions.vocab_size}), 0);
  EXPECT_EQ(OccurrencesOf(*store, {-5}), 0);
}

TEST(SuffixStore, EveryAddIsANewVersion) {
  const auto store = Make(kOptions);
  const int64_t before = store->version();
  store->Add(Tokens{1});
  EXPECT_NE(store->version(), before);
}

TEST(SuffixStore, StaysWithinItsCapOverTenThousandRequestsB40) {
  std::mt19937 random(1);
  const auto store = Make(kOptions);
  int64_t most_bytes = 0, most_tokens = 0;
  Tokens latest;
  for (int32_t request = 0; request < 10000; ++request) {
    latest = RandomOutput(random, 10 + static_cast<int32_t>(random() % 40));
    store->Add(latest);
    most_bytes = std::max(most_bytes, store->Bytes());
    most_tokens = std::max(most_tokens, store->num_tokens());
    ASSERT_LE(store->Bytes(), kOptions.max_bytes) << request;
    ASSERT_GE(OccurrencesOf(*store, latest), 1) << request;  // the latest output is always there
    // Once it has been full, it is never nearly empty again.
    if (request > 5000) {
      ASSERT_GE(store->Bytes(), kOptions.max_bytes / 3) << request;
    }
  }
  EXPECT_GE(most_bytes, kOptions.max_bytes * 3 / 4);  // and it uses what it may
  EXPECT_GE(most_tokens, kOptions.max_bytes / 200);
}

TEST(SuffixStore, TheOldestOutputsAreDroppedFirst) {
  SuffixStoreOptions options = kOptions;
  options.max_bytes = SuffixStore::kSmallestBytes;
  const auto store = Make(options);
  const auto output_of = [](int32_t i) {
    Tokens output;
    for (int32_t k = 0; k < 50; ++k) output.push_back(i * 50 + k);
    return output;
  };
  for (int32_t i = 0; i < 900; ++i) store->Add(output_of(i));
  bool was_kept = false;
  for (int32_t i = 0; i < 900; ++i) {
    const bool is_kept = OccurrencesOf(*store, output_of(i)) > 0;
    EXPECT_TRUE(is_kept || !was_kept) << i;
    was_kept = is_kept;
  }
  EXPECT_TRUE(was_kept);
  EXPECT_EQ(OccurrencesOf(*store, output_of(0)), 0);
}

TEST(SuffixStore, OfAnOutputThatIsTooLongTheEndIsTaken) {
  SuffixStoreOptions options = kOptions;
  options.max_bytes = SuffixStore::kSmallestBytes;
  const auto store = Make(options);
  std::mt19937 random(2);
  for (int32_t round = 0; round < 5; ++round) {
    const Tokens output = RandomOutput(random, 100000);
    store->Add(output);
    ASSERT_LE(store->Bytes(), options.max_bytes);
    ASSERT_EQ(OccurrencesOf(*store, Tokens(output.end() - 60, output.end())), 1);
  }
}

TEST(SuffixStore, TheCapHoldsForTextsOfEveryKind) {
  SuffixStoreOptions options = kOptions;
  options.max_bytes = SuffixStore::kSmallestBytes;
  std::mt19937 random(3);
  for (int32_t alphabet : {1, 2, 3, 10, 300, 40000}) {
    const auto store = Make(options);
    for (int32_t i = 0; i < 200; ++i) {
      Tokens output;
      const uint32_t size = random() % 1000;
      for (uint32_t k = 0; k < size; ++k) {
        output.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet)));
      }
      store->Add(output);
      ASSERT_LE(store->Bytes(), options.max_bytes) << alphabet << ", output " << i;
    }
  }
}

TEST(SuffixStore, WhatIsSavedIsLoaded) {
  const std::string path = testing::TempDir() + "/suffix_store_saved";
  std::mt19937 random(4);
  for (int32_t num_outputs : {0, 1, 3, 400}) {
    const auto store = Make(kOptions);
    std::vector<Tokens> outputs;
    for (int32_t i = 0; i < num_outputs; ++i) {
      outputs.push_back(RandomOutput(random, 1 + static_cast<int32_t>(random() % 30)));
      store->Add(outputs.back());
    }
    store->Add({});
    ASSERT_TRUE(store->Save(path).ok());
    const auto loaded = SuffixStore::Load(path, kOptions);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    for (const Tokens& output : outputs) {
      ASSERT_EQ(OccurrencesOf(**loaded, output), OccurrencesOf(*store, output));
    }
    // Saved again, it is the same file: nothing was lost or added.
    const std::string again = path + "_again";
    ASSERT_TRUE((*loaded)->Save(again).ok());
    const auto loaded_again = SuffixStore::Load(again, kOptions);
    ASSERT_TRUE(loaded_again.ok());
    EXPECT_EQ((*loaded_again)->num_tokens(), (*loaded)->num_tokens());
  }
}

TEST(SuffixStore, ASmallerStoreTakesTheLatestOutputsOfTheFile) {
  const std::string path = testing::TempDir() + "/suffix_store_large";
  std::mt19937 random(5);
  const auto store = Make(kOptions);
  Tokens first, last;
  for (int32_t i = 0; i < 800; ++i) {
    last = RandomOutput(random, 40);
    if (i == 0) first = last;
    store->Add(last);
  }
  ASSERT_GT(OccurrencesOf(*store, first), 0);
  ASSERT_TRUE(store->Save(path).ok());
  SuffixStoreOptions smaller = kOptions;
  smaller.max_bytes = SuffixStore::kSmallestBytes;
  const auto loaded = SuffixStore::Load(path, smaller);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_LE((*loaded)->Bytes(), smaller.max_bytes);
  EXPECT_EQ(OccurrencesOf(**loaded, first), 0);
  EXPECT_GT(OccurrencesOf(**loaded, last), 0);
}

TEST(SuffixStore, FilesThatCannotBeUsedSayWhy) {
  const std::string path = testing::TempDir() + "/suffix_store_other";
  EXPECT_EQ(SuffixStore::Load(path + "_missing", kOptions).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(SuffixStore::Load(testing::TempDir(), kOptions).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto store = Make(kOptions);
  store->Add(Tokens{1, 2, 49999});
  ASSERT_TRUE(store->Save(path).ok());
  SuffixStoreOptions other = kOptions;
  other.fingerprint = 18;
  const absl::Status tokenizer = SuffixStore::Load(path, other).status();
  EXPECT_EQ(tokenizer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(tokenizer.message()), HasSubstr("expected fingerprint 0000000000000012"));
  EXPECT_THAT(std::string(tokenizer.message()), HasSubstr("found 0000000000000011"));
  other = kOptions;
  other.vocab_size = 49999;
  const absl::Status vocabulary = SuffixStore::Load(path, other).status();
  EXPECT_EQ(vocabulary.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(vocabulary.message()), HasSubstr("token below 49999 at byte 52"));
  EXPECT_FALSE(store->Save(testing::TempDir() + "/no_such_folder/store").ok());
}

}  // namespace
}  // namespace tahmin
