// The way to memories that does not lead through the device: those of rolled arrays and the model of external memory.
//
//   poke_array BOARD STAGE OFFSET COUNT             weights out of words.bin, [PE][address]
//   peek_array BOARD STAGE WHAT COUNT               0 weights, 1 and 2 the low and the high word of dW, in that order
//   poke_memory BOARD BASE STRIDE OFFSET COUNT      elements of STRIDE bytes out of words.bin, from byte BASE on
//   peek_memory BOARD BASE STRIDE BITS COUNT        signed elements of BITS bits

#pragma once

#include "arrays.h"
#include "io.h"

#if HWGEN_BACKDOOR

#if HWGEN_MEMORY
extern "C" long long hwgen_memory_get(int at);
extern "C" void hwgen_memory_put(int at, long long value);
#else
inline long long hwgen_memory_get(int) { return 0; }
inline void hwgen_memory_put(int, long long) {}
#endif

namespace hwgen {

inline std::vector<std::pair<std::string, svScope>>& memory_scopes() {
    static std::vector<std::pair<std::string, svScope>> all;
    return all;
}

// What stands where the name of its place has "<what><number>" as a whole component, of a board alone "<what>".
inline bool stands_at(const std::string& place, const std::string& what, uint64_t number) {
    return ("." + place + ".").find("." + what + std::to_string(number) + ".") != std::string::npos;
}

inline Rolled& array_at(uint64_t board, uint64_t stage) {
    for (const auto& array : rolled_arrays()) {
        const bool own = stands_at(array->place(), "board_", board) || array->place().find(".board_") == std::string::npos;
        if (own && stands_at(array->place(), "stage_", stage)) return *array;
    }
    fail("no rolled array of stage " + std::to_string(stage) + " of board " + std::to_string(board));
}

inline void enter_memory(uint64_t board) {
    for (const auto& [place, scope] : memory_scopes()) {
        if (!stands_at(place, "memory_", board)) continue;
        svSetScope(scope);
        return;
    }
    fail("no external memory of board " + std::to_string(board));
}

// Does an operation if it is one of those above; else false.
inline bool backdoor(const Op& op, const std::vector<uint32_t>& words, Out& reads) {
    const uint64_t* a = op.a;
    const auto word = [&](uint64_t at) -> uint32_t {
        if (at >= words.size()) fail(op.name + " past the end of words.bin");
        return words[at];
    };
    if (op.name == "poke_array" || op.name == "peek_array") {
        Rolled& array = array_at(a[0], a[1]);
        if (a[3] != uint64_t(array.pes()) * array.depth()) fail(op.name + ": not the words of the array");
        for (uint64_t i = 0; i < a[3]; ++i) {
            const uint32_t pe = uint32_t(i / array.depth()), address = uint32_t(i % array.depth());
            if (op.name == "poke_array") array.load(pe, address, word(a[2] + i));
            else if (a[2] == 0) reads.put(uint32_t(array.weight(pe, address)));
            else reads.put(uint32_t(array.gradient(pe, address) >> (a[2] == 1 ? 0 : 32)));
        }
        return true;
    }
    if (op.name != "poke_memory" && op.name != "peek_memory") return false;
    enter_memory(a[0]);
    for (uint64_t i = 0; i < a[4]; ++i) {
        const uint64_t byte = a[1] + i * a[2];
        const int at = int(byte / 8), shift = int(byte % 8 * 8);
        const uint64_t mask = a[2] < 8 ? (uint64_t(1) << 8 * a[2]) - 1 : ~uint64_t(0), old = uint64_t(hwgen_memory_get(at));
        if (op.name == "poke_memory") {
            const uint64_t value = uint64_t(int64_t(int32_t(word(a[3] + i))));
            hwgen_memory_put(at, (long long)((old & ~(mask << shift)) | (value & mask) << shift));
        } else {
            reads.put(uint32_t(extended(old >> shift, int(a[3]))));
        }
    }
    return true;
}

}  // namespace hwgen

extern "C" void hwgen_memory_here() {
    hwgen::memory_scopes().emplace_back(svGetNameFromScope(svGetScope()), svGetScope());
}

#else

namespace hwgen {
inline bool backdoor(const Op&, const std::vector<uint32_t>&, Out&) { return false; }
}  // namespace hwgen

#endif
