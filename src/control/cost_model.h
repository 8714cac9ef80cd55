// What a step costs on this machine now: T(n), a pass of the target over n rows, and what drafters
// take. Measured points are a first guess; every step that runs corrects it: a common factor
// follows the drift of the machine and the growth of the context, and each row count keeps a
// correction of its own. Pure arithmetic; decoding thread only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tahmin {

struct RowCost {
  int32_t rows = 1;
  double ms = 0;
};

class VerifyCost {
 public:
  static constexpr int32_t kMaxRows = 64;  // more rows cost what the last slope says

  // points: ascending rows, the first one rows == 1, ms > 0; linear in between, the last slope goes
  // on. Empty: one unit a pass plus a tenth a row, until passes are seen.
  explicit VerifyCost(const std::vector<RowCost>& points);

  double Ms(int32_t rows) const;  // never falls with rows
  void Add(int32_t rows, double ms);
  // The model as points, for the next run.
  std::vector<RowCost> Points() const;

 private:
  std::array<double, kMaxRows> shape_ = {};  // by rows - 1
  std::array<double, kMaxRows> seen_ = {};   // passes of that many rows, or nearly
  double factor_ = 1;
  bool is_measured_ = false;  // factor_ has a unit
};

}  // namespace tahmin
