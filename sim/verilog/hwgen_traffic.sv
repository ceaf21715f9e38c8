// The user of one channel of a link, at both ends: sends words 0 .. limit-1 of a sequence, and checks what arrives.
//
// Both ends stall at random. A word is a hash of its number and of the channel's, so none is like another one. `wrong` counts
// words that are not the next of the sequence, or that changed or went while nobody took them.

module hwgen_traffic #(
    parameter WIDTH = 64,
    parameter NUMBER = 0
) (
    input  wire [31:0]      limit,
    input  wire [31:0]      source_stall,  // of 2**32: chance that nothing is offered in a cycle
    input  wire [31:0]      sink_stall,    // that nothing is taken
    input  wire [63:0]      seed,
    input  wire             pauses,        // sometimes neither end does anything for up to 2047 cycles

    input  wire             tx_clk,
    input  wire             tx_rst,
    output reg              tx_valid,
    input  wire             tx_ready,
    output reg  [WIDTH-1:0] tx_data,

    input  wire             rx_clk,
    input  wire             rx_rst,
    input  wire             rx_valid,
    output reg              rx_ready,
    input  wire [WIDTH-1:0] rx_data,

    output reg  [31:0]      received,
    output reg  [31:0]      wrong
);
    function automatic [63:0] step(input [63:0] value);
        reg [63:0] x;
        begin
            x = value ^ (value << 13);
            x = x ^ (x >> 7);
            step = x ^ (x << 17);
        end
    endfunction
    function automatic [WIDTH-1:0] word(input [31:0] index);
        reg [63:0] x;
        integer i;
        begin
            for (i = 0; i < WIDTH / 64; i = i + 1) begin
                x = {NUMBER[15:0], i[15:0], index} * 64'h9E37_79B9_7F4A_7C15;
                word[64*i +: 64] = (x ^ (x >> 29)) * 64'hBF58_476D_1CE4_E5B9;
            end
        end
    endfunction

    wire [63:0] start = (seed + NUMBER + 1) * 64'h9E37_79B9_7F4A_7C15;
    reg [63:0] tx_random, rx_random;
    reg [10:0] tx_pause, rx_pause;
    reg [31:0] offered;
    reg [WIDTH-1:0] held;
    reg waiting;
    initial begin
        tx_random = 1;
        rx_random = 1;
        tx_pause = 0;
        rx_pause = 0;
        offered = 0;
        held = 0;
        waiting = 0;
        tx_valid = 0;
        tx_data = 0;
        rx_ready = 0;
        received = 0;
        wrong = 0;
    end

    always @(posedge tx_clk) begin
        tx_random <= tx_rst ? start : step(tx_random);
        tx_pause <= tx_pause != 0 ? tx_pause - 1'b1 : pauses && tx_random[40:32] == 0 ? tx_random[60:50] : 11'd0;
        if (!tx_rst && (!tx_valid || tx_ready)) begin
            tx_valid <= offered != limit && tx_pause == 0 && tx_random[31:0] >= source_stall;
            if (offered != limit && tx_pause == 0 && tx_random[31:0] >= source_stall) begin
                tx_data <= word(offered);
                offered <= offered + 1;
            end
        end
    end

    always @(posedge rx_clk) begin
        rx_random <= rx_rst ? ~start : step(rx_random);
        rx_pause <= rx_pause != 0 ? rx_pause - 1'b1 : pauses && rx_random[40:32] == 0 ? rx_random[60:50] : 11'd0;
        rx_ready <= !rx_rst && rx_pause == 0 && rx_random[31:0] >= sink_stall;
        held <= rx_data;
        waiting <= !rx_rst && rx_valid && !rx_ready;
        if (!rx_rst) begin
            if (rx_valid && rx_ready) begin
                received <= received + 1;
                if (rx_data != word(received)) wrong <= wrong + 1;
            end else if (waiting && !(rx_valid && rx_data == held)) wrong <= wrong + 1;
        end
    end
endmodule
