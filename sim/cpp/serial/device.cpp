// A device whose host port is bytes, on standard input and output; faults on the way if asked for.
// Arguments: chances in a million that a byte is changed, is lost, and that it and the next 40 are; seed.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <random>
#include <unistd.h>
#include <vector>

#include "Vhwgen_serial.h"
#include "verilated.h"

namespace {

constexpr int kDivider = 8;                  // cycles a bit on the wires
constexpr uint64_t kIdleCycles = 4'000'000;  // without a byte: wait for one

// Either way: changes and loses bytes.
class Faults {
  public:
    Faults(char** arguments, uint64_t seed) : draw_(seed) {
        for (int i = 0; i < 3; ++i) chance_[i] = std::strtoul(arguments[i], nullptr, 10);
    }
    // False: the byte is lost.
    bool pass(uint8_t& byte) {
        if (gone_ && gone_--) return false;
        const uint32_t drawn = draw_() % 1'000'000;
        if (drawn < chance_[0]) byte ^= 1u << (draw_() % 8);
        else if (drawn < chance_[0] + chance_[1]) return false;
        else if (drawn < chance_[0] + chance_[1] + chance_[2]) gone_ = 40;
        return true;
    }

  private:
    std::mt19937_64 draw_;
    unsigned long chance_[3] = {};
    int gone_ = 0;
};

class Input {
  public:
    // Reads what is there; waits for it if ``wait``. False: closed.
    bool fill(bool wait) {
        if (next_ < count_) return true;
        pollfd one{0, POLLIN, 0};
        if (poll(&one, 1, wait ? -1 : 0) <= 0) return true;
        const ssize_t got = read(0, buffer_, sizeof buffer_);
        next_ = 0, count_ = got > 0 ? size_t(got) : 0;
        return got > 0;
    }
    bool empty() const { return next_ == count_; }
    uint8_t take() { return buffer_[next_++]; }

  private:
    uint8_t buffer_[4096];
    size_t next_ = 0, count_ = 0;
};

bool put_all(const std::vector<uint8_t>& bytes) {
    for (size_t at = 0; at < bytes.size();) {
        const ssize_t put = write(1, bytes.data() + at, bytes.size() - at);
        if (put <= 0) return false;
        at += size_t(put);
    }
    return true;
}

#if HWGEN_PINS
// The host's end of two wires.
struct Wires {
    int send_left = 0, send_clock = 0, take_left = 0, take_clock = 0;
    unsigned send_bits = 0, take_bits = 0;
    bool free() const { return send_left == 0; }
    void send(uint8_t byte) { send_bits = 0x200u | unsigned(byte) << 1, send_left = 10, send_clock = 0; }
    template <class Top> bool cycle(Top& top, uint8_t& byte) {
        top.rx = send_left ? send_bits & 1 : 1;
        if (send_left && ++send_clock == kDivider) send_clock = 0, send_bits >>= 1, --send_left;
        if (!take_left) {
            if (!top.tx) take_left = 10, take_clock = kDivider / 2;
            return false;
        }
        if (--take_clock) return false;
        take_clock = kDivider, take_bits = take_bits >> 1 | unsigned(top.tx) << 9;
        if (--take_left) return false;
        byte = uint8_t(take_bits >> 1);
        return take_bits >> 9 & 1;
    }
};
#endif

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    VerilatedContext context;
    Vhwgen_serial top(&context);
    const uint64_t seed = std::strtoull(argv[4], nullptr, 10);
    Faults down(argv + 1, 2 * seed), up(argv + 1, 2 * seed + 1);
    Input input;
    std::vector<uint8_t> output;
    uint64_t quiet = 0;
    top.rst = 1;
#if HWGEN_PINS
    Wires wires;
    top.rx = 1, top.divider = kDivider;
#else
    top.o___05Fready = 1;
#endif
    for (uint64_t cycle = 0;; ++cycle) {
        top.rst = cycle < 4;
        const bool look = cycle % 64 == 0 || quiet > kIdleCycles;
        if (look && !input.fill(quiet > kIdleCycles)) break;
        ++quiet;
        uint8_t byte = 0;
#if HWGEN_PINS
        if (cycle > 8 && wires.free() && !input.empty()) {
            byte = input.take(), quiet = 0;
            if (down.pass(byte)) wires.send(byte);
        }
        const bool came = wires.cycle(top, byte);
        if (came && cycle > 200 && up.pass(byte)) output.push_back(byte), quiet = 0;
        const bool end = came && byte == 0xC0;
#else
        if (cycle > 8 && !top.i___05Fvalid && !input.empty()) {
            byte = input.take(), quiet = 0;
            if (down.pass(byte)) top.i___05Fvalid = 1, top.i___05Fpayload = byte;
        }
        top.eval();
        const bool taken = top.i___05Fvalid && top.i___05Fready;
        const bool came = top.o___05Fvalid, end = came && top.o___05Fpayload >> 8;
        byte = uint8_t(top.o___05Fpayload);
        if (came && up.pass(byte)) output.push_back(byte), quiet = 0;
#endif
        if (!output.empty() && (end || output.size() > 256 || cycle % 4096 == 0)) {
            if (!put_all(output)) break;
            output.clear();
        }
        top.clk = 1, top.eval();
        top.clk = 0;
#if !HWGEN_PINS
        if (taken) top.i___05Fvalid = 0;
#endif
        top.eval();
    }
    top.final();
    return 0;
}
