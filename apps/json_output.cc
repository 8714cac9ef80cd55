#include "apps/json_output.h"

#include <vector>

namespace tahmin::cli {

namespace {

nlohmann::json LogprobsToJson(const std::vector<TokenEvent>& events) {
  nlohmann::json list = nlohmann::json::array();
  for (const TokenEvent& event : events) {
    nlohmann::json top = nlohmann::json::array();
    for (const LogprobEntry& entry : event.top) {
      top.push_back({{"id", entry.token}, {"logprob", entry.logprob}});
    }
    list.push_back({{"id", event.token}, {"logprob", event.logprob}, {"top", top}});
  }
  return list;
}

nlohmann::json SharesToJson(const std::vector<DrafterStats>& shares) {
  nlohmann::json list = nlohmann::json::array();
  for (const DrafterStats& share : shares) {
    list.push_back({{"name", share.name},
                    {"calls", share.calls},
                    {"proposed", share.proposed},
                    {"drafted", share.drafted},
                    {"accepted", share.accepted},
                    {"tested_by_depth", share.tested_by_depth},
                    {"accepted_by_depth", share.accepted_by_depth},
                    {"draft_ms", share.draft_ms},
                    {"won_ms", share.won_ms}});
  }
  return list;
}

nlohmann::json StatsToJson(const GenerationStats& stats) {
  return {{"tokens_per_second", stats.TokensPerSecond()},
          {"prefill_ms", stats.prefill_ms},
          {"draft_ms", stats.draft_ms},
          {"verify_ms", stats.verify_ms},
          {"decode_ms", stats.decode_ms},
          {"total_ms", stats.total_ms},
          {"ttft_ms", stats.ttft_ms},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_prompt_tokens", stats.cached_prompt_tokens},
          {"generated_tokens", stats.generated_tokens},
          {"steps", stats.steps},
          {"drafted", stats.drafted},
          {"tested", stats.tested},
          {"accepted", stats.accepted},
          {"cut", stats.cut},
          {"draft_context_full_steps", stats.draft_context_full_steps},
          {"acceptance_rate", stats.AcceptanceRate()},
          {"acceptance_by_depth", stats.AcceptanceByDepth()},
          {"tested_by_depth", stats.tested_by_depth},
          {"tokens_per_step", stats.TokensPerStep()},
          {"drafters", SharesToJson(stats.drafters)}};
}

}  // namespace

std::string DumpJson(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json ResultToJson(const GenerationResult& result, const GenerationRequest& request) {
  nlohmann::json object = {{"text", result.text},
                           {"ids", result.tokens},
                           {"finish_reason", result.finish_reason},
                           {"seed", result.seed},
                           {"drafter", request.draft.drafter},
                           {"prompt_ids", request.prompt_tokens},
                           {"stats", StatsToJson(result.stats)}};
  if (request.options.num_logprobs > 0) object["logprobs"] = LogprobsToJson(result.logprobs);
  return object;
}

}  // namespace tahmin::cli
