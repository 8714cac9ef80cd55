// `none`: plain decoding as a drafter that never guesses.
#pragma once

#include <memory>

#include "draft/drafter.h"

namespace tahmin {

std::unique_ptr<Drafter> MakeNone();

}  // namespace tahmin
