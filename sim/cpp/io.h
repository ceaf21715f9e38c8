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
// Sets bits low..low+width-1 (at most 64) of a port; those past its end do not exist.
template <class T>
void put_bits(T& port, unsigned low, unsigned width, uint64_t value) {
    const uint64_t mask = width < 64 ? (uint64_t(1) << width) - 1 : ~uint64_t(0);
    value &= mask;
    if constexpr (std::is_integral_v<T>) {
        if (low < 8 * sizeof(T)) port = static_cast<T>((port & ~(mask << low)) | value << low);
    } else {
        for (int i = int(low / 32); i < words_of<T>() && i <= int((low + width - 1) / 32); ++i) {
            const int shift = int(low) - 32 * i;
            const auto place = [shift](uint64_t bits) {
                return static_cast<uint32_t>(shift >= 0 ? bits << shift : bits >> -shift);
            };
            port[i] = (port[i] & ~place(mask)) | place(value);
        }
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

template <class T>
void put_port(Out& file, const T& port) {
    for (int i = 0; i < words_of<T>(); ++i) file.put(get_word(port, i));
}

// Words of every line; no lines where there is no file.
inline std::vector<std::vector<std::string>> load_lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::vector<std::string>> lines;
    std::string line, word;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::vector<std::string> words;
        while (fields >> word) words.push_back(word);
        if (!words.empty()) lines.push_back(words);
    }
    return lines;
}

struct Op {
    std::string name;
    uint64_t a[5] = {0, 0, 0, 0, 0};
};

inline std::vector<Op> load_program(const std::string& path) {
    if (!std::ifstream(path)) fail("no " + path);
    std::vector<Op> ops;
    for (const auto& words : load_lines(path)) {
        Op op{words[0]};
        for (size_t i = 1; i < words.size() && i < 6; ++i) op.a[i - 1] = std::stoull(words[i]);
        ops.push_back(op);
    }
    return ops;
}

}  // namespace hwgen
