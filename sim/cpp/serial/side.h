// The host port of a device in its three forms, HWGEN_SIDE: 0 a stream of bytes each way, 1 the two wires of a UART, 2 the
// beats of a DMA engine. Each drives inputs from a source of bytes, samples outputs into a sink once they are evaluated, and
// settles its inputs behind the rising edge.

#pragma once

#include <cstdint>

#include "Vhwgen_serial.h"

namespace hwgen {

#if HWGEN_SIDE == 0
class Side {
  public:
    explicit Side(Vhwgen_serial& top) : top_(top) { top.o___05Fready = 1; }
    template <class Source> void drive(Source& source) {
        uint8_t byte = 0;
        if (!top_.i___05Fvalid && source.next(byte)) top_.i___05Fvalid = 1, top_.i___05Fpayload = byte;
    }
    template <class Sink> void sample(Sink& sink) {
        taken_ = top_.i___05Fvalid && top_.i___05Fready;
        if (top_.o___05Fvalid) sink.put(uint8_t(top_.o___05Fpayload), top_.o___05Fpayload >> 8);
    }
    void settle() {
        if (taken_) top_.i___05Fvalid = 0;
    }

  private:
    Vhwgen_serial& top_;
    bool taken_ = false;
};

#elif HWGEN_SIDE == 1
class Side {
  public:
    explicit Side(Vhwgen_serial& top) : top_(top) { top.rx = 1, top.divider = kDivider; }
    template <class Source> void drive(Source& source) {
        uint8_t byte = 0;
        if (!send_left_ && source.next(byte)) send_bits_ = 0x200u | unsigned(byte) << 1, send_left_ = 10, send_clock_ = 0;
        top_.rx = send_left_ ? send_bits_ & 1 : 1;
        if (send_left_ && ++send_clock_ == kDivider) send_clock_ = 0, send_bits_ >>= 1, --send_left_;
    }
    template <class Sink> void sample(Sink& sink) {
        if (!take_left_) {
            if (!top_.tx && ++cycles_ > kSettled) take_left_ = 10, take_clock_ = kDivider / 2;
            else ++cycles_;
            return;
        }
        if (--take_clock_) return;
        take_clock_ = kDivider, take_bits_ = take_bits_ >> 1 | unsigned(top_.tx) << 9;
        if (--take_left_) return;
        const uint8_t byte = uint8_t(take_bits_ >> 1);
        if (take_bits_ >> 9 & 1) sink.put(byte, byte == 0xC0);
    }
    void settle() {}

  private:
    static constexpr int kDivider = 8;  // cycles a bit
    static constexpr int kSettled = 200;  // cycles after which the wire is the device's
    Vhwgen_serial& top_;
    int send_left_ = 0, send_clock_ = 0, take_left_ = 0, take_clock_ = 0;
    unsigned send_bits_ = 0, take_bits_ = 0;
    uint64_t cycles_ = 0;
};

#else
class Side {
  public:
    explicit Side(Vhwgen_serial& top) : top_(top) { top.c2h_tready = 1; }
    template <class Source> void drive(Source& source) {
        if (top_.h2c_tvalid) return;
        uint64_t data = 0;
        unsigned keep = 0;
        uint8_t byte = 0;
        for (int i = 0; i < kBytes && source.next(byte); ++i) data |= uint64_t(byte) << 8 * i, keep |= 1u << i;
        if (keep) top_.h2c_tdata = data, top_.h2c_tkeep = keep, top_.h2c_tvalid = 1;
    }
    template <class Sink> void sample(Sink& sink) {
        taken_ = top_.h2c_tvalid && top_.h2c_tready;
        if (!top_.c2h_tvalid) return;
        const unsigned keep = top_.c2h_tkeep;
        for (int i = 0; i < kBytes; ++i)
            if (keep >> i & 1) sink.put(uint8_t(top_.c2h_tdata >> 8 * i), top_.c2h_tlast && !(keep >> i >> 1));
    }
    void settle() {
        if (taken_) top_.h2c_tvalid = 0;
    }

  private:
    static constexpr int kBytes = 8;  // of a beat
    Vhwgen_serial& top_;
    bool taken_ = false;
};
#endif

}  // namespace hwgen
