// Drives module link_bench: four clocks, two resets, faults of the cable, and what it counted, as "name value" lines.
//
//   link_bench name=value ...        (names: struct Setting; times in ps, cycles of a_link_clk)
//
// Exit: 0 all words arrived, 4 no progress or out of cycles, 3 bad argument.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "Vlink_bench.h"
#include "verilated.h"

namespace {

[[noreturn]] void fail(const std::string& message) {
    std::fprintf(stderr, "link_bench: %s\n", message.c_str());
    std::exit(3);
}

struct Setting {
    std::map<std::string, uint64_t> values{
        {"down", 0}, {"up", 0}, {"counters", 0}, {"a_limit", 0}, {"b_limit", 0}, {"seed", 1}, {"a_identity", 1}, {"b_identity", 2},
        {"a_expected", 2}, {"b_expected", 1}, {"a_period", 4000}, {"a_link_period", 4000}, {"b_period", 4000},
        {"b_link_period", 4000}, {"a_reset", 100000}, {"b_reset", 100000}, {"latency", 0}, {"jitter", 0},
        {"rate", 65536}, {"drop33", 0}, {"flip_last", 0}, {"error", 0}, {"loss", 0}, {"repeat", 0}, {"early", 0},
        {"source_stall", 0}, {"sink_stall", 0}, {"pauses", 0}, {"inject_error", 0}, {"inject_loss", 0},
        {"inject_repeat", 0}, {"spread", 1}, {"down_at", 0}, {"down_for", 0}, {"settle", 0}, {"patience", 100000},
        {"max_cycles", ~0ull}, {"up_state", 2}};
    uint64_t operator[](const std::string& name) const { return values.at(name); }
};

class Bench {
  public:
    explicit Bench(const Setting& setting) : set_(setting), top_(new Vlink_bench(&context_)) {
        top_->a_identity = set_["a_identity"];
        top_->b_identity = set_["b_identity"];
        top_->a_expected = set_["a_expected"];
        top_->b_expected = set_["b_expected"];
        top_->a_phy_up = top_->b_phy_up = 1;
        top_->latency = set_["latency"];
        top_->jitter = set_["jitter"];
        top_->rate = set_["rate"];
        top_->drop33 = set_["drop33"];
        top_->flip_last = set_["flip_last"];
        top_->pauses = set_["pauses"];
        top_->source_stall = set_["source_stall"];
        top_->sink_stall = set_["sink_stall"];
        top_->a_seed = 2 * set_["seed"];
        top_->b_seed = 2 * set_["seed"] + 1;
        top_->a_rst = top_->a_link_rst = top_->b_rst = top_->b_link_rst = 1;
        const char* names[] = {"a_period", "a_link_period", "b_period", "b_link_period"};
        for (int k = 0; k < 4; ++k) half_[k] = next_[k] = set_[names[k]] / 2;
        if (set_["early"]) begin();
    }

    int run() {
        while (!(top_->a_state == set_["up_state"] && top_->b_state == set_["up_state"])) {
            cycle();
            if (cycles_ > set_["patience"]) return finish(4);
        }
        const uint64_t start = cycles_, wanted = set_["a_limit"] * set_["down"] + set_["b_limit"] * set_["up"];
        const uint64_t down_at = start + set_["down_at"], down_until = down_at + set_["down_for"], patience = set_["patience"];
        uint64_t progress = start, total = 0;
        begin();
        began_ = true;
        while (total != wanted || !injected()) {
            cycle();
            top_->down = cycles_ >= down_at && cycles_ < down_until;
            if (cycles_ % 64) continue;
            uint64_t sum = 0;
            for (uint64_t k = 0; k < channels_; ++k) sum += received(k);
            if (sum != total) progress = cycles_;
            total = sum;
            if ((total < wanted && cycles_ - progress > patience) || cycles_ - start > set_["max_cycles"])
                return finish(4);
        }
        print("cycles", progress - start);
        top_->error = top_->loss = top_->repeat_ = 0;
        for (uint64_t k = 0; k < set_["settle"]; ++k) cycle();
        return finish(0);
    }

  private:
    // Faults and traffic begin.
    void begin() {
        top_->a_limit = set_["a_limit"];
        top_->b_limit = set_["b_limit"];
        top_->error = set_["error"];
        top_->loss = set_["loss"];
        top_->repeat_ = set_["repeat"];
    }

    uint64_t injections() const { return set_["inject_error"] + set_["inject_loss"] + set_["inject_repeat"]; }
    // Marks frames one after the other, kind by kind, `spread` cycles apart: which kind now, if any.
    int injection(int end) {
        if (!began_ || ++ticks_[end] < 500 || ticks_[end] % spread_ || injected_[end] == injections_) return 0;
        const uint64_t k = injected_[end]++;
        if (k < set_["inject_error"]) return 1;
        return k < set_["inject_error"] + set_["inject_loss"] ? 2 : 3;
    }

    uint32_t received(int channel) {
        top_->channel = channel;
        top_->eval();
        return top_->received;
    }

    // Until after the next falling edge of a_link_clk. Inputs of a clock's domain change with its falling edge.
    void cycle() {
        bool fell = false;
        while (!fell) {
            uint64_t now = ~0ull;
            for (uint64_t time : next_) now = time < now ? time : now;
            for (int k = 0; k < 4; ++k) {
                if (next_[k] != now) continue;
                next_[k] += half_[k];
                toggle(k, now);
                fell |= k == 1 && !top_->a_link_clk;
            }
            top_->eval();
        }
        ++cycles_;
    }
    void toggle(int clock, uint64_t now) {
        if (clock == 0 && !(top_->a_clk ^= 1)) {
            top_->a_rst = now < a_reset_;
            top_->a_snapshot = std::exchange(snapshot_[0], false);
        }
        if (clock == 1 && !(top_->a_link_clk ^= 1)) {
            top_->a_link_rst = now < a_reset_;
            const int kind = injection(0);
            top_->a_inject_error = kind == 1;
            top_->a_inject_loss = kind == 2;
            top_->a_inject_repeat = kind == 3;
        }
        if (clock == 2 && !(top_->b_clk ^= 1)) {
            top_->b_rst = now < b_reset_;
            top_->b_snapshot = std::exchange(snapshot_[1], false);
        }
        if (clock == 3 && !(top_->b_link_clk ^= 1)) {
            top_->b_link_rst = now < b_reset_;
            const int kind = injection(1);
            top_->b_inject_error = kind == 1;
            top_->b_inject_loss = kind == 2;
            top_->b_inject_repeat = kind == 3;
        }
    }

    bool injected() const {
        return injected_[0] == injections_ && injected_[1] == injections_ && !top_->a_marked && !top_->b_marked;
    }

    void counters() {
        snapshot_[0] = snapshot_[1] = true;
        wait_all(40);
        for (uint64_t k = 0; k < set_["counters"]; ++k) {
            top_->a_counter_select = top_->b_counter_select = k;
            wait_all(2);
            print("a_" + std::to_string(k), top_->a_counter);
            print("b_" + std::to_string(k), top_->b_counter);
        }
    }

    int finish(int code) {
        counters();
        for (uint64_t k = 0; k < channels_; ++k) print("received_" + std::to_string(k), received(k));
        print("wrong", top_->wrong);
        print("a_state", top_->a_state);
        print("b_state", top_->b_state);
#define PRINT(name) print(#name, top_->name)
        PRINT(a_words), PRINT(a_frames), PRINT(a_damaged), PRINT(a_lost), PRINT(a_repeated), PRINT(a_most);
        PRINT(b_words), PRINT(b_frames), PRINT(b_damaged), PRINT(b_lost), PRINT(b_repeated), PRINT(b_most);
        return code;
    }
    static void print(const std::string& name, uint64_t value) {
        std::printf("%s %llu\n", name.c_str(), static_cast<unsigned long long>(value));
    }
    // So many cycles of every clock.
    void wait_all(int cycles) {
        uint64_t slowest = 0;
        for (uint64_t half : half_) slowest = half > slowest ? half : slowest;
        for (uint64_t k = 0; k * half_[1] <= cycles * slowest; ++k) cycle();
    }

    const Setting& set_;
    VerilatedContext context_;
    std::unique_ptr<Vlink_bench> top_;
    uint64_t half_[4], next_[4], cycles_ = 0, ticks_[2] = {}, injected_[2] = {};
    bool began_ = false, snapshot_[2] = {};
    const uint64_t a_reset_ = set_["a_reset"], b_reset_ = set_["b_reset"], injections_ = injections();
    const uint64_t spread_ = set_["spread"], channels_ = set_["down"] + set_["up"];
};

}  // namespace

int main(int argc, char** argv) {
    Setting setting;
    for (int k = 1; k < argc; ++k) {
        const std::string argument = argv[k];
        const size_t at = argument.find('=');
        const auto found = setting.values.find(argument.substr(0, at));
        if (at == std::string::npos || found == setting.values.end()) fail("no such setting: " + argument);
        found->second = std::strtoull(argument.c_str() + at + 1, nullptr, 10);
    }
    return Bench(setting).run();
}
