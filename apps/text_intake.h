// Documents on their way into a datastore: collected until a batch is worth splitting over threads,
// then tokenized in parallel and added in the order in which they came.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "apps/datastore_input.h"
#include "base/thread_pool.h"
#include "draft/datastore_builder.h"
#include "tokenizer/tokenizer.h"

namespace tahmin::cli {

class TextIntake {
 public:
  // num_threads 0: all cores; max_tokens 0: no limit. Tokenizer and builder outlive this.
  TextIntake(const Tokenizer& tokenizer, DatastoreBuilder& builder, int32_t num_threads,
             int64_t max_tokens);

  // A document that was taken before is left out. false: no more is wanted, since the store is full
  // or something failed (Flush tells).
  bool Take(InputDocument document);
  // Adds what is left of the last batch.
  absl::Status Flush();

  bool is_full() const { return room_ == 0; }
  int64_t num_copies() const { return num_copies_; }       // documents that were taken before
  int64_t num_refused() const { return num_refused_; }     // documents that cannot be tokenized
  const std::string& refusal() const { return refusal_; }  // why, for the first of them

 private:
  const Tokenizer& tokenizer_;
  DatastoreBuilder& builder_;
  ThreadPool pool_;
  std::vector<InputDocument> batch_;
  size_t batch_bytes_ = 0;
  uint64_t room_ = UINT64_MAX;             // tokens that may still be added
  std::unordered_set<XXH64_hash_t> seen_;  // documents, by their hash
  int64_t num_copies_ = 0, num_refused_ = 0;
  std::string refusal_;
  absl::Status failure_;
};

}  // namespace tahmin::cli
