// Invariant checks. TAHMIN_CHECK is always on and is for our own broken invariants, never for user
// input (that gives an absl::Status). TAHMIN_DCHECK is for hot loops and vanishes with NDEBUG.
#pragma once

#include <cstdio>
#include <cstdlib>

#define TAHMIN_CHECK(condition)                                                              \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)

#ifdef NDEBUG
#define TAHMIN_DCHECK(condition) \
  do {                           \
  } while (false)
#else
#define TAHMIN_DCHECK(condition) TAHMIN_CHECK(condition)
#endif
