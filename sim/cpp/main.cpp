// Drives generated devices through a program of register accesses and sample streams, entirely inside one process.
//
//   driver DIR --stall P --seed S --watchdog N --max-cycles N [--trace FILE.fst] [+verilator+...]
//
// DIR holds program.txt and the files described in hwgen/sim/program.py; results go to the same place.
// Exit: 0 program finished, 4 watchdog or cycle limit (outcome.txt tells which), 3 bad program or file.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backdoor.h"
#include "clocks.h"
#include "io.h"
#include "ports.h"
#include "streams.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

constexpr uint64_t kPollGap = 8;      // idle cycles between two polls of a status register
constexpr uint64_t kTailCycles = 64;  // cycles after the program's end in which surplus results would show
constexpr int kStatusCycles = 1024;   // cycles that the status register may take to answer after a hang

using namespace hwgen;

struct Options {
    std::string dir, trace;
    double stall = 0.0;
    uint64_t seed = 0, watchdog = 100000, max_cycles = ~0ull;
};

class Driver {
  public:
    Driver(VerilatedContext& context, const Options& options)
        : options_(options), context_(context), top_(new HWGEN_MODEL(&context)), clocks_(*top_, options.dir),
          sources_(sources(*top_)),
          sinks_(sinks(*top_, options.dir, options.seed, options.stall, kFurther + HWGEN_FURTHER_SOURCES)),
          probes_(options.dir), ops_(load_program(options.dir + "/program.txt")),
          order_(load<uint32_t>(options.dir + "/order.bin")), words_(load<uint32_t>(options.dir + "/words.bin")),
          results_(options.dir + "/results.bin"), reads_(options.dir + "/reads.bin"),
          feeds_(options.dir + "/feeds.bin"), marks_(options.dir + "/marks.bin"),
          result_coin_(options.seed, kResult, options.stall), command_coin_(options.seed, kCommand, options.stall),
          reply_coin_(options.seed, kReply, options.stall) {
        load_sources(sources_, options.dir, options.seed, options.stall);
        for (unsigned board = 0; board < 256; ++board) clock_of_[board] = uint8_t(clocks_.of_board(board));
    }
    int run();

  private:
    const char* look();
    void act();
    bool sample();
    void drive();
    void feed(const Op& op);
    void step_program();
    bool advance();
    bool access(const Op& op);
    void offer(uint64_t address, bool write, uint32_t data);
    bool commands_wait() const;
    void finish();
    void note(const char* end);
    void open_trace();
    void tell();
    uint64_t nanoseconds() const {
        const auto time = std::chrono::steady_clock::now() - start_;
        return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }

    Options options_;
    VerilatedContext& context_;
    std::unique_ptr<HWGEN_MODEL> top_;
    Clocks clocks_;
    std::vector<Source> sources_;
    std::vector<Sink> sinks_;
    Probes probes_;
    uint8_t clock_of_[256];
    std::vector<Op> ops_;
    std::vector<uint32_t> order_, words_;
    Out results_, reads_, feeds_, marks_;
    Coin result_coin_, command_coin_, reply_coin_;
    uint64_t now_ = 0, first_beat_ = 0, last_progress_ = 0, result_count_ = 0, fed_ = 0, tail_ = kTailCycles;
    size_t pc_ = 0;
    uint64_t sent_ = 0, answered_ = 0, poll_at_ = 0;  // commands taken and replies to the current operation
    bool record_ = false, finished_ = false, polling_ = false;
    bool command_taken_ = false, replied_ = false;  // the ports change only after the clock edge
    int asking_ = 0;                                // cycles left for the status register after a hang
    uint32_t reply_ = 0;
    std::string end_, channels_, status_;
    bool waits_ = false;
    uint64_t cycles_ = 0;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), told_ = start_;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> trace_;
#endif
};

// Looks at every stream in the settled cycle; true if anything moved.
bool Driver::sample() {
    bool moved = false;
    for (int i = 0; i < PORT_WORDS(top_->channel_valid); ++i)
        moved |= (get_word(top_->channel_valid, i) & get_word(top_->channel_ready, i)) != 0;
    for (Source& source : sources_) {
        if (!source.moves()) continue;
        moved = true;
        const bool image = &source == sources_.data();
        if (image && source.beat == 0) first_beat_ = now_;
        if (source.step() && image) {
            feeds_.put(first_beat_);
            feeds_.put(now_);
        }
    }
    for (Sink& sink : sinks_) {
        if (!(*sink.valid && *sink.ready)) continue;
        moved = true;
        sink.get(*top_, *sink.file);
        ++sink.count;
    }
#if HWGEN_RESULT
    if (top_->PORT_result_valid && top_->PORT_result_ready) {
        moved = true;
        ++result_count_;
        const uint64_t payload = top_->PORT_result_payload;
        results_.put(static_cast<uint32_t>(payload & 0xFFFF));
        results_.put(static_cast<uint32_t>(payload >> 16));
        results_.put(now_);
    }
#endif
    command_taken_ = top_->PORT_command_valid && top_->PORT_command_ready;
    replied_ = top_->PORT_reply_valid && top_->PORT_reply_ready;
    reply_ = top_->PORT_reply_payload;
    return moved || ((command_taken_ || replied_) && !polling_);
}

// Drives the streams' ports for the next cycle.
void Driver::drive() {
    for (Source& source : sources_) source.drive(*top_);
#if HWGEN_RESULT
    top_->PORT_result_ready = !result_coin_.stall();
#endif
    for (Sink& sink : sinks_) *sink.ready = !sink.coin.stall();
    top_->PORT_reply_ready = !reply_coin_.stall();
}

void Driver::offer(uint64_t address, bool write, uint32_t data) {
    top_->PORT_command_payload = uint64_t(write) << 56 | address << 32 | data;
    top_->PORT_command_valid = 1;
}

void Driver::feed(const Op& op) {
    for (uint64_t i = op.a[0]; i < op.a[0] + op.a[1]; ++i) {
        if (i >= order_.size()) fail("feed past the end of order.bin");
        for (Source& source : sources_) {
            if (!op.a[2] && !source.inference) continue;
            if (source.fed++ % source.every) continue;
            const bool ordered = source.name == "image" || source.name == "label";
            source.add(ordered ? order_[i] : source.next++);
        }
        ++fed_;
    }
}

// The current operation's next command; true if all are taken and answered.
bool Driver::access(const Op& op) {
    const bool read = op.name == "read", load = op.name == "load";
    if (!read && !load && op.name != "write") fail("unknown operation " + op.name);
    if (load && op.a[1] + op.a[2] > words_.size()) fail("load past the end of words.bin");
    const uint64_t count = read ? op.a[1] : load ? op.a[2] : 1;
    if (sent_ == count) return !read || answered_ == count;
    if (command_coin_.stall()) return false;
    if (read) offer(op.a[0] + sent_ * op.a[2], false, 0);
    else offer(op.a[0], true, load ? words_[op.a[1] + sent_] : static_cast<uint32_t>(op.a[1]));
    return false;
}

// Does what needs no waiting, or offers the next command of the current operation; false if it must wait.
bool Driver::advance() {
    const Op& op = ops_[pc_];
    if (op.name == "feed") {
        feed(op);
    } else if (op.name == "record") {
        record_ = op.a[0] != 0;
    } else if (op.name == "mark") {
        marks_.put(now_);
        marks_.put(nanoseconds());
    } else if (op.name == "results") {
        return result_count_ >= op.a[0];
    } else if (op.name == "received") {
        if (op.a[0] >= sinks_.size()) fail("no sink " + std::to_string(op.a[0]));
        return sinks_[op.a[0]].count >= op.a[1];
    } else if (backdoor(op, words_, reads_)) {
        return true;
    } else if (op.name == "status") {
        polling_ = true;
        if (sent_ == 0 && now_ >= poll_at_ && !command_coin_.stall())
            offer(op.a[2] << 16 | HWGEN_STATUS_ADDRESS, false, 0);
        return false;
    } else {
        return access(op);
    }
    return true;
}

// Notes what became of commands, and goes on.
void Driver::step_program() {
    if (command_taken_) {
        top_->PORT_command_valid = 0;
        ++sent_;
    }
    if (replied_) {
        ++answered_;
        if (!polling_) {
            reads_.put(reply_);
        } else {
            const bool right = (reply_ & ops_[pc_].a[0]) == ops_[pc_].a[1];
            sent_ = answered_ = 0;
            if (right) {
                polling_ = false;
                last_progress_ = now_;
                ++pc_;
            } else {
                poll_at_ = now_ + kPollGap;
            }
        }
    }
    while (!top_->PORT_command_valid && pc_ < ops_.size() && advance()) {
        ++pc_;
        sent_ = answered_ = 0;
    }
    finished_ = pc_ == ops_.size();
}

bool Driver::commands_wait() const {
    const bool reading = pc_ < ops_.size() && ops_[pc_].name == "read";
    return !polling_ && (top_->PORT_command_valid || (reading && sent_ > answered_));
}

// How the run ended, as it is in this cycle. A hang with working commands then asks for the status register.
void Driver::note(const char* end) {
    end_ = end;
    cycles_ = now_;
    waits_ = commands_wait();
    std::ostringstream text;
    text << "valid";
    for (int i = 0; i < PORT_WORDS(top_->channel_valid); ++i) text << ' ' << get_word(top_->channel_valid, i);
    text << "\nready";
    for (int i = 0; i < PORT_WORDS(top_->channel_ready); ++i) text << ' ' << get_word(top_->channel_ready, i);
    channels_ = text.str();
    if (!finished_ && !waits_) {
        asking_ = kStatusCycles;
        if (replied_) asking_ = 0, status_ = std::to_string(reply_);
    }
}

// Before an edge of the host's clock, all settled: what happens in it. How the run ended, if it did.
const char* Driver::look() {
    if (asking_) {
        command_taken_ = top_->PORT_command_valid && top_->PORT_command_ready;
        if (top_->PORT_reply_valid) status_ = std::to_string(top_->PORT_reply_payload);
        if (top_->PORT_reply_valid || --asking_ == 0) return end_.c_str();
        return nullptr;
    }
    if (sample()) last_progress_ = now_;
    if (finished_ && tail_-- == 0) note("done");
    else if (!finished_ && now_ - last_progress_ > options_.watchdog) note("watchdog");
    else if (now_ >= options_.max_cycles) note("limit");
    return end_.empty() || asking_ ? nullptr : end_.c_str();
}

// After an edge of the host's clock: drives its inputs.
void Driver::act() {
    if (asking_) {
        top_->PORT_reply_ready = 1;
        if (command_taken_) top_->PORT_command_valid = 0;
        const bool asked = polling_ && (sent_ || command_taken_ || top_->PORT_command_valid);
        if (!asked && asking_ == kStatusCycles) offer(HWGEN_STATUS_ADDRESS, false, 0);
        return;
    }
    if (!finished_) step_program();
    drive();
}

void Driver::finish() {
    if (!finished_ && !waits_) waits_ = status_.empty();
    results_.flush(), reads_.flush(), feeds_.flush(), marks_.flush(), probes_.flush();
    for (Sink& sink : sinks_) sink.file->flush();
    const double seconds = static_cast<double>(nanoseconds()) * 1e-9;
    std::ofstream file(options_.dir + "/outcome.txt");
    file << "end " << end_ << "\ncycles " << cycles_ << "\nseconds " << seconds << "\nop " << pc_ << "\nfed " << fed_
         << "\nunfed " << (sources_.empty() ? 0 : sources_[0].queue.size()) << "\nresults " << result_count_
         << "\nbus_waits " << waits_ << '\n' << channels_ << '\n';
    if (!status_.empty()) file << "status " << status_ << '\n';
    std::ofstream outputs(options_.dir + "/outputs.txt");
#define OUTPUT(port, name)                                                                                  \
    outputs << name;                                                                                        \
    for (int i = 0; i < PORT_WORDS(top_->port); ++i) outputs << ' ' << get_word(top_->port, i);              \
    outputs << '\n';
    HWGEN_OUTPUTS(OUTPUT)
#undef OUTPUT
    if (!file.flush() || !outputs.flush()) fail("disk full or not writable");
}

void Driver::open_trace() {
#if VM_TRACE
    if (options_.trace.empty()) return;
    context_.traceEverOn(true);
    trace_ = std::make_unique<VerilatedFstC>();
    top_->trace(trace_.get(), 99);
    trace_->open(options_.trace.c_str());
#endif
}

void Driver::tell() {
    const auto time = std::chrono::steady_clock::now();
    if (time - told_ <= std::chrono::seconds(1)) return;
    told_ = time;
    std::printf("progress %llu %llu\n", static_cast<unsigned long long>(result_count_),
                static_cast<unsigned long long>(now_));
    std::fflush(stdout);
}

int Driver::run() {
    open_trace();
    // A poisoned model starts with random inputs, too.
    for (Source& source : sources_) *source.valid = 0;
    for (Sink& sink : sinks_) *sink.ready = 0;
    top_->PORT_command_valid = top_->PORT_reply_ready = 0;
#if HWGEN_RESULT
    top_->PORT_result_ready = 0;
#endif
    const uint64_t start = clocks_.host_start();
    while (true) {
        const uint64_t time = clocks_.time(), rising = clocks_.rising();
        if (record_ && rising) probes_.record(*top_, [&](uint8_t board) { return rising >> clock_of_[board] & 1; });
        if ((rising & 1) && now_ >= start && look()) break;
        clocks_.advance();
        top_->eval();
#if VM_TRACE
        if (trace_) trace_->dump(time);
#else
        (void)time;
#endif
        if (!(rising & 1)) continue;
        if (++now_ >= start) act();
        if ((now_ & 0x3FFF) == 0) tell();
    }
    finish();
    top_->final();
#if VM_TRACE
    if (trace_) trace_->close();
#endif
    return end_ == "done" ? 0 : 4;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string key = argv[i];
        if (key[0] == '+') continue;
        if (key[0] != '-') {
            options.dir = key;
            continue;
        }
        if (i + 1 >= argc) fail(key + " without a value");
        const char* value = argv[++i];
        if (key == "--stall") options.stall = std::atof(value);
        else if (key == "--seed") options.seed = std::strtoull(value, nullptr, 10);
        else if (key == "--watchdog") options.watchdog = std::strtoull(value, nullptr, 10);
        else if (key == "--max-cycles") options.max_cycles = std::strtoull(value, nullptr, 10);
        else if (key == "--trace") options.trace = value;
        else fail("unknown option " + key);
    }
    if (options.dir.empty()) fail("no directory given");
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    const Options options = parse(argc, argv);
    return Driver(context, options).run();
}
