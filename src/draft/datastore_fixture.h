// Small datastores for tests: built in a temporary file, read back into memory.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "draft/datastore.h"
#include "draft/datastore_builder.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace tahmin {

inline std::string TestPath(const std::string& name) {
  return fmt::format("{}/tahmin_datastore_{}_{}", testing::TempDir(), getpid(), name);
}

class TestStore {
 public:
  TestStore(const std::vector<std::vector<int32_t>>& documents, DatastoreBuilderOptions options) {
    const std::string path = TestPath("built");
    absl::StatusOr<std::unique_ptr<DatastoreBuilder>> builder =
        DatastoreBuilder::Create(path, std::move(options));
    EXPECT_TRUE(builder.ok()) << builder.status();
    if (!builder.ok()) return;
    for (const std::vector<int32_t>& document : documents) {
      const absl::Status status = (*builder)->AddDocument(document);
      EXPECT_TRUE(status.ok()) << status;
    }
    const absl::Status status = (*builder)->Finish();
    EXPECT_TRUE(status.ok()) << status;
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::remove(path);
    absl::StatusOr<std::unique_ptr<Datastore>> store = Datastore::Parse(bytes_, "test");
    EXPECT_TRUE(store.ok()) << store.status();
    if (store.ok()) store_ = std::move(store).value();
  }

  const Datastore& store() const { return *store_; }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  std::unique_ptr<Datastore> store_;
};

// A small generator, the same everywhere.
class RandomTokens {
 public:
  explicit RandomTokens(uint32_t seed) : state_(seed * 2654435761u + 1) {}

  uint32_t Below(uint32_t limit) {
    state_ = state_ * 1664525u + 1013904223u;
    return (state_ >> 8) % limit;
  }
  std::vector<int32_t> Text(int64_t length, int32_t alphabet) {
    std::vector<int32_t> text(static_cast<size_t>(length));
    for (int32_t& token : text)
      token = static_cast<int32_t>(Below(static_cast<uint32_t>(alphabet)));
    return text;
  }

 private:
  uint32_t state_;
};

}  // namespace tahmin
