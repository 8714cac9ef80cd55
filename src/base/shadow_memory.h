// TAHMIN_MAPS_SHADOW_MEMORY is defined in builds whose sanitizer reserves terabytes of address
// space: there a limit on address space (RLIMIT_AS) would end every program at once.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAHMIN_MAPS_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TAHMIN_MAPS_SHADOW_MEMORY 1
#endif
#endif
