// Sends frames of random length through hwgen_channel and prints what happens: "t CYCLE DATA LAST" for every word
// taken, "r CYCLE DATA LAST" for every word shown (cycles of either clock), the counters at the end. A knob is
// a plusarg of its name.

module channel_bench;
    parameter WIDTH = 64;
    parameter DEPTH_BITS = 6;

    integer tx_half = 5, rx_half = 5, rx_start = 0, cycles = 2000, longest = 9, idle = 0, drain = 700;
    reg [15:0] latency = 0, jitter = 0;
    reg [16:0] rate = 65536;
    reg drop33 = 0, flip_last = 0;
    reg [63:0] error = 0, seed = 1;
    reg [31:0] loss = 0, repeat_ = 0;
    // From which cycle on, and for how many.
    integer down_at = 0, down_for = 0, error_at = 0, error_for = 0, loss_at = 0, loss_for = 0, repeat_at = 0, repeat_for = 0;

    reg tx_clk = 0, rx_clk = 0, tx_valid = 0, tx_last = 0;
    reg [WIDTH-1:0] tx_data = 0;
    reg down = 0, inject_error = 0, inject_loss = 0, inject_repeat = 0;
    wire tx_ready, rx_valid, rx_last;
    wire [WIDTH-1:0] rx_data;
    wire [63:0] words;
    wire [31:0] frames, damaged, lost, repeated, most, marked;

    hwgen_channel #(.WIDTH(WIDTH), .DEPTH_BITS(DEPTH_BITS)) channel (.*);

    initial begin
        if ($value$plusargs("tx_half=%d", tx_half)) begin end
        if ($value$plusargs("rx_half=%d", rx_half)) begin end
        if ($value$plusargs("rx_start=%d", rx_start)) begin end
        if ($value$plusargs("cycles=%d", cycles)) begin end
        if ($value$plusargs("longest=%d", longest)) begin end
        if ($value$plusargs("idle=%d", idle)) begin end
        if ($value$plusargs("drain=%d", drain)) begin end
        if ($value$plusargs("latency=%d", latency)) begin end
        if ($value$plusargs("jitter=%d", jitter)) begin end
        if ($value$plusargs("rate=%d", rate)) begin end
        if ($value$plusargs("drop33=%d", drop33)) begin end
        if ($value$plusargs("flip_last=%d", flip_last)) begin end
        if ($value$plusargs("error=%h", error)) begin end
        if ($value$plusargs("seed=%h", seed)) begin end
        if ($value$plusargs("loss=%h", loss)) begin end
        if ($value$plusargs("repeat=%h", repeat_)) begin end
        if ($value$plusargs("down_at=%d", down_at)) begin end
        if ($value$plusargs("down_for=%d", down_for)) begin end
        if ($value$plusargs("error_at=%d", error_at)) begin end
        if ($value$plusargs("error_for=%d", error_for)) begin end
        if ($value$plusargs("loss_at=%d", loss_at)) begin end
        if ($value$plusargs("loss_for=%d", loss_for)) begin end
        if ($value$plusargs("repeat_at=%d", repeat_at)) begin end
        if ($value$plusargs("repeat_for=%d", repeat_for)) begin end
    end

    initial begin
        #1;
        forever #(tx_half) tx_clk = ~tx_clk;
    end
    initial begin
        #1;
        #(rx_start);
        forever #(rx_half) rx_clk = ~rx_clk;
    end

    integer cycle = 0, rx_cycle = 0, left = 0;
    reg [31:0] random = 32'h1234_5678;
    function automatic [31:0] step(input [31:0] value);
        reg [31:0] x;
        begin
            x = value ^ (value << 13);
            x = x ^ (x >> 17);
            step = x ^ (x << 5);
        end
    endfunction

    // A word is its number in the low bits; a frame in progress is always ended.
    always @(posedge tx_clk) begin : send
        reg [31:0] x;
        integer rest;
        x = random;
        rest = left;
        if (tx_valid && tx_ready) begin
            $display("t %0d %h %0d", cycle, tx_data, tx_last);
            tx_data <= tx_data + 1;
            rest = rest - 1;
        end
        if (!tx_valid || tx_ready) begin
            if (rest == 0 && cycle < cycles) begin
                x = step(x);
                rest = 1 + x % longest;
            end
            x = step(x);
            tx_valid <= rest != 0 && x % 100 >= idle;
            tx_last <= rest == 1;
        end
        left <= rest;
        random <= x;
        cycle <= cycle + 1;
        down <= cycle >= down_at && cycle < down_at + down_for;
        inject_error <= cycle >= error_at && cycle < error_at + error_for;
        inject_loss <= cycle >= loss_at && cycle < loss_at + loss_for;
        inject_repeat <= cycle >= repeat_at && cycle < repeat_at + repeat_for;
        if (cycle == cycles + drain) begin
            $display("c words %0d frames %0d damaged %0d lost %0d repeated %0d most %0d",
                     words, frames, damaged, lost, repeated, most);
            $finish;
        end
    end

    always @(posedge rx_clk) begin
        if (rx_valid) $display("r %0d %h %0d", rx_cycle, rx_data, rx_last);
        rx_cycle <= rx_cycle + 1;
    end
endmodule
