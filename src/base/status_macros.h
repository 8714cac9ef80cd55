// Early return for absl::Status and absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define TAHMIN_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define TAHMIN_CONCAT_INNER(a, b) a##b
#define TAHMIN_CONCAT(a, b) TAHMIN_CONCAT_INNER(a, b)

// TAHMIN_ASSIGN_OR_RETURN(auto value, MakeValue());
#define TAHMIN_ASSIGN_OR_RETURN(declaration, expression) \
  TAHMIN_ASSIGN_OR_RETURN_IMPL(TAHMIN_CONCAT(status_or_, __LINE__), declaration, expression)
#define TAHMIN_ASSIGN_OR_RETURN_IMPL(holder, declaration, expression) \
  auto holder = (expression);                                         \
  if (!holder.ok()) return holder.status();                           \
  declaration = std::move(holder).value()
