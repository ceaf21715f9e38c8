// Files, ports of any width, and random stalls for the simulation driver.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace hwgen {

[[noreturn]] inline void fail(const std::string& message) {
    std::fprintf(stderr, "driver: %s\n", message.c_str());
    std::exit(3);
}

// 32-bit words of a port, whatever type Verilator chose for its width.
template <class T>
constexpr int words_of() {
    return (sizeof(T) + 3) / 4;
}
template <class T>
uint32_t get_word(const T& port, int i) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<uint32_t>(static_cast<uint64_t>(port) >> (32 * i));
    } else {
        return port[i];
    }
}
template <class T>
void put_words(T& port, const uint32_t* words) {
    if constexpr (std::is_integral_v<T>) {
        uint64_t value = words[0];
        if constexpr (sizeof(T) > 4) value |= static_cast<uint64_t>(words[1]) << 32;
        port = static_cast<T>(value);
    } else {
        for (int i = 0; i < words_of<T>(); ++i) port[i] = words[i];
    }
}
#define PORT_WORDS(port) (words_of<std::remove_reference_t<decltype(port)>>())

// xorshift64*: one independent generator a stream.
class Coin {
  public:
    Coin(uint64_t seed, uint64_t stream, double probability)
        : state_((seed * 256 + stream + 1) * 0x9E3779B97F4A7C15ull + 0x2545F4914F6CDD1Dull),
          limit_(static_cast<uint64_t>(probability * 4294967296.0)) {
        if (state_ == 0) state_ = 1;
        for (int i = 0; i < 8; ++i) step();
    }
    bool stall() { return limit_ != 0 && (step() >> 32) < limit_; }

  private:
    uint64_t step() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Dull;
    }
    uint64_t state_;
    uint64_t limit_;
};

template <class T>
std::vector<T> load(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) return {};
    std::vector<T> data(static_cast<size_t>(file.tellg()) / sizeof(T));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(data.size() * sizeof(T)));
    return data;
}

class Out {
  public:
    explicit Out(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
        if (!file_) fail("cannot write " + path);
    }
    ~Out() {
        if (file_) std::fclose(file_);
    }
    Out(const Out&) = delete;
    template <class T>
    void put(const T& value) {
        if (std::fwrite(&value, sizeof value, 1, file_) != 1) fail("disk full or not writable");
    }
    void flush() {
        if (std::fflush(file_) != 0) fail("disk full or not writable");
    }

  private:
    std::FILE* file_;
};

struct Op {
    std::string name;
    uint64_t a[3] = {0, 0, 0};
};

inline std::vector<Op> load_program(const std::string& path) {
    std::ifstream file(path);
    if (!file) fail("no " + path);
    std::vector<Op> ops;
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        Op op;
        if (!(fields >> op.name)) continue;
        for (auto& value : op.a) fields >> value;
        ops.push_back(op);
    }
    return ops;
}

}  // namespace hwgen
