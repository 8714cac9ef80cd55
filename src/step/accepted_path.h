// The result of the acceptance rule: a path of draft nodes from the root, then one more token.
#pragma once

#include <cstdint>
#include <vector>

namespace tahmin {

struct AcceptedPath {
  std::vector<int32_t> nodes;  // accepted draft nodes, root side first; may be empty
  // The tokens this step emits: the accepted nodes' tokens, then the residual or bonus token.
  // tokens.size() == nodes.size() + 1 as the rule returns it; the commit routine may cut it short.
  std::vector<int32_t> tokens;
  // Draft tokens whose acceptance was tested, by depth: the last tested one may have been rejected.
  int32_t num_tested = 0;
};

}  // namespace tahmin
