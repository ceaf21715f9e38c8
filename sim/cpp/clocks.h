// Clocks of any periods, and the inputs that change in step with them: resets and settings of the surroundings.
//
// clocks.txt, a line each, times in picoseconds:
//   clock NAME INDEX PERIOD PHASE        bit INDEX of input NAME falls at PHASE + n·PERIOD, rises PERIOD/2 later; the
//                                        first one is the host's
//   reset NAME INDEX RELEASE CLOCK       high until the first fall of clock number CLOCK at RELEASE or later; the
//                                        first one ends the host's waiting
// settings.txt:
//   NAME LOW WIDTH VALUE                 bits of an input from the start on
//   NAME LOW WIDTH VALUE CLOCK CYCLE     from the fall of that clock after CYCLE rising edges on
// Without clocks.txt there are clk, 10 ns, and rst, 4 cycles.

#pragma once

#include <algorithm>
#include <cstring>

#include "io.h"
#include "ports.h"

namespace hwgen {

struct Input {
    const char* name;
    void (*set)(HWGEN_MODEL&, unsigned low, unsigned width, uint64_t value);
};

inline const std::vector<Input>& inputs() {
#define INPUT(port, name)                                                                                   \
    {name, [](HWGEN_MODEL& top, unsigned low, unsigned width, uint64_t value) { put_bits(top.port, low, width, value); }},
    static const std::vector<Input> table = {HWGEN_INPUTS(INPUT)};
#undef INPUT
    return table;
}

inline const Input& input(const std::string& name) {
    for (const Input& one : inputs())
        if (name == one.name) return one;
    fail("no input " + name);
}

class Clocks {
  public:
    Clocks(HWGEN_MODEL& top, const std::string& dir) : top_(top) {
        for (const Input& one : inputs())
            for (unsigned low = 0; low < HWGEN_WIDEST_INPUT; low += 64) one.set(top, low, 64, 0);
        std::vector<std::vector<std::string>> lines = load_lines(dir + "/clocks.txt");
        if (lines.empty()) lines = {{"clock", "clk", "0", "10000", "0"}, {"reset", "rst", "0", "40000", "0"}};
        bool reset = false;
        for (const auto& words : lines) {
            if (words.size() != 5) fail("clocks.txt: 5 words a line");
            const uint64_t index = std::stoull(words[2]), a = std::stoull(words[3]), b = std::stoull(words[4]);
            if (words[0] == "clock") {
                if (a < 2) fail("clocks.txt: a period is at least 2 ps");
                clocks_.push_back({&input(words[1]), unsigned(index), a, b, b});
                names_.push_back(words[1]);
            } else {
                if (b >= clocks_.size()) fail("clocks.txt: a reset before its clock");
                const Clock& clock = clocks_[b];
                const uint64_t fall = a > clock.phase ? (a - clock.phase + clock.period - 1) / clock.period : 0;
                input(words[1]).set(top, unsigned(index), 1, 1);
                if (!reset) host_start_ = fall;
                reset = true;
                add({&input(words[1]), unsigned(index), 1, 0, fall}, b);
            }
        }
        if (clocks_.empty() || clocks_.size() > 64) fail("clocks.txt: 1 to 64 clocks");
        for (const auto& words : load_lines(dir + "/settings.txt")) {
            if (words.size() != 4 && words.size() != 6) fail("settings.txt: 4 or 6 words a line");
            Change change{&input(words[0]), unsigned(std::stoul(words[1])), unsigned(std::stoul(words[2])),
                          std::stoull(words[3]), 0};
            if (words.size() == 4) {
                apply(change);
            } else {
                change.fall = std::stoull(words[5]);
                add(change, std::stoull(words[4]));
            }
        }
        for (Clock& clock : clocks_)
            std::stable_sort(clock.changes.begin(), clock.changes.end(),
                             [](const Change& a, const Change& b) { return a.fall < b.fall; });
        plan();
    }

    // Cycles of the host's clock until its reset is over.
    uint64_t host_start() const { return host_start_; }
    // Time of the next event, and the clocks (a bit each) that rise then.
    uint64_t time() const { return time_; }
    uint64_t rising() const { return rising_; }
    // Which clock a board has: its own where every board has one, else the first.
    size_t of_board(unsigned board) const {
        for (size_t i = 0; i < clocks_.size(); ++i)
            if (names_[i] == "board_clk" && clocks_[i].index == board) return i;
        return 0;
    }

    // Moves the clocks of the next event, whose inputs then are to be evaluated.
    void advance() {
        for (Clock& clock : clocks_) {
            if (clock.next != time_) continue;
            const bool rises = clock.rises;
            clock.input->set(top_, clock.index, 1, rises);
            clock.rises = !rises;
            clock.next += rises ? clock.period - clock.period / 2 : clock.period / 2;
            if (rises) continue;
            for (; clock.done < clock.changes.size() && clock.changes[clock.done].fall <= clock.falls; ++clock.done)
                apply(clock.changes[clock.done]);
            ++clock.falls;
        }
        plan();
    }

  private:
    struct Change {
        const Input* input;
        unsigned low, width;
        uint64_t value, fall;
    };
    struct Clock {
        const Input* input;
        unsigned index;
        uint64_t period, phase, next, falls = 0;
        bool rises = false;
        std::vector<Change> changes = {};
        size_t done = 0;
    };

    void apply(const Change& change) { change.input->set(top_, change.low, change.width, change.value); }
    void add(const Change& change, uint64_t clock) {
        if (clock >= clocks_.size()) fail("settings.txt: no clock " + std::to_string(clock));
        clocks_[clock].changes.push_back(change);
    }
    void plan() {
        time_ = ~0ull;
        for (const Clock& clock : clocks_) time_ = std::min(time_, clock.next);
        rising_ = 0;
        for (size_t i = 0; i < clocks_.size(); ++i)
            rising_ |= uint64_t(clocks_[i].rises && clocks_[i].next == time_) << i;
    }

    HWGEN_MODEL& top_;
    std::vector<Clock> clocks_;
    std::vector<std::string> names_;
    uint64_t host_start_ = 0, time_ = 0, rising_ = 0;
};

}  // namespace hwgen
