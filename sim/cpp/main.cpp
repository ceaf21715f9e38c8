// Drives one generated device through a program of register accesses and sample streams, entirely inside one process.
//
//   driver DIR --stall P --seed S --watchdog N --max-cycles N [--trace FILE.fst] [+verilator+...]
//
// DIR holds program.txt and the binary files described in hwgen/sim/program.py; results go to the same place.
// Exit: 0 program finished, 4 watchdog or cycle limit (outcome.txt tells which), 3 bad program or file.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "io.h"
#include "ports.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {

constexpr uint64_t kPollGap = 8;      // idle cycles between two polls of the status register
constexpr uint64_t kTailCycles = 64;  // cycles after the program's end in which surplus results would show
constexpr uint64_t kResetCycles = 4;
constexpr int kStatusCycles = 1024;   // cycles that the status register may take to answer after a hang

using namespace hwgen;

struct Sample {
    uint32_t index;
    bool train;
};

struct Options {
    std::string dir, trace;
    double stall = 0.0;
    uint64_t seed = 0, watchdog = 100000, max_cycles = ~0ull;
};

class Driver {
  public:
    Driver(VerilatedContext& context, const Options& options)
        : options_(options), context_(context), top_(new HWGEN_MODEL(&context)),
          ops_(load_program(options.dir + "/program.txt")),
          images_(load<uint32_t>(options.dir + "/images.bin")), order_(load<uint32_t>(options.dir + "/order.bin")),
          labels_(load<uint32_t>(options.dir + "/labels.bin")), words_(load<uint32_t>(options.dir + "/words.bin")),
          results_(options.dir + "/results.bin"), reads_(options.dir + "/reads.bin"),
          feeds_(options.dir + "/feeds.bin"), marks_(options.dir + "/marks.bin"),
          image_coin_(options.seed, 0, options.stall), label_coin_(options.seed, 1, options.stall),
          result_coin_(options.seed, 2, options.stall), command_coin_(options.seed, 3, options.stall),
          reply_coin_(options.seed, 4, options.stall) {
        const auto shape = load<uint32_t>(options.dir + "/shape.bin");
        if (shape.size() != 2 || shape[1] != uint32_t(PORT_WORDS(top_->PORT_image_payload)))
            fail("shape.bin does not fit the image port");
        beats_ = shape[0];
#define OPEN(port, name) probes_.push_back(std::make_unique<Out>(options.dir + "/" name ".bin"));
        HWGEN_PROBES(OPEN)
#undef OPEN
    }
    int run();

  private:
    void cycle();
    bool sample();
    void sources();
    void step_program();
    bool advance();
    void offer(uint64_t address, bool write, uint32_t data);
    void edge();
    void ask_status();
    void finish(const char* how);
    uint64_t nanoseconds() const {
        const auto time = std::chrono::steady_clock::now() - start_;
        return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    }

    Options options_;
    VerilatedContext& context_;
    std::unique_ptr<HWGEN_MODEL> top_;
    std::vector<Op> ops_;
    std::vector<uint32_t> images_, order_, labels_, words_;
    Out results_, reads_, feeds_, marks_;
    std::vector<std::unique_ptr<Out>> probes_;
    Coin image_coin_, label_coin_, result_coin_, command_coin_, reply_coin_;
    std::deque<Sample> image_queue_;
    std::deque<uint32_t> label_queue_;
    uint32_t beats_ = 0, beat_ = 0;
    uint64_t now_ = 0, first_beat_ = 0, last_progress_ = 0, result_count_ = 0, fed_ = 0;
    size_t pc_ = 0;
    uint64_t sent_ = 0, answered_ = 0, poll_at_ = 0;  // commands taken and replies to the current operation
    bool record_ = false, finished_ = false, polling_ = false;
    // The ports change only after the clock edge.
    bool image_taken_ = false, label_taken_ = false, command_taken_ = false, replied_ = false;
    uint32_t reply_ = 0, status_ = 0;
    bool status_known_ = false;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), told_ = start_;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> trace_;
#endif
};

void Driver::cycle() {
    top_->clk = 0;
    top_->eval();
#if VM_TRACE
    if (trace_) trace_->dump(now_ * 10);
#endif
}

void Driver::edge() {
    top_->clk = 1;
    top_->eval();
#if VM_TRACE
    if (trace_) trace_->dump(now_ * 10 + 5);
#endif
    ++now_;
}

// Looks at every stream in the settled cycle; true if anything moved.
bool Driver::sample() {
    bool moved = false;
    for (int i = 0; i < PORT_WORDS(top_->channel_valid); ++i)
        moved |= (get_word(top_->channel_valid, i) & get_word(top_->channel_ready, i)) != 0;
    if (top_->PORT_image_valid && top_->PORT_image_ready) {
        moved = image_taken_ = true;
        if (beat_ == 0) first_beat_ = now_;
        if (++beat_ == beats_) {
            feeds_.put(first_beat_);
            feeds_.put(now_);
            beat_ = 0;
            image_queue_.pop_front();
        }
    }
    if (top_->PORT_label_valid && top_->PORT_label_ready) {
        moved = label_taken_ = true;
        label_queue_.pop_front();
    }
    if (top_->PORT_result_valid && top_->PORT_result_ready) {
        moved = true;
        ++result_count_;
        const uint64_t payload = top_->PORT_result_payload;
        results_.put(static_cast<uint32_t>(payload & 0xFFFF));
        results_.put(static_cast<uint32_t>(payload >> 16));
        results_.put(now_);
    }
    if (record_) {
        int index = 0;
#define RECORD(port, name)                                                                                  \
    if (top_->port##valid && top_->port##ready)                                                           \
        for (int i = 0; i < PORT_WORDS(top_->port##payload); ++i)                                          \
            probes_[index]->put(get_word(top_->port##payload, i));                                         \
    ++index;
        HWGEN_PROBES(RECORD)
#undef RECORD
    }
    command_taken_ = top_->PORT_command_valid && top_->PORT_command_ready;
    replied_ = top_->PORT_reply_valid && top_->PORT_reply_ready;
    reply_ = top_->PORT_reply_payload;
    return moved || ((command_taken_ || replied_) && !polling_);
}

// Drives image, label and result ports for the next cycle; a valid that is up stays up until taken.
void Driver::sources() {
    if (image_taken_) top_->PORT_image_valid = 0;
    if (label_taken_) top_->PORT_label_valid = 0;
    image_taken_ = label_taken_ = false;
    if (!top_->PORT_image_valid && !image_queue_.empty() && !image_coin_.stall()) {
        const size_t beat = size_t(image_queue_.front().index) * beats_ + beat_;
        put_words(top_->PORT_image_payload, &images_[beat * PORT_WORDS(top_->PORT_image_payload)]);
        top_->PORT_image_valid = 1;
    }
    if (!top_->PORT_label_valid && !label_queue_.empty() && !label_coin_.stall()) {
        top_->PORT_label_payload = label_queue_.front();
        top_->PORT_label_valid = 1;
    }
    top_->PORT_result_ready = !result_coin_.stall();
    top_->PORT_reply_ready = !reply_coin_.stall();
}

void Driver::offer(uint64_t address, bool write, uint32_t data) {
    top_->PORT_command_payload = uint64_t(write) << 56 | address << 32 | data;
    top_->PORT_command_valid = 1;
}

// Does what needs no waiting, or offers the next command of the current operation; false if it must wait.
bool Driver::advance() {
    const Op& op = ops_[pc_];
    if (op.name == "feed") {
        for (uint64_t i = op.a[0]; i < op.a[0] + op.a[1]; ++i) {
            if (i >= order_.size()) fail("feed past the end of order.bin");
            if ((size_t(order_[i]) + 1) * beats_ * PORT_WORDS(top_->PORT_image_payload) > images_.size())
                fail("order.bin names an image that images.bin does not hold");
            image_queue_.push_back({order_[i], op.a[2] != 0});
            if (op.a[2]) label_queue_.push_back(labels_.at(order_[i]));
            ++fed_;
        }
    } else if (op.name == "record") {
        record_ = op.a[0] != 0;
    } else if (op.name == "mark") {
        marks_.put(now_);
        marks_.put(nanoseconds());
    } else if (op.name == "results") {
        return result_count_ >= op.a[0];
    } else if (op.name == "status") {
        polling_ = true;
        if (sent_ == 0 && now_ >= poll_at_ && !command_coin_.stall())
            offer(op.a[2] << 16 | HWGEN_STATUS_ADDRESS, false, 0);
        return false;
    } else {
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
    return true;
}

void Driver::step_program() {
    if (command_taken_) {
        top_->PORT_command_valid = 0;
        ++sent_;
    }
    if (replied_) {
        ++answered_;
        if (!polling_) {
            reads_.put(reply_);
        } else if ((reply_ & ops_[pc_].a[0]) == ops_[pc_].a[1]) {
            polling_ = false;
            last_progress_ = now_;
            ++pc_;
            sent_ = answered_ = 0;
        } else {
            poll_at_ = now_ + kPollGap;
            sent_ = answered_ = 0;
        }
    }
    while (!top_->PORT_command_valid && pc_ < ops_.size() && advance()) {
        ++pc_;
        sent_ = answered_ = 0;
    }
    finished_ = pc_ == ops_.size();
}

// After a hang: what the status register says, if commands are still answered.
void Driver::ask_status() {
    top_->PORT_reply_ready = 1;
    if (!top_->PORT_command_valid && !(polling_ && sent_)) offer(HWGEN_STATUS_ADDRESS, false, 0);
    for (int i = 0; i < kStatusCycles; ++i) {
        cycle();
        status_known_ = top_->PORT_reply_valid;
        status_ = top_->PORT_reply_payload;
        if (status_known_) return;
        const bool taken = top_->PORT_command_valid && top_->PORT_command_ready;
        edge();
        if (taken) top_->PORT_command_valid = 0;
    }
}

void Driver::finish(const char* how) {
    const uint64_t cycles = now_;
    const bool reading = pc_ < ops_.size() && ops_[pc_].name == "read";
    bool bus_waits = !polling_ && (top_->PORT_command_valid || (reading && sent_ > answered_));
    std::ostringstream channels;
    channels << "valid";
    for (int i = 0; i < PORT_WORDS(top_->channel_valid); ++i) channels << ' ' << get_word(top_->channel_valid, i);
    channels << "\nready";
    for (int i = 0; i < PORT_WORDS(top_->channel_ready); ++i) channels << ' ' << get_word(top_->channel_ready, i);
    if (!finished_ && !bus_waits) {
        ask_status();
        bus_waits = !status_known_;
    }
    results_.flush(), reads_.flush(), feeds_.flush(), marks_.flush();
    for (auto& probe : probes_) probe->flush();
    const double seconds = static_cast<double>(nanoseconds()) * 1e-9;
    std::ofstream file(options_.dir + "/outcome.txt");
    file << "end " << how << "\ncycles " << cycles << "\nseconds " << seconds << "\nop " << pc_ << "\nfed " << fed_
         << "\nunfed " << image_queue_.size() << "\nresults " << result_count_ << "\nbus_waits "
         << bus_waits << '\n' << channels.str() << '\n';
    if (status_known_) file << "status " << status_ << '\n';
    if (!file.flush()) fail("disk full or not writable");
}

int Driver::run() {
#if VM_TRACE
    if (!options_.trace.empty()) {
        context_.traceEverOn(true);
        trace_ = std::make_unique<VerilatedFstC>();
        top_->trace(trace_.get(), 99);
        trace_->open(options_.trace.c_str());
    }
#endif
    const char* how = "done";
    uint64_t tail = kTailCycles;
    top_->rst = 1;
    // A poisoned model starts with random inputs, too.
    top_->PORT_image_valid = top_->PORT_label_valid = top_->PORT_command_valid = 0;
    top_->PORT_result_ready = top_->PORT_reply_ready = 0;
    while (true) {
        cycle();
        if (now_ >= kResetCycles) {
            if (sample()) last_progress_ = now_;
            if (finished_ && tail-- == 0) break;
            if (!finished_ && now_ - last_progress_ > options_.watchdog) {
                how = "watchdog";
                break;
            }
            if (now_ >= options_.max_cycles) {
                how = "limit";
                break;
            }
        }
        edge();
        if (now_ == kResetCycles) top_->rst = 0;
        if (now_ >= kResetCycles && !finished_) step_program();
        if (now_ >= kResetCycles) sources();
        if ((now_ & 0x3FFF) == 0) {
            const auto time = std::chrono::steady_clock::now();
            if (time - told_ > std::chrono::seconds(1)) {
                told_ = time;
                std::printf("progress %llu %llu\n", static_cast<unsigned long long>(result_count_),
                            static_cast<unsigned long long>(now_));
                std::fflush(stdout);
            }
        }
    }
    finish(how);
    top_->final();
#if VM_TRACE
    if (trace_) trace_->close();
#endif
    return std::strcmp(how, "done") == 0 ? 0 : 4;
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
