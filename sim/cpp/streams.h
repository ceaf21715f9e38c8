// The streams that a driver feeds and takes: files of beats in, files of words out, random stalls at every one.

#pragma once

#include <deque>
#include <memory>

#include "io.h"
#include "ports.h"

namespace hwgen {

// Numbers of the random generators; those of further sources and then sinks follow.
enum Draw : uint64_t { kImage, kLabel, kResult, kCommand, kReply, kFurther };

// A stream into the device: samples of ``beats`` beats out of ``data``, queued by their number there. valid stays up
// until it is taken; ports change only after a clock edge.
struct Source {
    std::string name;
    CData *valid, *ready;
    void (*put)(HWGEN_MODEL&, const uint32_t*);
    size_t words;
    std::vector<uint32_t> data = {};
    uint32_t beats = 1, beat = 0, next = 0, every = 1, fed = 0;
    bool inference = true, taken = false;
    std::deque<uint32_t> queue = {};
    Coin coin = Coin(0, 0, 0.0);

    bool moves() const { return *valid && *ready; }
    void add(uint32_t sample) {
        if ((size_t(sample) + 1) * beats * words > data.size()) fail(name + ".bin holds no sample " + std::to_string(sample));
        queue.push_back(sample);
    }
    void drive(HWGEN_MODEL& top) {
        if (taken) *valid = 0;
        taken = false;
        if (*valid || queue.empty() || coin.stall()) return;
        put(top, &data[(size_t(queue.front()) * beats + beat) * words]);
        *valid = 1;
    }
    // Notes a transfer; true with a sample's last beat.
    bool step() {
        taken = true;
        if (++beat < beats) return false;
        beat = 0;
        queue.pop_front();
        return true;
    }
};

// A stream out of the device, and the file of its words.
struct Sink {
    CData *valid, *ready;
    void (*get)(const HWGEN_MODEL&, Out&);
    std::unique_ptr<Out> file;
    Coin coin;
    uint64_t count = 0;
};

inline std::vector<Source> sources(HWGEN_MODEL& top) {
    std::vector<Source> found;
#define SOURCE(port, name)                                                                                  \
    found.push_back({name, &top.port##valid, &top.port##ready,                                              \
                     [](HWGEN_MODEL& top, const uint32_t* words) { put_words(top.port##payload, words); },  \
                     size_t(PORT_WORDS(top.port##payload))});
    HWGEN_SOURCES(SOURCE)
#undef SOURCE
    return found;
}

// Data, shapes and generators of all sources; (image, label) first where the device has them.
inline void load_sources(std::vector<Source>& all, const std::string& dir, uint64_t seed, double stall) {
    uint64_t draw = kFurther;
    const auto lines = load_lines(dir + "/sources.txt");
    for (Source& source : all) {
        const bool image = source.name == "image", label = source.name == "label";
        source.data = load<uint32_t>(dir + "/" + source.name + (image || label ? "s.bin" : ".bin"));
        source.coin = Coin(seed, image ? uint64_t(kImage) : label ? uint64_t(kLabel) : draw++, stall);
        if (image) {
            const auto shape = load<uint32_t>(dir + "/shape.bin");
            if (shape.size() != 2 || shape[1] != source.words) fail("shape.bin does not fit the image port");
            source.beats = shape[0];
        } else if (label) {
            source.inference = false;
        } else {
            bool known = false;
            for (const auto& words : lines) {
                if (words.size() != 4 || words[0] != source.name) continue;
                source.beats = uint32_t(std::stoul(words[1]));
                source.inference = words[2] != "0";
                source.every = uint32_t(std::stoul(words[3]));
                known = true;
            }
            if (!known) fail("sources.txt says nothing of " + source.name);
        }
    }
}

inline std::vector<Sink> sinks(HWGEN_MODEL& top, const std::string& dir, uint64_t seed, double stall, size_t before) {
    std::vector<Sink> found;
#define SINK(port, name)                                                                                    \
    found.push_back({&top.port##valid, &top.port##ready,                                                    \
                     [](const HWGEN_MODEL& top, Out& file) { put_port(file, top.port##payload); },          \
                     std::make_unique<Out>(dir + "/" name ".bin"), Coin(seed, before + found.size(), stall)});
    HWGEN_SINKS(SINK)
#undef SINK
    (void)top, (void)dir, (void)seed, (void)stall, (void)before;
    return found;
}

// Streams between parts of the device that are only looked at: written down in the cycles of their own board's clock.
class Probes {
  public:
    explicit Probes(const std::string& dir) {
#define OPEN(port, name, board) files_.push_back(std::make_unique<Out>(dir + "/" name ".bin"));
        HWGEN_PROBES(OPEN)
#undef OPEN
        (void)dir;
    }
    template <class Rises>
    void record(const HWGEN_MODEL& top, Rises rises) {
        size_t index = 0;
#define RECORD(port, name, board)                                                                           \
    if (rises(board) && top.port##valid && top.port##ready) put_port(*files_[index], top.port##payload);    \
    ++index;
        HWGEN_PROBES(RECORD)
#undef RECORD
        (void)top, (void)rises, (void)index;
    }
    void flush() {
        for (auto& file : files_) file->flush();
    }

  private:
    std::vector<std::unique_ptr<Out>> files_;
};

}  // namespace hwgen
