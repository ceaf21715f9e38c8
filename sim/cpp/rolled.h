// Arrays of processing elements as loops over their weights: the same outputs in every cycle as hwgen.gateware.array
// gives, from the same inputs. Resets are taken while nothing is under way.
//
// An op enters a tile's row i i cycles late and leaves its column as much earlier, so that a sum is the product of one
// cycle's operands with the weights of one cycle; only reads and writes of memories happen in a cycle of their own,
// column j of a tile j cycles behind its column 0. All tiles do the same at the same time.
//
// Rows that lie behind one another in a lane (gateware.lanes) are in groups, group g of each tile g cycles late. Rows
// are kept group by group here, so that all lanes of all tiles' rows of a group are one run of words.

#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "packed.h"
#include "rolled_memories.h"
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

// Levels of a tree of adders.
constexpr int levels(int leaves) {
    int count = 0;
    while ((1 << count) < leaves) ++count;
    return count;
}

// S has the fields of gateware.shape.ArrayShape as constants, and PK, PN, TK, TN.
template <class S>
class RolledArray final : public Rolled {
    static constexpr int PK = S::PK, PN = S::PN, TK = S::TK, TN = S::TN, GK = PK / TK, GN = PN / TN;
    static constexpr int STACK = S::STACK, BEHIND = STACK - 1;
    static constexpr int LANES = PK / STACK, TILE_LANES = TK / STACK;
    static constexpr int L = GN * PK;        // rows of all tiles' columns j: tile column by tile column, group by group
    static constexpr int WORD = GN * LANES;  // lanes of them, in a word of their memories
    static constexpr int REGISTERED = S::DEPTH >= 4, HELD = S::COPY ? REGISTERED : 1, LATE = S::BACKWARD ? HELD : 0;
    static constexpr size_t ROOM = (size_t(1) << S::ADDRESS) * STACK * WORD;
    static constexpr int F_LATER = TK + 1 + levels(GK), B_LATER = TN + 1 + levels(GN);
    static constexpr int AGO = 1 << levels(TN + 16), F_RING = 1 << levels(F_LATER + 2);
    static constexpr int B_RING = 1 << levels(B_LATER + STACK + 1);

  public:
    explicit RolledArray(const char* place) : Rolled(place), columns_(TN) {
        for (Column& column : columns_) {
            column.masters.assign(ROOM, 0);
            if (S::COPY) column.copies.assign(ROOM, 0);
            if (S::GRADIENT && S::DEPTH > 1) column.sums.assign(ROOM, 0);
        }
    }

    void step(const ArrayInputs& in, const ArrayOutputs& out) {
        forward();
        for (int j = 0; j < TN; ++j) column(j);
        take(in);
        ++now_;
        pack<S::PSUM, PN>(f_sums_[now_ % F_RING], out.f_sum);
        uint64_t rows[PK];
        for (int i = 0; i < PK; ++i) rows[i] = b_sums_[now_ % B_RING][row_at(i)];
        pack<S::BACK, PK>(rows, out.b_sum);
        *out.peek_master = extended(uint64_t(masters_out_[now_ % AGO]), S::W);
        *out.peek_grad = extended(uint64_t(grads_out_[now_ % AGO]), S::GRAD);
    }

    uint32_t pes() const override { return PK * PN; }
    uint32_t depth() const override { return S::DEPTH; }
    int64_t weight(uint32_t pe, uint32_t address) const override {
        return columns_[pe % PN % TN].masters[word_of(pe, address)];
    }
    int64_t gradient(uint32_t pe, uint32_t address) const override {
        if constexpr (!S::GRADIENT) return 0;
        const Column& column = columns_[pe % PN % TN];
        return extended(S::DEPTH == 1 ? column.total[lane_of(pe)] : column.sums[word_of(pe, address)], S::GRAD);
    }
    void load(uint32_t pe, uint32_t address, uint32_t value) override {
        Column& column = columns_[pe % PN % TN];
        const size_t at = word_of(pe, address);
        column.masters[at] = int32_t(extended(value, S::W));
        if (S::COPY) column.copies[at] = column.masters[at];
        if constexpr (S::GRADIENT) (S::DEPTH == 1 ? column.total[lane_of(pe)] : column.sums[at]) = 0;
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
        int32_t words[WORD] = {}, before[WORD] = {}, waiting[STACK][L] = {}, forward[L] = {}, sooner[L] = {}, back[L] = {};
        uint64_t old[WORD] = {}, late[WORD] = {}, total[L] = {};
    };
    struct Spot {  // a PE that concerns a column: its lane ``at`` of those of its tile from ``low`` on, its word's place
        bool some = false;
        int at = 0, low = 0;
        uint32_t place = 0;
        bool sets(int lane) const { return some && at == lane; }
        bool sets(int lane, uint32_t word) const { return sets(lane) && place == word; }
    };
    struct Loads {  // of this cycle, in which the word is read, of the one before, whose master is written, and of more
        Spot ago[6];
        const Spot &reading = ago[0], &load = ago[1], &kept = ago[2];
        const Spot* sums = ago + 2;  // whose dW is there, and those before it
    };
    struct Read {  // of all lanes at ``place``, but of the tile of ``own`` at its place
        bool some = false;
        uint32_t place = 0;
        Spot own = {};
    };

    // Cycles by which column j reads earlier for backward (ArrayShape.early).
    static constexpr int early(int j) {
        if (S::COPY || !S::BACKWARD) return 0;
        int cycles = 0;
        for (int at; at = (j + STACK - cycles) % S::PERIOD, at < STACK || at > S::PERIOD - STACK;) ++cycles;
        return cycles;
    }
    static constexpr int group_of(uint32_t pe) { return int(pe / PN % TK) / TILE_LANES; }
    static constexpr int lane_of(uint32_t pe) {
        const int row = int(pe / PN);
        return int(pe % PN / TN) * LANES + row / TK * TILE_LANES + row % TILE_LANES;
    }
    // Where row i of the array is among its rows group by group.
    static constexpr int row_at(int i) { return i % TK / TILE_LANES * LANES + i / TK * TILE_LANES + i % TK % TILE_LANES; }
    static uint32_t place_of(uint32_t address, int group) { return address * STACK + uint32_t(group); }
    static size_t word_of(uint32_t pe, uint32_t address) {
        return size_t(place_of(address, group_of(pe))) * WORD + size_t(lane_of(pe));
    }
    // What came to the tiles so many cycles ago, and a register more: they choose addresses first.
    Moment& ago(int cycles) { return moments_[(now_ - 2 - cycles) % AGO]; }

    static void clear(Moment& m) { m.f_load = m.load = m.op = m.update = m.peek = m.first = m.last = false; }
    // What comes to the array is in a register before it comes to the tiles.
    void take(const ArrayInputs& in) {
        Moment& m = moments_[now_ % AGO];
        const Moment& before = moments_[(now_ - 1) % AGO];
        unpack_rows(in.f_x, m.x);
        m.x_changed = std::memcmp(m.x, before.x, sizeof m.x) != 0;
        if constexpr (S::BACKWARD || S::GRADIENT) unpack<S::DY, PN>(in.b_dy, m.dy);
        if constexpr (S::GRADIENT) unpack_rows(in.b_x, m.stored);
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

    static void unpack_rows(const svBitVecVal* from, int32_t* to) {
        if constexpr (STACK == 1) return unpack<S::X, PK>(from, to);
        int32_t rows[PK];
        unpack<S::X, PK>(from, rows);
        for (int i = 0; i < PK; ++i) to[row_at(i)] = rows[i];
    }

    // Once the last group has its weights; sums are still on their way then.
    void forward() {
        const Moment& m = ago(1 + HELD + BEHIND);
        uint64_t* sums = f_sums_[(now_ + F_LATER - BEHIND) % F_RING];
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

    static Spot spot(bool some, uint32_t pe, uint32_t address, int j) {
        if (!some || int(pe % PN % TN) != j) return {};
        const int at = lane_of(pe);
        return {true, at, at / TILE_LANES * TILE_LANES, place_of(address, group_of(pe))};
    }
    static Spot load_of(const Moment& m, int j) { return spot(m.load, m.pe, m.load_address, j); }

    void column(int j) {
        Column& c = columns_[j];
        Loads loads;
        for (int k = 0; k < 6; ++k) loads.ago[k] = load_of(ago(k), j);
        if constexpr (S::BACKWARD) backward(j, c);
        peeks(j, c);
        keep(j, c);
        if constexpr (S::GRADIENT) gradient(j, c, loads);
        masters(j, c, loads);
    }

    void backward(int j, const Column& c) {
        if (j == 0) std::memset(b_sums_[(now_ + B_LATER + BEHIND) % B_RING], 0, sizeof(uint64_t) * PK);
        for (int g = 0; g < STACK; ++g) {
            uint64_t* sums = b_sums_[(now_ + B_LATER + BEHIND - g - j) % B_RING] + g * LANES;
            const int32_t *dy = ago(j + 1 + LATE + g).dy, *weights = (!S::COPY ? c.back : REGISTERED ? c.before : c.words) + g * LANES;
            for (int t = 0; t < GN; ++t) {
                const int64_t error = dy[t * TN + j];
                if (error == 0) continue;
                for (int i = 0; i < LANES; ++i) sums[i] += uint64_t(error * weights[t * PK + i]);
            }
        }
    }

    // The word of the lane of the PE that was asked for a while ago is what the column shows now.
    void peeks(int j, const Column& c) {
        if (const uint32_t pe = ago(7 + j).peek_pe; int(pe % PN % TN) == j)
            masters_out_[(now_ - 7 - j + TN + 8) % AGO] = c.words[lane_of(pe)];
        if constexpr (S::GRADIENT)
            if (const uint32_t pe = ago(3 + j).peek_pe; int(pe % PN % TN) == j)
                grads_out_[(now_ - 3 - j + TN + 4) % AGO] = int64_t((S::DEPTH == 1 ? c.total : old(c))[lane_of(pe)]);
    }

    // Registers before the multipliers, from what the memory gave before.
    void keep(int j, Column& c) {
        if constexpr (!S::COPY) {
            for (int g = 0; g < STACK; ++g)
                if (ago(1 + g).f_load) copy_group(g, c.words, LANES, c.waiting[(now_ + BEHIND - g) % STACK], PK);
            if (ago(1 + BEHIND).f_load) copy_words(c.waiting[now_ % STACK], c.forward), weights_changed_ = true;
            for (int g = 0; S::BACKWARD && g < STACK; ++g) {
                const Moment &load = ago(j + 1 + g), &sooner = ago(j + 1 + g - early(j));
                if (load.op && load.first) {
                    if (early(j) > 1) copy_group(g, c.sooner + g * LANES, PK, c.back, PK);
                    else copy_group(g, early(j) ? c.before : c.words, LANES, c.back, PK);
                }
                if (early(j) > 1 && sooner.op && sooner.first) copy_group(g, c.words, LANES, c.sooner, PK);
            }
            if (early(j) == 1) copy_words(c.words, c.before);
        } else if constexpr (REGISTERED) {
            copy_words(c.words, c.before);
            if (ago(1).f_load) copy_words(c.waiting[0], c.forward), weights_changed_ = true;
        }
    }
    // dW as the adders have it.
    static uint64_t* old(Column& c) { return REGISTERED ? c.late : c.old; }
    static const uint64_t* old(const Column& c) { return REGISTERED ? c.late : c.old; }
    template <class T, size_t COUNT>
    static void copy_words(const T (&from)[COUNT], T (&to)[COUNT]) { std::memcpy(to, from, sizeof from); }
    // The rows of a group in all tile columns, each of which has so many words.
    template <class T>
    static void copy_group(int group, const T* from, int from_each, T* to, int to_each) {
        for (int t = 0; t < GN; ++t)
            std::memcpy(to + t * to_each + group * LANES, from + t * from_each, sizeof(T) * LANES);
    }

    // A memory in a cycle: its word is read before it is written, or behind it if a read sees what is written.
    template <class T, class Write>
    static void access(std::vector<T>& memory, T (&shown)[WORD], const Read& read, const Spot& merged, bool transparent,
                       const Write& write) {
        T next[WORD];
        const bool some = read.some || merged.some;
        const auto take = [&](const Spot& own) {
            if (own.some) std::memcpy(next + own.low, &memory[size_t(own.place) * WORD + own.low], sizeof(T) * TILE_LANES);
        };
        if (transparent) write();
        if (some) std::memcpy(next, read.some ? &memory[size_t(read.place) * WORD] : shown, sizeof next);
        take(read.own);
        take(merged);
        if (!transparent) write();
        if (some) copy_words(next, shown);
    }

    void masters(int j, Column& c, const Loads& loads) {
        const Moment &now = ago(0), &written = ago(1), &before = ago(2), &late = ago(j + 6);
        const Spot& load = loads.load;
        const auto write = [&] {
            if (!load.some || written.load_sum) return;
            for (int i = load.low; i < load.low + TILE_LANES; ++i) {
                const bool kept = loads.kept.sets(i, load.place) && !before.load_sum;
                const int32_t value = i == load.at ? written.load_value : kept ? before.load_value : c.words[i];
                c.masters[size_t(load.place) * WORD + i] = value;
                if (S::COPY) c.copies[size_t(load.place) * WORD + i] = value;
            }
        };
        if (S::COPY && now.f_load) {
            std::memcpy(HELD ? c.waiting[0] : c.forward, &c.copies[size_t(now.f_address) * WORD], sizeof c.forward);
            weights_changed_ = weights_changed_ || !HELD;
        }
        Read read;
        bool taken = false;
        for (int g = 0; g < STACK; ++g)
            if (const Moment& turn = ago(j - early(j) + g); S::BACKWARD && turn.op && turn.first)
                read = {true, place_of(turn.address, g)};
        if (late.peek) read = {true, place_of(late.address, 0), spot(true, late.peek_pe, late.address, j)};
        for (int g = 0; g < STACK; ++g)
            if (const Moment& turn = ago(g); !S::COPY && turn.f_load)
                read = {true, place_of(turn.f_address, g)}, taken = true;
        access(c.masters, c.words, read, taken ? Spot() : loads.reading, false, write);
    }

    void gradient(int j, Column& c, const Loads& loads) {
        constexpr bool through_sums = S::DEPTH > 1 && !S::SHARED && STACK == 1;
        constexpr int ASKED = 2 - REGISTERED;
        const Moment& asked = ago(j + ASKED);
        const Spot& load = loads.sums[0];
        const auto add = [&] {
            uint64_t kept[TILE_LANES];  // the column of a load takes what its word read has
            if (through_sums && load.some)
                for (int i = 0; i < TILE_LANES; ++i) {
                    const int at = load.low + i;
                    bool gone = at == load.at;
                    for (int k = 1; k < 3 + REGISTERED; ++k) gone = gone || loads.sums[k].sets(at, load.place);
                    kept[i] = gone ? 0 : old(c)[at];
                }
            for (int g = 0; g < STACK; ++g)
                if (const Moment& m = ago(j + 3 + g); m.op) add_group(j, c, m, g);
            if (through_sums && load.some) std::memcpy(c.total + load.low, kept, sizeof kept);
        };
        if constexpr (S::DEPTH == 1) {
            add();
            if (load.some) c.total[load.at] = ago(2).load_grad;
            return;
        }
        const auto write = [&] {
            const Spot& own = loads.sums[through_sums];
            for (int g = STACK - 1; g >= 0; --g)
                if (const Moment& m = ago(j + 4 + g); m.op && m.last) {
                    write_group(c, g, place_of(m.address, g), own);
                    break;
                }
            if (!own.some) return;
            for (int i = own.low; i < own.low + TILE_LANES; ++i) {
                uint64_t value = c.total[i];
                if (!through_sums && i == own.at) value = ago(2).load_grad;
                else if (!through_sums) {
                    value = old(c)[i];
                    for (int k = 1 + REGISTERED; k > 0; --k)
                        if (loads.sums[k].sets(i, own.place)) value = ago(2 + k).load_grad;
                }
                c.sums[size_t(own.place) * WORD + i] = value;
            }
        };
        Read read;
        for (int g = 0; g < STACK; ++g)
            if (const Moment& m = ago(j + ASKED + g); m.op && m.first) read = {true, place_of(m.address, g)};
        if ((asked.update && asked.first) || asked.peek)
            read = {true, place_of(asked.address, 0), spot(true, asked.peek_pe, asked.address, j)};
        // The sum until now is written before another one begins, with what was read before.
        access(c.sums, c.old, read, loads.ago[1 - REGISTERED], S::DEPTH == 2, [&] {
            write();
            add();
            if (REGISTERED) copy_words(c.old, c.late);
        });
    }

    // dW += x·dy of a group's rows.
    static void add_group(int j, Column& c, const Moment& m, int group) {
        if (S::DEPTH > 1 && m.first) copy_group(group, old(c), LANES, c.total, PK);
        for (int t = 0; t < GN; ++t) {
            const int64_t error = m.dy[t * TN + j];
            if (error == 0) continue;
            for (int i = group * LANES; i < (group + 1) * LANES; ++i) c.total[t * PK + i] += uint64_t(error * m.stored[i]);
        }
    }

    // The sums of a group's rows to their memory; a load's column writes where that goes, whatever it writes.
    static void write_group(Column& c, int group, uint32_t place, const Spot& load) {
        uint64_t *at = &c.sums[size_t(place) * WORD], kept[TILE_LANES];
        if (load.some) std::memcpy(kept, at + load.low, sizeof kept);
        for (int t = 0; t < GN; ++t)
            std::memcpy(at + t * LANES, c.total + t * PK + group * LANES, sizeof(uint64_t) * LANES);
        if (load.some) std::memcpy(at + load.low, kept, sizeof kept);
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
