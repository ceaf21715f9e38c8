// One direction of a cable between two link ends: delay, rate, and faults of words and of whole frames.
//
// A word is taken on a rising edge of tx_clk with tx_valid and tx_ready, and is shown for one cycle of rx_clk, in order, latency +
// 0..jitter cycles of tx_clk later (counted from the edge after the one that took it) or as soon as rx_clk has an edge for it. At
// most 2**DEPTH_BITS words are in flight: tx_ready is low when the ring is full, as happens when rx_clk is the slower one.
// A frame is the words up to one with tx_last. It suffers one kind of fault at most: it is lost, or comes twice, or has bits
// flipped, so that a receiver can count faults exactly. There is no reset: a cable has none. Everything follows from the seed
// and the edges, bit by bit and cycle by cycle the same in every simulator.

module hwgen_channel #(
    parameter WIDTH = 64,
    parameter DEPTH_BITS = 10
) (
    input  wire             tx_clk,
    input  wire             tx_valid,
    output wire             tx_ready,
    input  wire [WIDTH-1:0] tx_data,
    input  wire             tx_last,

    input  wire             rx_clk,
    output reg              rx_valid,
    output reg  [WIDTH-1:0] rx_data,
    output reg              rx_last,

    // Constant from the first edge on, but for error, loss and repeat_.
    input  wire [15:0] latency,
    input  wire [15:0] jitter,
    input  wire [16:0] rate,       // words a cycle of tx_clk, in 1/65536
    input  wire        drop33,     // tx_ready is low one cycle in 33
    input  wire [63:0] error,      // a word is hit when a random number of 64 bits is below: one bit of it flips
    input  wire        flip_last,  // which may be tx_last then
    input  wire [31:0] loss,       // likewise of 32 bits, once a frame: it is lost
    input  wire [31:0] repeat_,    // or comes twice (if it is no longer than the ring)
    input  wire [63:0] seed,

    // May change at any time. Each cycle with an inject bit marks one more of the frames that begin later.
    input  wire down,              // words taken meanwhile are lost
    input  wire inject_error,
    input  wire inject_loss,
    input  wire inject_repeat,

    output reg [63:0] words,       // taken
    output reg [31:0] frames,      // taken whole
    output reg [31:0] damaged,     // frames with flipped bits
    output reg [31:0] lost,        // frames with words lost
    output reg [31:0] repeated,    // frames sent twice
    output reg [31:0] most,        // words in flight at once
    output wire [31:0] marked      // frames still to begin that an inject bit asked for
);
    localparam DEPTH = 1 << DEPTH_BITS;
    localparam [1:0] WHOLE = 0, HIT = 1, LOST = 2, TWICE = 3;
    // Of a hit frame, a quarter of the words that come by is chosen until one was.
    localparam [63:0] QUARTER = 64'h4000_0000_0000_0000;

    reg [WIDTH:0] ring[0:DEPTH-1];
    reg [31:0] due[0:DEPTH-1];
    reg [DEPTH_BITS:0] head, tail;
    reg [31:0] now;

    // xorshift64*
    reg [63:0] state;
    function automatic [63:0] step(input [63:0] value);
        reg [63:0] x;
        begin
            x = value ^ (value >> 12);
            x = x ^ (x << 25);
            step = x ^ (x >> 27);
        end
    endfunction
    function automatic [63:0] draw(input [63:0] value);
        draw = value * 64'h2545_F491_4F6C_DD1D;
    endfunction
    function automatic [31:0] draw32(input [63:0] value);
        draw32 = 32'(draw(value) >> 32);
    endfunction
    function automatic [63:0] scramble(input [63:0] value);
        reg [63:0] x;
        integer i;
        begin
            x = value * 64'h9E37_79B9_7F4A_7C15 + 64'h2545_F491_4F6C_DD1D;
            if (x == 0) x = 1;
            for (i = 0; i < 8; i = i + 1) x = step(x);  // seeds may be small
            scramble = x;
        end
    endfunction

    reg started;
    reg [17:0] tokens;             // 65536 a word
    reg [5:0] turn;
    reg copying;                   // the second time of a frame
    reg [DEPTH_BITS:0] copy;
    wire [DEPTH_BITS:0] level = head - tail;
    wire open = started && tokens[17:16] != 0 && !level[DEPTH_BITS] && !(drop33 && turn == 32);
    wire taken = tx_valid && tx_ready;
    assign tx_ready = open && !copying;

    reg amid;                      // past the first word of a frame
    reg [1:0] fate;
    reg struck, torn;              // a bit of this frame was flipped, a word of it lost
    reg [DEPTH_BITS:0] first;      // its first word in the ring
    reg oversize;                      // it does not fit the ring
    reg [31:0] errors_due, losses_due, repeats_due;
    assign marked = errors_due + losses_due + repeats_due;

    function automatic [31:0] delayed(input [31:0] random);
        delayed = now + {16'd0, latency} + (jitter == 0 ? 32'd0 : random % ({16'd0, jitter} + 1));
    endfunction

    task automatic push(input [WIDTH:0] word, input [31:0] time_);
        begin
            ring[head[DEPTH_BITS-1:0]] <= word;
            due[head[DEPTH_BITS-1:0]] <= time_;
            head <= head + 1'b1;
            if ({{31 - DEPTH_BITS{1'b0}}, level} >= most) most <= {{31 - DEPTH_BITS{1'b0}}, level} + 1;
        end
    endtask

    initial begin
        started = 0; now = 0; head = 0; tail = 0; state = 1; tokens = 0; turn = 0;
        copying = 0; copy = 0; amid = 0; fate = WHOLE; struck = 0; torn = 0; first = 0; oversize = 0;
        errors_due = 0; losses_due = 0; repeats_due = 0;
        words = 0; frames = 0; damaged = 0; lost = 0; repeated = 0; most = 0;
        rx_valid = 0; rx_data = 0; rx_last = 0;
    end

    always @(posedge tx_clk) begin : transmit
        reg [63:0] r;
        reg [31:0] lot;
        reg [1:0] kind;
        reg begins, hit, flipped, gone;
        reg [WIDTH:0] word;
        reg [17:0] sum;
        r = state;
        begins = taken && !amid;
        kind = fate;

        started <= 1'b1;
        now <= now + 1;
        turn <= turn == 32 ? 6'd0 : turn + 1'b1;
        sum = tokens + {1'b0, rate};
        if (taken || (copying && open)) sum = sum - 18'h10000;
        tokens <= sum > 18'h1FFFF ? 18'h1FFFF : sum;
        errors_due <= errors_due + {31'd0, inject_error};
        losses_due <= losses_due + {31'd0, inject_loss};
        repeats_due <= repeats_due + {31'd0, inject_repeat};

        if (begins) begin
            kind = WHOLE;
            if (loss != 0 || repeat_ != 0) begin
                r = step(r);
                lot = draw32(r);
                if (lot < loss) kind = LOST;
                else if (lot - loss < repeat_) kind = TWICE;
            end
            if (errors_due != 0) begin
                kind = HIT;
                errors_due <= errors_due + {31'd0, inject_error} - 1;
            end else if (losses_due != 0) begin
                kind = LOST;
                losses_due <= losses_due + {31'd0, inject_loss} - 1;
            end else if (repeats_due != 0) begin
                kind = TWICE;
                repeats_due <= repeats_due + {31'd0, inject_repeat} - 1;
            end
            fate <= kind;
            first <= head;
        end

        if (taken) begin
            word = {tx_last, tx_data};
            hit = 1'b0;
            flipped = amid && struck;
            if (kind == HIT && !flipped) begin
                r = step(r);
                hit = draw(r) < QUARTER || tx_last;
            end
            if (error != 0 && (kind == HIT || kind == WHOLE)) begin
                r = step(r);
                if (draw(r) < error) hit = 1'b1;
            end
            if (hit) begin
                r = step(r);
                lot = draw32(r);
                lot = lot % (WIDTH + {31'd0, flip_last});
                word = word ^ ({{WIDTH{1'b0}}, 1'b1} << lot);
                flipped = 1'b1;
            end
            gone = (amid && torn) || down || kind == LOST;
            if (!(down || kind == LOST)) begin
                if (jitter != 0) r = step(r);
                push(word, delayed(draw32(r)));
            end
            words <= words + 1;
            amid <= !tx_last;
            struck <= flipped;
            torn <= gone;
            oversize <= amid && (oversize || head - first == DEPTH[DEPTH_BITS:0]);
            if (tx_last) begin
                frames <= frames + 1;
                if (flipped && !gone) damaged <= damaged + 1;
                if (gone) lost <= lost + 1;
                if (kind == TWICE && !gone && !(amid && (oversize || head - first == DEPTH[DEPTH_BITS:0]))) begin
                    copying <= 1'b1;
                    copy <= begins ? head : first;
                end
            end
        end

        if (copying && open) begin
            word = ring[copy[DEPTH_BITS-1:0]];
            if (jitter != 0) r = step(r);
            push(word, delayed(draw32(r)));
            copy <= copy + 1'b1;
            if (word[WIDTH]) begin
                copying <= 1'b0;
                repeated <= repeated + 1;
            end
        end

        state <= started ? r : scramble(seed);
    end

    always @(posedge rx_clk) begin
        rx_valid <= 1'b0;
        if (level != 0 && $signed(now - due[tail[DEPTH_BITS-1:0]]) > 0) begin
            rx_valid <= 1'b1;
            {rx_last, rx_data} <= ring[tail[DEPTH_BITS-1:0]];
            tail <= tail + 1'b1;
        end
    end
endmodule
