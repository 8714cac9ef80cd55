// The loop of `tahmin chat`: one message a line from stdin, an answer to each.
#pragma once

#include "apps/conversation.h"
#include "tahmin/engine.h"

namespace tahmin::cli {

struct TalkFlags {
  bool use_color = false, print_stats = false, use_json = false;
};

// Until the input ends. The exit code: 1 when a message could not be answered and no person at a
// terminal saw it.
int Talk(const TalkFlags& flags, Engine& engine, GenerationRequest request,
         Conversation conversation);

}  // namespace tahmin::cli
