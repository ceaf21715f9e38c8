"""Small Verilog devices with the ports of boards and of a board's boundary, for tests of the drivers."""

__all__ = ["BOUNDARY", "far_board", "host_board"]

_REGISTERS = """
  reg [31:0] value;
  reg replying;
  reg [31:0] answer;
  assign command__ready = ~replying;
  assign reply__valid = replying;
  assign reply__payload = answer;
  always @(posedge clk) begin
    if (reply__ready) replying <= 0;
    if (command__valid & command__ready) begin
      if (command__payload[56]) value <= command__payload[31:0];
      else begin replying <= 1; answer <= command__payload[47:32] == 3 ? {31'd0, idle} : value + COUNT; end
    end
    if (rst) begin value <= 0; replying <= 0; end
  end
"""
_MANAGEMENT = """
  input command__valid; output command__ready; input [56:0] command__payload;
  output reply__valid; input reply__ready; output [31:0] reply__payload;
"""


def _declared(text):
    """A declaration a line, as emitted Verilog has them."""
    return "".join(f"  {part.strip()};\n" for part in text.split(";") if part.strip())


def _module(name, ports, body):
    declared = _declared(ports)
    names = [line.split()[-1].rstrip(";") for line in declared.splitlines()]
    return f"module {name}({', '.join(names)});\n{declared}{body}\nendmodule\n"


BOUNDARY = _module(
    "hwgen_boundary",
    """input clk; input rst; input [39:0] offset; output [1:0] channel_valid; output [1:0] channel_ready;
    output [69:0] sum; input up_x__valid; output up_x__ready; input [39:0] up_x__payload;
    input down_dy__valid; output down_dy__ready; input [7:0] down_dy__payload;
    output down_y__valid; input down_y__ready; output [69:0] down_y__payload;"""
    + _MANAGEMENT,
    _REGISTERS.replace("COUNT", "taken")
    + """
  reg [31:0] taken, errors;
  reg [69:0] total, word;
  reg full;
  wire idle = ~full;
  assign sum = total;
  assign channel_valid = {up_x__valid, full};
  assign channel_ready = {up_x__ready, down_y__ready};
  assign up_x__ready = ~full & taken[2:0] != 5 | ~full & value[0];
  assign down_dy__ready = errors[1:0] != 3 | total[0];
  assign down_y__valid = full;
  assign down_y__payload = word;
  always @(posedge clk) begin
    if (down_y__ready) full <= 0;
    if (up_x__valid & up_x__ready) begin
      taken <= taken + 1; full <= 1;
      total <= total + {30'd0, up_x__payload} + {30'd0, offset};
      word <= {total[29:0], up_x__payload};
    end else if (taken[2:0] == 5 & ~value[0]) taken <= taken + 8;
    if (taken[2:0] == 5) taken <= taken + 1;
    if (down_dy__valid & down_dy__ready) begin errors <= errors + 1; total <= total ^ {62'd0, down_dy__payload}; end
    else errors <= errors + 1;
    if (rst) begin taken <= 0; errors <= 0; total <= 0; full <= 0; word <= 0; end
  end
""",
)
"""Takes ``up_x`` and (while it trains) ``down_dy``, gives a word of ``down_y`` for every one of ``up_x``."""

_SIDE = """input {side}_clk; input {side}__up; output [2:0] {side}_state;
    output {side}__tx__valid; input {side}__tx__ready;
    output [{width}:0] {side}__tx__payload; input [{width}:0] {side}__rx; input {side}__rx_valid;"""


def host_board(width=64, channels=3):
    """Board 0: sends an image's beat down its link, gives what comes back as the result; one at a time."""
    body = """
  reg flying, resulting, sent, want, come, sending, here_a, here_b, want_a, want_b;
  reg [LAST:0] word, back;
  reg [31:0] counted;
  wire idle = ~flying;
  assign channel_valid = {CHANNELS{flying}};
  assign channel_ready = {CHANNELS{~flying}};
  assign image__ready = ~flying;
  assign result__valid = resulting;
  assign result__payload = back[47:0];
  assign down_state = {down__up, channel_valid[0], 1'b1};
  assign down__tx__valid = sending;
  assign down__tx__payload = word;
  assign label__ready = 1'b1;
  assign probe_y0__valid = image__valid;
  assign probe_y0__ready = image__ready;
  assign probe_y0__payload = image__payload;
  always @(posedge clk) begin
    here_a <= come; here_b <= here_a;
    if (image__valid & image__ready) begin
      flying <= 1; want <= ~want; word <= {1'b1, counted[7:0], {WIDTH - 17{1'b0}}, image__payload};
    end
    if (here_b != sent) begin sent <= here_b; resulting <= 1; end
    if (resulting & result__ready) begin resulting <= 0; flying <= 0; counted <= counted + 1; end
    if (rst) begin
      flying <= 0; resulting <= 0; sent <= 0; want <= 0; here_a <= 0; here_b <= 0; counted <= 0; word <= 0;
    end
  end
  always @(posedge down_clk) begin
    want_a <= want; want_b <= want_a;
    if (want_b != want_a & down__up) sending <= 1;
    if (sending & down__tx__ready) sending <= 0;
    if (down__rx_valid) begin come <= ~come; back <= down__rx; end
    if (rst) begin want_a <= 0; want_b <= 0; sending <= 0; come <= 0; back <= 0; end
  end
"""
    for name, value in (("WIDTH", str(width)), ("LAST", str(width)), ("CHANNELS", str(channels))):
        body = body.replace(name, value)
    return _module(
        "hwgen_board0",
        f"""input clk; input rst; output [{channels - 1}:0] channel_valid; output [{channels - 1}:0] channel_ready;
        input image__valid; output image__ready; input [8:0] image__payload; output probe_y0__valid;
        output probe_y0__ready; output [8:0] probe_y0__payload; input label__valid; output label__ready;
        input [15:0] label__payload; output result__valid; input result__ready; output [47:0] result__payload;"""
        + _SIDE.format(side="down", width=width)
        + _MANAGEMENT,
        _REGISTERS.replace("COUNT", "counted") + body,
    )


def far_board(number, last, width=64, channels=2):
    """Board ``number``: passes words on and back, adding 1 to each; the ``last`` one turns them round."""
    sides = ["up"] if last else ["up", "down"]
    ports = f"""input clk; input rst; output [{channels - 1}:0] channel_valid;
        output [{channels - 1}:0] channel_ready; output probe_dy0__valid; output probe_dy0__ready;
        output [31:0] probe_dy0__payload;""" + "".join(_SIDE.format(side=s, width=width) for s in sides)
    ways = [("up", "up")] if last else [("up", "down"), ("down", "up")]
    body = f"""
  reg [31:0] age;
  assign channel_valid = {channels}'d0;
  assign channel_ready = {{{channels}{{1'b1}}}};
  assign probe_dy0__valid = age[0];
  assign probe_dy0__ready = age[2];
  assign probe_dy0__payload = age;
  always @(posedge clk) age <= rst ? 0 : age + 1;
"""
    for source, sink in ways:
        word, flip = f"word_{source}", f"flip_{source}"
        body += f"""
  reg [{width}:0] {word};
  reg {flip}, {flip}_a, {flip}_b, {flip}_c, wait_{source};
  assign {source}_state = {{{source}__up, wait_{source}, 1'b0}};
  assign {sink}__tx__valid = wait_{source};
  assign {sink}__tx__payload = {word} + 1;
  always @(posedge {source}_clk) begin
    if ({source}__rx_valid) begin {word} <= {source}__rx; {flip} <= ~{flip}; end
    if (rst) begin {word} <= 0; {flip} <= 0; end
  end
  always @(posedge {sink}_clk) begin
    {flip}_a <= {flip}; {flip}_b <= {flip}_a; {flip}_c <= {flip}_b;
    if ({flip}_c != {flip}_b) wait_{source} <= 1;
    else if ({sink}__tx__ready) wait_{source} <= 0;
    if (rst) begin {flip}_a <= 0; {flip}_b <= 0; {flip}_c <= 0; wait_{source} <= 0; end
  end
"""
    return _module(f"hwgen_board{number}", ports, body)
