// What one request cost and how its drafts fared. The first token comes out of the prefill, so the
// steps emit generated_tokens - 1. Identities: emitted = accepted + steps - cut (cut: the tokens of
// a block dropped because generation ended inside it); accepted <= tested <= drafted; 0 <=
// acceptance_rate <= 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tahmin {

// The share of one drafter. A token that several drafters proposed counts for the first of them in
// the order of calling (those that cost nothing come first).
struct DrafterStats {
  std::string name;
  int64_t calls = 0;     // steps in which it was asked for drafts
  int64_t proposed = 0;  // nodes of its own trees
  int64_t drafted = 0;   // of them, submitted to the target
  int64_t accepted = 0;
  // Of its own trees, by depth: nodes whose fate the emitted tokens decide, submitted or not.
  std::vector<int64_t> tested_by_depth;
  std::vector<int64_t> accepted_by_depth;
  double draft_ms = 0;  // Draft and Observe
  // Time that its accepted tokens would have taken in plain steps, less draft_ms and its share of
  // the larger passes; an estimate, 0 where the controller knows no costs.
  double won_ms = 0;
};

struct GenerationStats {
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;  // of them, found in the KV cache of the earlier turn
  int64_t generated_tokens = 0;      // committed, an end token included
  int64_t steps = 0;                 // target passes after the prefill
  int64_t drafted = 0;               // draft tokens submitted to the target
  int64_t tested = 0;                // of them, looked at by the acceptance rule
  int64_t accepted = 0;  // of them, kept by the rule (those that are cut count, see `cut`)
  int64_t cut = 0;       // tokens accepted or drawn but dropped behind the end of the text
  // Steps that drafted nothing because the sequence had outgrown the draft model's context.
  int64_t draft_context_full_steps = 0;
  // By depth 1, 2, ...: accepted / tested, and the counts themselves.
  std::vector<int64_t> tested_by_depth;
  std::vector<int64_t> accepted_by_depth;
  std::vector<int64_t> steps_by_drafted;  // [n]: steps that submitted n draft tokens
  std::vector<DrafterStats> drafters;     // those in use, in the order of calling
  double prefill_ms = 0;                  // the target's prefill
  double ttft_ms = 0;                     // request start to first token
  double draft_ms = 0;  // everything a drafter did, its own prefill and index included
  double verify_ms = 0;
  double decode_ms = 0;  // end of the target's prefill to the last token
  double total_ms = 0;

  // The first token comes out of the prefill's logits, so generated_tokens / decode time counts all
  // tokens over the time after the target's prefill.
  double TokensPerSecond() const;  // 0 when nothing was generated
  double AcceptanceRate() const;   // accepted / drafted; 0 with no drafts
  double TokensPerStep() const;    // emitted / steps, cut tokens not counted; 0 with no steps
  std::vector<double> AcceptanceByDepth() const;  // 0 where nothing was tested
};

}  // namespace tahmin
