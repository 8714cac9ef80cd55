// The options a caller sets, with their defaults. Plain values: no parsing, no globals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tahmin {

// How the next token is chosen from the target's logits. The order is fixed (docs/exactness.md):
// penalties and logit bias, top-k, top-p, min-p, temperature. Temperature 0 wins over all filters:
// the largest penalised logit, the lowest id among equals.
struct SamplingOptions {
  float temperature = 0.8f;        // >= 0
  int32_t top_k = 40;              // 0: off
  float top_p = 0.95f;             // (0, 1]; 1: off
  float min_p = 0.05f;             // [0, 1); 0: off
  float repeat_penalty = 1.0f;     // > 0; 1: off
  float frequency_penalty = 0.0f;  // 0: off
  float presence_penalty = 0.0f;   // 0: off
  int32_t penalty_window = 64;     // last tokens (prompt included) that penalties look at; -1: all
  std::vector<std::pair<int32_t, float>>
      logit_bias;                // added to the logit; -infinity bans the token
  std::optional<uint64_t> seed;  // empty: a random one, reported in the result
};

enum class AcceptanceRuleKind { kKeyed, kRejection };

struct GenerationOptions {
  SamplingOptions sampling;
  int32_t max_tokens = -1;          // -1: until an end token or until the context is full
  std::vector<std::string> stop;    // stop strings; never part of the text
  std::vector<int32_t> end_tokens;  // ids that end generation, beside those of the vocabulary
  bool ignore_end_tokens = false;   // llama.cpp's --ignore-eos: the vocabulary's end tokens get
                                    // logit -infinity
  int32_t num_logprobs = 0;         // top-n of the raw logits with every token; 0: none
  AcceptanceRuleKind acceptance = AcceptanceRuleKind::kKeyed;
};

struct DraftOptions {
  // A row of draft/registry.cc, several of them joined by '+' ("draft+suffix": one merged tree), or
  // "auto": those that are made for it and whose files are loaded, as much of each as pays.
  std::string drafter = "none";
  int32_t draft_max = 4;         // draft tokens a step (K), as far as the drafters have guesses
  bool is_adaptive = false;      // as many as pay, K at most; "auto" always is. Keyed draws only
  int32_t draft_width = 0;       // most children of a node; 1: chains; 0: as suits the drafter
  int32_t lookup_min_ngram = 2;  // `lookup`: shortest and longest n-gram that is searched
  int32_t lookup_max_ngram = 8;
  int32_t lookahead_window = 5;   // `lookahead`: columns of the window (W),
  int32_t lookahead_ngram = 4;    // tokens of an n-gram with its key (N),
  int32_t lookahead_guesses = 4;  // and most n-grams verified in a step (G)
};

enum class KvType { kF16, kF32 };

// A draft model may be approximate: nothing that it does can change the text, only how often its
// guesses are right.
enum class DraftRepack {
  kAuto,    // k4Bit; a draft model that is the target's own file shares its weights instead
  kStored,  // the weights as the file has them
  k4Bit,    // every matrix wider than 4 bits is quantised again to 4 bits at load
};
enum class DraftHead {
  kAuto,      // kCoarse where the vocabulary is large; kExact with the target's own weights
  kExact,     // all rows of the output matrix
  kFrequent,  // the rows of frequent tokens and of the prompt's own
  kCoarse,    // a narrow pass over all rows picks candidates, a fine one scores those
};

struct EngineOptions {
  std::string model_path;
  std::string draft_model_path;   // for the `draft` drafter
  int32_t num_threads = 0;        // 0: all cores this process may use
  int32_t context_tokens = 4096;  // 0: what the model was trained for
  int32_t prefill_chunk = 512;    // rows of one prefill pass
  KvType kv_type = KvType::kF16;
  KvType draft_kv_type = KvType::kF16;
  DraftRepack draft_repack = DraftRepack::kAuto;
  DraftHead draft_head = DraftHead::kAuto;
  int32_t draft_head_tokens = 0;     // kFrequent: rows kept; kCoarse: candidates; 0: a good number
  int32_t draft_context_tokens = 0;  // 0: the target's; beyond it the draft model stops drafting
  DraftOptions draft;
  // `suffix`: earlier outputs that drafts may come from too, shared by all requests of the engine.
  int64_t suffix_store_bytes = 0;  // most memory of the store; 0: none is kept
  std::string suffix_store_path;   // read at load if it exists; written by SaveSuffixStore
  std::string datastore_path;      // for the `rest` drafter
  // "auto": the measured costs of a step are kept here and used as a first guess; empty: nowhere.
  std::string step_costs_path;
  std::optional<std::string> pre_tokenizer;  // overrides tokenizer.ggml.pre; unset: the file's
};

}  // namespace tahmin
