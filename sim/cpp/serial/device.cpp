// A device's host port on standard input and output; faults on the way if asked for. Arguments: chances in a million that a
// byte is changed, is lost, and that it and the next 40 are; seed. Where standard output keeps packets apart, each is what
// the device ends as one.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "side.h"
#include "verilated.h"

namespace {

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

// What the host sends.
class Source {
  public:
    Source(Faults faults, uint64_t& quiet) : faults_(faults), quiet_(quiet) {}
    // Reads what is there; waits for it if ``wait``. False: closed.
    bool fill(bool wait) {
        if (next_ < count_) return true;
        pollfd one{0, POLLIN, 0};
        if (poll(&one, 1, wait ? -1 : 0) <= 0) return true;
        const ssize_t got = read(0, buffer_, sizeof buffer_);
        next_ = 0, count_ = got > 0 ? size_t(got) : 0;
        return got > 0;
    }
    // False: nothing is there.
    bool next(uint8_t& byte) {
        while (next_ < count_) {
            byte = buffer_[next_++], quiet_ = 0;
            if (faults_.pass(byte)) return true;
        }
        return false;
    }

  private:
    Faults faults_;
    uint64_t& quiet_;
    uint8_t buffer_[8192];
    size_t next_ = 0, count_ = 0;
};

// What it gets: written at the end of a packet, or early where bytes are but a stream.
class Sink {
  public:
    Sink(Faults faults, uint64_t& quiet) : faults_(faults), quiet_(quiet) {
        int type = 0;
        socklen_t size = sizeof type;
        packets_ = !getsockopt(1, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_SEQPACKET;
    }
    void put(uint8_t byte, bool end) {
        if (faults_.pass(byte)) bytes_.push_back(byte), quiet_ = 0;
        ended_ |= end;
    }
    // False: nobody reads any more.
    bool flush(bool early) {
        if (bytes_.empty() || !(ended_ || (!packets_ && (early || bytes_.size() > 256)))) return true;
        for (size_t at = 0; at < bytes_.size();) {
            const ssize_t put = write(1, bytes_.data() + at, bytes_.size() - at);
            if (put <= 0) return false;
            at += size_t(put);
        }
        bytes_.clear(), ended_ = false;
        return true;
    }

  private:
    Faults faults_;
    uint64_t& quiet_;
    std::vector<uint8_t> bytes_;
    bool packets_ = false, ended_ = false;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    VerilatedContext context;
    Vhwgen_serial top(&context);
    const uint64_t seed = std::strtoull(argv[4], nullptr, 10);
    uint64_t quiet = 0;
    Source source(Faults(argv + 1, 2 * seed), quiet);
    Sink sink(Faults(argv + 1, 2 * seed + 1), quiet);
    hwgen::Side side(top);
    for (uint64_t cycle = 0;; ++cycle) {
        top.rst = cycle < 4;
        const bool look = cycle % 64 == 0 || quiet > kIdleCycles;
        if (look && !source.fill(quiet > kIdleCycles)) break;
        ++quiet;
        if (cycle > 8) side.drive(source);
        top.eval();
        side.sample(sink);
        if (!sink.flush(cycle % 4096 == 0)) break;
        top.clk = 1, top.eval();
        top.clk = 0, side.settle(), top.eval();
    }
    top.final();
    return 0;
}
