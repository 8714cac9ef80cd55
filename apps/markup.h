// Text in HTML and XML pages.
#pragma once

#include <string>
#include <string_view>

namespace tahmin::cli {

// The text as content or as a quoted attribute.
std::string EscapeMarkup(std::string_view text);

}  // namespace tahmin::cli
