// Runs a piece of untrusted work in a forked child with limits on time, memory and output. The
// child has only the calling thread, so the work must not need a lock that another thread of this
// program may hold; should it hang all the same, the wall clock ends it. May be called from any
// thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace tahmin {

struct ChildLimits {
  double cpu_seconds = 2;
  double wall_seconds = 20;
  size_t memory_bytes = size_t{512} << 20;  // on top of what this process has mapped already
  size_t output_bytes = size_t{16} << 20;
};

struct ChildReply {
  char kind = 0;  // the work's own code for what `text` is
  std::string text;
};

// RESOURCE_EXHAUSTED when a limit ended the child (or a crash in it), INTERNAL when none could be
// started. Memory is not limited in builds with AddressSanitizer or ThreadSanitizer, which map
// terabytes.
absl::StatusOr<ChildReply> RunInChild(const ChildLimits& limits,
                                      const std::function<ChildReply()>& work);

}  // namespace tahmin
