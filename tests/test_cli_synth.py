"""``hwgen synth`` with stand-ins for the tools: what is run, what is reported, what is left when something is wrong."""

import json
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest
from cli_bench import *

from hwgen import cli
from hwgen.errors import ToolError
from hwgen.toolchain import YOWASP, require_working

YOSYS = """
[ "$1" = --version ] && echo "Yosys 0.70 (git sha1 0)" && exit
while [ $# -gt 0 ]; do [ "$1" = -o ] && netlist=$2; [ "$1" = -s ] && script=$2; [ "$1" = -l ] && log=$2; shift; done
[ -f "$script" ] && grep -q synth_ecp5 "$script" && echo synthesis > "$log"
echo '{"modules": {}}' > "$netlist"
"""
NEXTPNR = """
[ "$1" = --version ] && echo '"nextpnr-ecp5" -- Next Generation Place and Route (Version nextpnr-0.11.1)' >&2 && exit
echo "$@" > arguments.txt
while [ $# -gt 0 ]; do
    [ "$1" = --report ] && report=$2; [ "$1" = --textcfg ] && config=$2; [ "$1" = --log ] && log=$2; shift
done
cat "$FAKE/log" > "$log"
[ -f "$FAKE/fails" ] && exit 1
cat "$FAKE/report" > "$report"; echo config > "$config"
"""
ECPPACK = """
[ "$1" = --version ] && echo "Project Trellis ecppack Version 1.4-82-g0" && exit
[ "$2" != "" ] && echo bits > "$3"
"""
USED = {
    "MULT18X18D": (12, 156),
    "DP16KD": (20, 208),
    "TRELLIS_COMB": (30000, 83640),
    "TRELLIS_FF": (20000, 83640),
}
RESULT = (Path(__file__).parents[1] / "docs" / "result.md").read_text()
LEFT = {"nextpnr.log", "report.json", "synth.json", "yosys.log"}


def report(fmax=61.5, asked=50.0):
    way = {
        "from": "posedge $glbnet$clk",
        "to": "posedge $glbnet$clk",
        "path": [{"from": {"cell": "a"}, "to": {"cell": "b"}}],
    }
    return {
        "utilization": {name: {"used": used, "available": of} for name, (used, of) in USED.items()},
        "fmax": {"$glbnet$clk": {"achieved": fmax, "constraint": asked}},
        "critical_paths": [way],
    }


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A machine with the three tools, each a shell script; the folder of what nextpnr shall say."""
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    said.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE", str(said))
    for name, script in (("yosys", YOSYS), ("nextpnr-ecp5", NEXTPNR), ("ecppack", ECPPACK)):
        install(programs, name, script)
    (said / "log").write_text("Info: placed\n")
    (said / "report").write_text(json.dumps(report()))
    return said


def install(programs, name, script):
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(stat.S_IRWXU)


@pytest.fixture
def built(tmp_path, source, capsys):
    assert cli.main(["build", str(source), "--cluster", "ulx3s_85f", "-o", str(tmp_path / "u")]) == 0
    capsys.readouterr()
    return tmp_path / "u"


def left(built):
    """Names in the folder of results; None if it is not there. Nothing temporary stands beside it."""
    folder = built / "device0" / "ecp5"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    return {path.name for path in (folder / "out").iterdir()} if (folder / "out").exists() else None


def written(built):
    return json.loads((built / "device0" / "ecp5" / "out" / "synth.json").read_text())


def test_a_bitstream(run, tools, built):
    code, out, err = run("synth", built, "--seed", "7", "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result == written(built)
    assert left(built) == {*LEFT, "hwgen.bit"}
    assert (built / result["bitstream"]).read_text() == "bits\n"
    assert result["tools"] == {"yosys": "0.70", "nextpnr-ecp5": "0.11.1", "ecppack": "1.4"}
    assert result["used"] == {"dsp": 12, "bram": 20, "lut": 30000, "ff": 20000}
    assert result["available"] == {"dsp": 156, "bram": 208, "lut": 83640, "ff": 83640}
    assert (result["clocks"], result["fmax_mhz"]) == ({"clk": {"fmax_mhz": 61.5, "asked_mhz": 50.0}}, 61.5)
    assert [step["tool"] for step in result["steps"]] == ["yosys", "python", "nextpnr-ecp5", "ecppack"]
    assert result["peak_bytes"] == max(step["peak_bytes"] for step in result["steps"]) > 1 << 20
    assert (result["multipliers_packed"], result["board"], result["clock_mhz"]) == (0, "ulx3s_85f", 50.0)
    arguments = (built / "arguments.txt").read_text()
    assert "--85k --package CABGA381 --speed 6" in arguments
    assert "--seed 7 --freq 50 " in arguments
    assert "/packed.json" in arguments


def test_the_keys_are_told(run, tools, built):
    assert run("synth", built)[0] == 0
    part = RESULT.partition("## synth")[2].partition("## train")[0]
    told = " ".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", told)) | {"hwgen"} == set(written(built))


def test_what_is_shown(run, tools, built):
    code, out, _ = run("synth", built, "--no-pack")
    assert code == 0
    assert re.search(r"^MULT18X18D +12 +156 +8% +\d+$", out, re.MULTILINE)
    assert re.search(r"^TRELLIS_COMB +30,000 +83,640 +36% +[\d,]+$", out, re.MULTILINE)
    assert "clock clk: 61.50 MHz, asked 50\n" in out
    assert f"bitstream: {built}/device0/ecp5/out/hwgen.bit (5 bytes)" in out
    assert "/netlist.json" in (built / "arguments.txt").read_text()
    assert written(built)["multipliers_packed"] is None


def test_another_clock(run, tools, built):
    assert run("synth", built, "--freq", "62.5")[0] == 0
    assert written(built)["clock_mhz"] == 62.5
    assert "--freq 62.5 " in (built / "arguments.txt").read_text()
    assert run("synth", built, "--freq", "47.123") == (
        2, "", "hwgen: a clock of 47.123 MHz cannot be made of 25 MHz; take 46.875 or 47.5",
    )  # fmt: skip
    for wrong in ("0", "-1", "x", "nan"):
        code, _, err = run("synth", built, "--freq", wrong)
        assert (code, "give a number of MHz above 0" in err) == (2, True)
    assert left(built) == {*LEFT, "hwgen.bit"}  # that of 62.5 MHz: nothing was begun


def test_a_clock_that_is_missed(run, tools, built):
    assert run("synth", built)[0] == 0
    (tools / "report").write_text(json.dumps(report(fmax=47.3)))
    code, out, err = run("synth", built)
    message = (
        "ulx3s_85f: clock clk reaches 47.30 of 50 MHz, 2.70 MHz (5.4%) too slow, on the way from a to b; "
        "ask for less (--freq 46.875), or try another --seed"
    )
    assert (code, out, err) == (1, "", f"hwgen: {message}")
    assert left(built) == LEFT
    result = written(built)
    assert (result["error"], result["exit_code"], result["bitstream"]) == (message, 1, None)
    assert result["fmax_mhz"] == 47.3


FULL = """
Info: Device utilisation:
Info:           MULT18X18D:     170/    156   108%
Info:               DP16KD:      20/    208     9%
Info:         TRELLIS_COMB:   90000/  83640   107%
Info:           TRELLIS_FF:   20000/  83640    23%
"""


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (FULL + "ERROR: Unable to place cell 'x', no BELs remaining to implement cell type 'MULT18X18D'\n",
         ["ulx3s_85f: needs 170 MULT18X18D, it has 156, 14 too many; lower array= of its layers, or take a larger "
          "board",
          "ulx3s_85f: needs 90,000 TRELLIS_COMB, it has 83,640, 6,360 too many; lower array= of its layers, or take a "
          "larger board"]),
        (FULL.replace("170/", "100/").replace("90000/", "80000/")
         + "ERROR: Unable to find legal placement for all cells, design is probably at utilisation limit.\n",
         ["ulx3s_85f: nextpnr-ecp5 finds no room: Unable to find legal placement for all cells, design is probably at "
          "utilisation limit; the design takes 64% of MULT18X18D, 10% of DP16KD, 96% of TRELLIS_COMB, "
          "24% of TRELLIS_FF; lower array= of its layers"]),
    ],
)  # fmt: skip
def test_a_design_that_does_not_fit(run, tools, built, log, lines):
    (tools / "log").write_text(log)
    (tools / "fails").write_text("")
    assert run("synth", built) == (1, "", "\n".join(f"hwgen: {line}" for line in lines))
    assert left(built) == LEFT - {"report.json"}


def test_a_tool_that_breaks(run, tools, built):
    assert run("synth", built)[0] == 0
    (tools / "log").write_text("Info: well\nERROR: what is this\n")
    (tools / "fails").write_text("")
    assert run("synth", built) == (3, "", "hwgen: nextpnr-ecp5 failed with exit code 1:")
    assert left(built) is None


def test_a_tool_that_writes_nothing(run, tools, built, tmp_path):
    install(tmp_path / "bin", "ecppack", ECPPACK.splitlines()[1])
    assert run("synth", built)[2].startswith("hwgen: ecppack failed with exit code")
    assert left(built) is None


def test_a_report_of_another_shape(run, tools, built):
    (tools / "report").write_text("{}")
    code, _, err = run("synth", built)
    assert (code, err) == (
        3,
        "hwgen: nextpnr-ecp5: its report lacks 'utilization'; another version writes another one",
    )
    assert left(built) is None


def test_a_tool_without_end(run, tools, built, tmp_path, monkeypatch):
    install(tmp_path / "bin", "nextpnr-ecp5", NEXTPNR.replace('cat "$FAKE/log" >', "exec sleep 60 >"))
    monkeypatch.setattr("hwgen.backend.synth.SECONDS", 1)
    code, _, err = run("synth", built, "--minutes", "3")
    assert (code, err) == (
        1, "hwgen: ulx3s_85f: nextpnr-ecp5 found no end in 3 minutes; lower array= of the layers, so that the device "
        "is less full, or allow --minutes more",
    )  # fmt: skip
    assert left(built) == LEFT - {"report.json"}


def test_ctrl_c_ends_the_tool_and_leaves_nothing(tools, built, tmp_path):
    install(
        tmp_path / "bin",
        "nextpnr-ecp5",
        NEXTPNR.replace('cat "$FAKE/log"', 'echo $$ > "$FAKE/pid"; exec sleep 60'),
    )
    asked = []

    def interrupt(*told):
        if told[0].startswith("nextpnr") and (tools / "pid").exists() and (tools / "pid").read_text().strip():
            asked.append(told)
            raise KeyboardInterrupt

    from hwgen.backend.synth import SynthOptions, synthesize

    with pytest.raises(KeyboardInterrupt):
        synthesize(built, SynthOptions(), interrupt)
    assert asked
    with pytest.raises(ProcessLookupError):
        os.kill(int((tools / "pid").read_text()), 0)
    assert left(built) is None


@pytest.mark.parametrize("name", ["yosys", "nextpnr-ecp5", "ecppack"])
def test_a_tool_that_is_missing_or_too_old(run, tools, built, tmp_path, name):
    program = tmp_path / "bin" / name
    script = program.read_text()
    program.write_text(re.sub(r"(Yosys |nextpnr-|Version )\d+[.]\d+([.]\d+)?", r"\g<1>0.01", script))
    code, _, err = run("synth", built)
    least = {"yosys": "0.40", "nextpnr-ecp5": "0.6", "ecppack": "1.2"}[name]
    assert re.fullmatch(
        rf"hwgen: {name}: too old; {re.escape(least)} or later is needed \({program}, version 0.01\); "
        rf"it is for hwgen synth: .*; install it with {re.escape(YOWASP)}", err,
    )  # fmt: skip
    assert code == ToolError.exit_code
    program.unlink()
    code, _, err = run("synth", built)
    assert re.fullmatch(
        rf"hwgen: {name}: not found; it is for hwgen synth: .*; install it with {re.escape(YOWASP)}", err
    )
    assert (code, left(built)) == (ToolError.exit_code, None)
    install(tmp_path / "bin", f"yowasp-{name}", script.partition("\n")[2])
    assert require_working(name).path == tmp_path / "bin" / f"yowasp-{name}"


def test_folders_without_a_project(run, tools, built, tmp_path, source):
    assert run("synth", tmp_path / "nowhere")[2].startswith(f"hwgen: {tmp_path}/nowhere: no build directory")
    assert run("synth", built, "--board", "3") == (
        2,
        "",
        f"hwgen: {built}: no project for board 3; give --board 0",
    )
    assert cli.main(["build", str(source), "-o", str(tmp_path / "plain")]) == 0
    code, _, err = run("synth", tmp_path / "plain")
    assert (code, err) == (
        2, f"hwgen: {tmp_path}/plain: no project for Yosys and nextpnr-ecp5; build for a board with an ECP5: "
        f"hwgen build SOURCE --cluster ulx3s_85f -o {tmp_path}/plain",
    )  # fmt: skip
    (built / "device0" / "ecp5" / "top.v").write_text("")
    assert re.fullmatch(r"hwgen: .*top.v: changed since it was built; build again", run("synth", built)[2])


def test_another_build_removes_results_of_the_one_before(run, tools, built, source):
    assert run("synth", built)[0] == 0
    arguments = ["build", source, "--cluster", "ulx3s_85f", "-o", built]
    assert run(*arguments)[0] == 0
    assert left(built) == {*LEFT, "hwgen.bit"}  # the same build
    assert run(*arguments, "--seed", "3")[0] == 0
    assert left(built) is None


def test_the_installing_line_is_that_of_the_package():
    extra = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert YOWASP.split()[2:] == extra["project"]["optional-dependencies"]["ecp5"]
