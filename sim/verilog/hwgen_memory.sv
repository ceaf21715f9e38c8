// A model of external memory behind AXI4: 64-bit words, one ID, INCR bursts of whole words. A read's first word comes
// "latency" cycles or more after its address, a write's answer as long after its last word. Every handshake waits a
// cycle with a chance of stall/65536; then latencies vary too, up to twice as long. Breaks the simulation off at the
// first thing that AXI4 or a memory of WORDS words does not allow.
module hwgen_memory #(
    parameter WORDS = 512,
    parameter ADDRESS = 40
) (
    input clk, input rst,
    input [15:0] stall, input [15:0] latency, input [63:0] seed,
    input awvalid, output reg awready, input [ADDRESS-1:0] awaddr, input [7:0] awlen, input [2:0] awsize, input [1:0] awburst,
    input wvalid, output reg wready, input [63:0] wdata, input [7:0] wstrb, input wlast,
    output reg bvalid, input bready, output [1:0] bresp,
    input arvalid, output reg arready, input [ADDRESS-1:0] araddr, input [7:0] arlen, input [2:0] arsize, input [1:0] arburst,
    output reg rvalid, input rready, output reg [63:0] rdata, output [1:0] rresp, output reg rlast
);
    localparam QUEUE = 16;
    reg [63:0] words [0:WORDS-1];
    reg [63:0] now, rng;
    assign bresp = 0;
    assign rresp = 0;

    // Addresses taken, and words taken ahead of their address.
    reg [ADDRESS-1:0] ar_addr [0:QUEUE-1], aw_addr [0:QUEUE-1];
    reg [7:0] ar_len [0:QUEUE-1], aw_len [0:QUEUE-1];
    reg [63:0] ar_due [0:QUEUE-1], b_due [0:QUEUE-1];
    reg [63:0] w_data [0:QUEUE-1];
    reg [7:0] w_strb [0:QUEUE-1];
    reg w_last [0:QUEUE-1];
    integer ar_head, ar_count, aw_head, aw_count, w_head, w_count, b_head, b_count, r_beat, w_beat, byte_;
    reg old_aw, old_w, old_ar;
    reg [ADDRESS+12:0] old_aw_payload, old_ar_payload;
    reg [72:0] old_w_payload;
    wire [ADDRESS+12:0] aw_payload = {awaddr, awlen, awsize, awburst};
    wire [ADDRESS+12:0] ar_payload = {araddr, arlen, arsize, arburst};
    wire [72:0] w_payload = {wdata, wstrb, wlast};

`ifdef HWGEN_BACKDOOR
    import "DPI-C" context function void hwgen_memory_here();
    export "DPI-C" function hwgen_memory_get;
    export "DPI-C" function hwgen_memory_put;
    function longint hwgen_memory_get(input int at);
        return words[at];
    endfunction
    function void hwgen_memory_put(input int at, input longint value);
        words[at] = value;
    endfunction
    initial hwgen_memory_here();
`endif

    function [63:0] scramble(input [63:0] x);
        begin
            scramble = x ^ (x << 13);
            scramble = scramble ^ (scramble >> 7);
            scramble = scramble ^ (scramble << 17);
        end
    endfunction

    task refuse(input [8*56-1:0] what);
        begin
            $display("Error: hwgen_memory: %0s", what);
            $fatal(1, "hwgen_memory: %0s", what);
        end
    endtask

    task check_address(input [ADDRESS-1:0] addr, input [7:0] len, input [2:0] size, input [1:0] burst);
        begin
            if (size != 3 || burst != 1) refuse("a burst that is not INCR of 64-bit words");
            if (addr[2:0] != 0) refuse("an address within a word");
            if ({1'b0, addr[11:3]} + {2'b0, len} > 511) refuse("a burst across a page of 4 KiB");
            if ((addr >> 3) + {{ADDRESS-8{1'b0}}, len} >= WORDS) refuse("an address behind the end of memory");
        end
    endtask

    // One pass of drawn bits serves all handshakes of a cycle.
    wire wait_ar = rng[15:0] < stall, wait_aw = rng[31:16] < stall, wait_w = rng[47:32] < stall;
    wire wait_r = rng[63:48] < stall, wait_b = {rng[7:0], rng[63:56]} < stall;
    wire [63:0] extra = stall == 0 ? 64'd0 : {48'd0, rng[39:24]} % ({48'd0, latency} + 1);

    always @(posedge clk) begin
        now <= now + 1;
        rng <= scramble(rng);
        if (rst) begin
            now <= 0;
            rng <= {seed[62:0], 1'b1} ^ 64'h9E3779B97F4A7C15;
            awready <= 0; wready <= 0; arready <= 0; bvalid <= 0; rvalid <= 0; rlast <= 0; rdata <= 0;
            ar_head = 0; ar_count = 0; aw_head = 0; aw_count = 0; w_head = 0; w_count = 0; b_head = 0; b_count = 0;
            r_beat = 0; w_beat = 0;
            old_aw <= 0; old_w <= 0; old_ar <= 0;
        end else begin
            if (^{awvalid, wvalid, arvalid, bready, rready} === 1'bx) refuse("an unknown handshake");
            if (old_aw && (!awvalid || aw_payload !== old_aw_payload)) refuse("a write address taken back");
            if (old_w && (!wvalid || w_payload !== old_w_payload)) refuse("a written word taken back");
            if (old_ar && (!arvalid || ar_payload !== old_ar_payload)) refuse("a read address taken back");
            old_aw <= awvalid && !awready; old_aw_payload <= aw_payload;
            old_w <= wvalid && !wready; old_w_payload <= w_payload;
            old_ar <= arvalid && !arready; old_ar_payload <= ar_payload;

            if (rvalid && rready) begin
                rvalid <= 0;
                if (rlast) begin
                    ar_head = (ar_head + 1) % QUEUE; ar_count = ar_count - 1; r_beat = 0;
                end else r_beat = r_beat + 1;
            end
            if ((!rvalid || rready) && ar_count != 0 && ar_due[ar_head] <= now && !wait_r) begin
                rvalid <= 1;
                rdata <= words[(ar_addr[ar_head] >> 3) + r_beat];
                rlast <= r_beat == {24'd0, ar_len[ar_head]};
            end
            if (arvalid && arready) begin
                check_address(araddr, arlen, arsize, arburst);
                ar_addr[(ar_head + ar_count) % QUEUE] = araddr;
                ar_len[(ar_head + ar_count) % QUEUE] = arlen;
                ar_due[(ar_head + ar_count) % QUEUE] = now + {48'd0, latency} + extra;
                ar_count = ar_count + 1;
            end
            arready <= ar_count < QUEUE - 1 && !wait_ar;

            if (awvalid && awready) begin
                check_address(awaddr, awlen, awsize, awburst);
                aw_addr[(aw_head + aw_count) % QUEUE] = awaddr;
                aw_len[(aw_head + aw_count) % QUEUE] = awlen;
                aw_count = aw_count + 1;
            end
            awready <= aw_count < QUEUE - 1 && !wait_aw;
            if (wvalid && wready) begin
                w_data[(w_head + w_count) % QUEUE] = wdata;
                w_strb[(w_head + w_count) % QUEUE] = wstrb;
                w_last[(w_head + w_count) % QUEUE] = wlast;
                w_count = w_count + 1;
            end
            if (bvalid && bready) begin
                bvalid <= 0;
                b_head = (b_head + 1) % QUEUE; b_count = b_count - 1;
            end
            if (w_count != 0 && aw_count != 0 && b_count < QUEUE - 1) begin
                if (w_last[w_head] != (w_beat == {24'd0, aw_len[aw_head]})) refuse("wlast at the wrong word");
                for (byte_ = 0; byte_ < 8; byte_ = byte_ + 1)
                    if (w_strb[w_head][byte_])
                        words[(aw_addr[aw_head] >> 3) + w_beat][8*byte_ +: 8] = w_data[w_head][8*byte_ +: 8];
                w_beat = w_beat + 1;
                if (w_last[w_head]) begin
                    b_due[(b_head + b_count) % QUEUE] = now + {48'd0, latency} + extra;
                    b_count = b_count + 1;
                    aw_head = (aw_head + 1) % QUEUE; aw_count = aw_count - 1; w_beat = 0;
                end
                w_head = (w_head + 1) % QUEUE; w_count = w_count - 1;
            end
            wready <= w_count < QUEUE - 1 && !wait_w;
            if ((!bvalid || bready) && b_count != 0 && b_due[b_head] <= now && !wait_b) bvalid <= 1;
        end
    end
endmodule
