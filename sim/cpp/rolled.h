// Arrays of processing elements as loops over their weights: the same outputs in every cycle as hwgen.gateware.array
// gives, from the same inputs. Resets are taken while nothing is under way.
//
// An op enters a tile's row i i cycles late and leaves its column as much earlier, so that a sum is the product of one
// cycle's operands with the weights of one cycle; only reads and writes of memories happen in a cycle of their own,
// column j of a tile j cycles behind its column 0. All tiles do the same at the same time.

#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "svdpi.h"

namespace hwgen {

// The inputs of a cycle. Control is that of gateware.shape.control_layout.
struct ArrayInputs {
    bool rst, f_load, load, load_sum;
    uint32_t f_address, load_select, load_address, load_value, peek_select;
    uint64_t control, load_grad;
    const svBitVecVal *f_x, *b_dy, *b_x;
};
struct ArrayOutputs {
    svBitVecVal *f_sum, *b_sum;
    long long *peek_master, *peek_grad;
};

// An array's memories, for those who do not take the way through the device. PEs are numbered i·Pn + j.
class Rolled {
  public:
    explicit Rolled(const char* place) : place_(place) {}
    virtual ~Rolled() = default;
    const std::string& place() const { return place_; }
    virtual uint32_t pes() const = 0;
    virtual uint32_t depth() const = 0;
    virtual int64_t weight(uint32_t pe, uint32_t address) const = 0;
    virtual int64_t gradient(uint32_t pe, uint32_t address) const = 0;
    // As a load of the host does: the weight, and a dW of 0.
    virtual void load(uint32_t pe, uint32_t address, uint32_t value) = 0;

  private:
    std::string place_;
};

// All arrays of the simulation, by the number that they got when they were made.
inline std::vector<std::unique_ptr<Rolled>>& rolled_arrays() {
    static std::vector<std::unique_ptr<Rolled>> all;
    return all;
}

// Levels of a tree of adders.
constexpr int levels(int leaves) {
    int count = 0;
    while ((1 << count) < leaves) ++count;
    return count;
}
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

// S has the fields of gateware.shape.ArrayShape as constants, and PK, PN, TK, TN.
template <class S>
class RolledArray final : public Rolled {
    static constexpr int PK = S::PK, PN = S::PN, TK = S::TK, TN = S::TN, GK = PK / TK, GN = PN / TN;
    static constexpr int L = GN * PK;  // words of all tiles' columns j: tile column by tile column, row by row
    static constexpr int HELD = S::COPY ? 0 : 1, LATE = S::BACKWARD ? HELD : 0;
    static constexpr size_t ADDRESSES = size_t(1) << S::ADDRESS;
    static constexpr int F_LATER = TK + 1 + levels(GK), B_LATER = TN + 1 + levels(GN);
    static constexpr int AGO = 1 << levels(TN + 16), F_RING = 1 << levels(F_LATER + 2), B_RING = 1 << levels(B_LATER + 2);

  public:
    explicit RolledArray(const char* place) : Rolled(place), columns_(TN) {
        for (Column& column : columns_) {
            column.masters.assign(ADDRESSES * L, 0);
            if (S::COPY) column.copies.assign(ADDRESSES * L, 0);
            if (S::GRADIENT && S::DEPTH > 1) column.sums.assign(ADDRESSES * L, 0);
        }
    }

    void step(const ArrayInputs& in, const ArrayOutputs& out) {
        forward();
        for (int j = 0; j < TN; ++j) column(j);
        take(in);
        ++now_;
        pack<S::PSUM, PN>(f_sums_[now_ % F_RING], out.f_sum);
        pack<S::BACK, PK>(b_sums_[now_ % B_RING], out.b_sum);
        *out.peek_master = extended(uint64_t(masters_out_[now_ % AGO]), S::W);
        *out.peek_grad = extended(uint64_t(grads_out_[now_ % AGO]), S::GRAD);
    }

    uint32_t pes() const override { return PK * PN; }
    uint32_t depth() const override { return S::DEPTH; }
    int64_t weight(uint32_t pe, uint32_t address) const override {
        return columns_[pe % PN % TN].masters[size_t(address) * L + place_of(pe)];
    }
    int64_t gradient(uint32_t pe, uint32_t address) const override {
        if constexpr (!S::GRADIENT) return 0;
        const Column& column = columns_[pe % PN % TN];
        const uint32_t at = place_of(pe);
        return extended(S::DEPTH == 1 ? column.total[at] : column.sums[size_t(address) * L + at], S::GRAD);
    }
    void load(uint32_t pe, uint32_t address, uint32_t value) override {
        Column& column = columns_[pe % PN % TN];
        const size_t at = size_t(address) * L + place_of(pe);
        column.masters[at] = int32_t(extended(value, S::W));
        if (S::COPY) column.copies[at] = column.masters[at];
        if constexpr (S::GRADIENT) (S::DEPTH == 1 ? column.total[place_of(pe)] : column.sums[at]) = 0;
    }

  private:
    struct Moment {  // what enters the tiles in a cycle
        int32_t x[PK], stored[PK], dy[PN];
        bool x_changed, f_load, load, load_sum, op, update, peek, first, last;
        uint32_t f_address, address, pe, load_address, peek_pe;
        int32_t load_value;
        uint64_t load_grad;
    };
    struct Column {  // columns j of all tiles; what their memories gave, what the multipliers keep, sums under way
        std::vector<int32_t> masters, copies;
        std::vector<uint64_t> sums;
        int32_t words[L] = {}, before[L] = {}, forward[L] = {}, back[L] = {};
        uint64_t old[L] = {}, total[L] = {};
    };
    struct Load {  // a load that concerns a column: of the PE ``at``, in the column of a tile from ``low`` on
        bool some = false;
        int at = 0, low = 0;
        bool sets(int i) const { return some && at == i; }
    };
    struct Loads {  // of this cycle, in which the word is read, of the one before, whose word is written, and of two more
        Load reading, load, kept, oldest;
    };

    static constexpr bool early(int j) { return !S::COPY && S::BACKWARD && (j + 1) % S::PERIOD == 0; }
    static uint32_t place_of(uint32_t pe) { return pe % PN / TN * PK + pe / PN; }
    Moment& ago(int cycles) { return moments_[(now_ - 1 - cycles) % AGO]; }

    static void clear(Moment& m) { m.f_load = m.load = m.op = m.update = m.peek = m.first = m.last = false; }
    // What comes to the array is in a register before it comes to the tiles.
    void take(const ArrayInputs& in) {
        Moment& m = moments_[now_ % AGO];
        const Moment& before = moments_[(now_ - 1) % AGO];
        unpack<S::X, PK>(in.f_x, m.x);
        m.x_changed = std::memcmp(m.x, before.x, sizeof m.x) != 0;
        if constexpr (S::BACKWARD || S::GRADIENT) unpack<S::DY, PN>(in.b_dy, m.dy);
        if constexpr (S::GRADIENT) unpack<S::X, PK>(in.b_x, m.stored);
        m.f_load = in.f_load, m.f_address = in.f_address;
        m.load = in.load && in.load_select < PK * PN, m.load_sum = S::SHARED && in.load_sum, m.pe = in.load_select;
        m.load_address = in.load_address, m.load_value = int32_t(extended(in.load_value, S::W));
        m.load_grad = m.load_sum ? in.load_grad : 0;
        m.op = in.control & 1, m.update = in.control >> 1 & 1, m.peek = in.control >> 2 & 1;
        m.first = in.control >> 3 & 1, m.last = in.control >> 4 & 1;
        m.address = uint32_t(in.control >> 5) & ((1u << S::ADDRESS) - 1);
        m.peek_pe = in.peek_select < PK * PN ? in.peek_select : 0;
        if (!in.rst) return;
        for (int i = 0; i < AGO; ++i) clear(moments_[i]);
        m.peek_pe = m.f_address = 0;
    }

    void forward() {
        const Moment& m = ago(1 + HELD);
        uint64_t* sums = f_sums_[(now_ + F_LATER) % F_RING];
        if (m.x_changed || weights_changed_) {
            for (int j = 0; j < TN; ++j) {
                for (int c = 0; c < GN; ++c) {
                    const int32_t* weights = columns_[j].forward + c * PK;
                    int64_t sum = 0;
                    for (int i = 0; i < PK; ++i) sum += int64_t(m.x[i]) * weights[i];
                    f_last_[c * TN + j] = uint64_t(sum);
                }
            }
        }
        std::memcpy(sums, f_last_, sizeof f_last_);
        weights_changed_ = false;
    }

    Load load_of(const Moment& m, int j) const {
        if (!m.load || int(m.pe % PN % TN) != j) return {};
        const int at = int(place_of(m.pe));
        return {true, at, at - int(m.pe / PN % TK)};
    }

    void column(int j) {
        Column& c = columns_[j];
        const Loads loads{load_of(ago(0), j), load_of(ago(1), j), load_of(ago(2), j), load_of(ago(3), j)};
        if constexpr (S::BACKWARD) backward(j, c);
        peeks(j, c);
        keep(j, c);
        if constexpr (S::GRADIENT) gradient(j, c, loads);
        masters(j, c, loads);
    }

    void backward(int j, const Column& c) {
        uint64_t* sums = b_sums_[(now_ + B_LATER - j) % B_RING];
        if (j == 0) std::memset(sums, 0, sizeof(uint64_t) * PK);
        const int32_t *dy = ago(j + 1 + LATE).dy, *weights = S::COPY ? c.words : c.back;
        for (int t = 0; t < GN; ++t) {
            const int64_t error = dy[t * TN + j];
            if (error == 0) continue;
            for (int i = 0; i < PK; ++i) sums[i] += uint64_t(error * weights[t * PK + i]);
        }
    }

    // The word of the PE that was asked for a while ago is what the column shows now.
    void peeks(int j, const Column& c) {
        if (const uint32_t pe = ago(5 + j).peek_pe; int(pe % PN % TN) == j)
            masters_out_[(now_ - 5 - j + TN + 6) % AGO] = c.words[place_of(pe)];
        if constexpr (S::GRADIENT)
            if (const uint32_t pe = ago(2 + j).peek_pe; int(pe % PN % TN) == j)
                grads_out_[(now_ - 2 - j + TN + 3) % AGO] = int64_t((S::DEPTH == 1 ? c.total : c.old)[place_of(pe)]);
    }

    // Registers before the multipliers, from what the memory gave before.
    void keep(int j, Column& c) {
        if constexpr (!S::COPY) {
            if (ago(1).f_load) copy_words(c.words, c.forward), weights_changed_ = true;
            if constexpr (S::BACKWARD)
                if (const Moment& m = ago(j + 1); m.op && m.first) copy_words(early(j) ? c.before : c.words, c.back);
            if (early(j)) copy_words(c.words, c.before);
        }
    }
    template <class T>
    static void copy_words(const T* from, T* to) { std::memcpy(to, from, sizeof(T) * L); }

    // A memory in a cycle: its word is read before it is written, or behind it if a read sees what is written.
    template <class T, class Write>
    static void access(std::vector<T>& memory, T* shown, bool read, uint32_t address, const Load& merged,
                       uint32_t merged_address, bool transparent, const Write& write) {
        T next[L];
        const bool some = read || merged.some;
        if (transparent) write();
        if (read) copy_words(&memory[size_t(address) * L], next);
        else if (some) copy_words(shown, next);
        if (merged.some) std::memcpy(next + merged.low, &memory[size_t(merged_address) * L + merged.low], sizeof(T) * TK);
        if (!transparent) write();
        if (some) copy_words(next, shown);
    }

    // Whether a load some cycles ago was at the address of the one whose word is written.
    bool same(int cycles) { return ago(1).load_address == ago(cycles).load_address; }

    void masters(int j, Column& c, const Loads& loads) {
        const Moment &now = ago(0), &written = ago(1), &before = ago(2), &late = ago(j + 4), &turn = ago(j - early(j));
        const Load& load = loads.load;
        const auto write = [&] {
            if (!load.some || written.load_sum) return;
            for (int i = load.low; i < load.low + TK; ++i) {
                const bool kept = same(2) && loads.kept.sets(i) && !before.load_sum;
                const int32_t value = i == load.at ? written.load_value : kept ? before.load_value : c.words[i];
                c.masters[size_t(written.load_address) * L + i] = value;
                if (S::COPY) c.copies[size_t(written.load_address) * L + i] = value;
            }
        };
        const bool taken = !S::COPY && now.f_load, turned = S::BACKWARD && turn.op && turn.first;
        if (S::COPY && now.f_load)
            copy_words(&c.copies[size_t(now.f_address) * L], c.forward), weights_changed_ = true;
        access(c.masters, c.words, taken || late.peek || turned,
               taken ? now.f_address : late.peek ? late.address : turn.address, taken ? Load() : loads.reading,
               now.load_address, false, write);
    }

    void gradient(int j, Column& c, const Loads& loads) {
        constexpr bool through_sums = S::DEPTH > 1 && !S::SHARED;
        const Moment &p1 = ago(j + 1), &p2 = ago(j + 2), &p3 = ago(j + 3), &written = ago(1), &before = ago(2);
        const Load& load = loads.load;
        const auto add = [&] {
            uint64_t kept[TK];  // the column of a load takes what its word read has
            if (through_sums && load.some)
                for (int i = 0; i < TK; ++i) {
                    const int at = load.low + i;
                    const bool gone = (same(2) && loads.kept.sets(at)) || (same(3) && loads.oldest.sets(at));
                    kept[i] = at == load.at || gone ? 0 : c.old[at];
                }
            if (p2.op) {
                if (S::DEPTH > 1 && p2.first) copy_words(c.old, c.total);
                for (int t = 0; t < GN; ++t) {
                    const int64_t error = p2.dy[t * TN + j];
                    if (error == 0) continue;
                    for (int i = 0; i < PK; ++i) c.total[t * PK + i] += uint64_t(error * p2.stored[i]);
                }
            }
            if (through_sums && load.some) std::memcpy(c.total + load.low, kept, sizeof kept);
        };
        if constexpr (S::DEPTH == 1) {
            add();
            if (load.some) c.total[load.at] = written.load_grad;
            return;
        }
        const auto write = [&] {
            const bool done = p3.op && p3.last;
            const Load& own = through_sums ? loads.kept : load;
            const uint32_t address = (through_sums ? before : written).load_address;
            uint64_t *at = &c.sums[size_t(p3.address) * L], kept[TK];
            if (own.some) std::memcpy(kept, at + own.low, sizeof kept);
            if (done) copy_words(c.total, at);
            if (!own.some) return;
            // The column of the load writes where that goes, whatever it writes.
            if (done) std::memcpy(at + own.low, kept, sizeof kept);
            for (int i = own.low; i < own.low + TK; ++i) {
                uint64_t value = c.total[i];
                if (!through_sums && i == own.at) value = written.load_grad;
                else if (!through_sums) value = same(2) && loads.kept.sets(i) ? before.load_grad : c.old[i];
                c.sums[size_t(address) * L + i] = value;
            }
        };
        const bool read = ((p1.op || p1.update) && p1.first) || p1.peek;
        // The sum until now is written before another one begins, with what was read before.
        access(c.sums, c.old, read, p1.address, loads.reading, ago(0).load_address, S::DEPTH == 2, [&] {
            write();
            add();
        });
    }

    std::vector<Column> columns_;
    std::unique_ptr<Moment[]> held_moments_{new Moment[AGO]()};
    Moment* moments_ = held_moments_.get();
    uint64_t f_sums_[F_RING][PN] = {}, b_sums_[B_RING][PK] = {}, f_last_[PN] = {};
    int64_t masters_out_[AGO] = {}, grads_out_[AGO] = {};
    bool weights_changed_ = false;
    uint64_t now_ = AGO;
};

// A model where the module that calls this stands; its number.
template <class S>
int make_rolled() {
    rolled_arrays().push_back(std::make_unique<RolledArray<S>>(svGetNameFromScope(svGetScope())));
    return int(rolled_arrays().size()) - 1;
}

}  // namespace hwgen
