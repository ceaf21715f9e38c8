// Numbers side by side in a vector of bits.

#pragma once

#include <cstdint>
#include <cstring>

#include "svdpi.h"

namespace hwgen {

inline int64_t extended(uint64_t bits, int width) {
    return width >= 64 ? int64_t(bits) : int64_t(bits << (64 - width)) >> (64 - width);
}

template <int WIDTH, int COUNT>
void unpack(const svBitVecVal* from, int32_t* to) {
    if constexpr (WIDTH == 16) {
        int16_t lanes[COUNT];
        std::memcpy(lanes, from, sizeof lanes);
        for (int i = 0; i < COUNT; ++i) to[i] = lanes[i];
    } else {
        for (int i = 0; i < COUNT; ++i) {
            const int low = i * WIDTH, word = low / 32, shift = low % 32;
            uint64_t bits = from[word];
            if (shift + WIDTH > 32) bits |= uint64_t(from[word + 1]) << 32;
            to[i] = int32_t(extended(bits >> shift, WIDTH));
        }
    }
}

template <int WIDTH, int COUNT>
void pack(const uint64_t* from, svBitVecVal* to) {
    unsigned __int128 waiting = 0;
    int held = 0;
    constexpr uint64_t mask = WIDTH < 64 ? (uint64_t(1) << WIDTH) - 1 : ~uint64_t(0);
    for (int i = 0; i < COUNT; ++i) {
        waiting |= static_cast<unsigned __int128>(from[i] & mask) << held;
        for (held += WIDTH; held >= 32; held -= 32, waiting >>= 32) *to++ = uint32_t(waiting);
    }
    if (held) *to = uint32_t(waiting);
}

}  // namespace hwgen
