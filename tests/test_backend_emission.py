"""Modules are made once, kept from build to build, in several processes, and an interrupted emission goes on."""

import dataclasses
import multiprocessing
import os
import re
from unittest import mock

import pytest
from chain_cases import chain_plan

from hwgen import Formats, Model, nn
from hwgen.backend import kept as kept_module
from hwgen.backend import verilog
from hwgen.backend.kept import Kept
from hwgen.backend.requests import Request, requests, stage_requests
from hwgen.backend.verilog import emit, emit_modules
from hwgen.errors import ToolError
from hwgen.plan.cuts import Cut


def network(layers, shape, rounding="nearest"):
    formats = Formats(activation=8, weight=6, master=12, error=8, lr=8, bias=12, rounding=rounding)
    optimizer = nn.SGD(lr=0.5, batch=2)
    return Model(input=shape, layers=layers, optimizer=optimizer, formats=formats, name="n").network(7)


def cut(net, *cuts):
    boards = max(each.board + each.count for each in cuts)
    return chain_plan(net, boards, lambda network, boards: cuts)


def five_parts(axis="output_channels", rounding="nearest"):
    """A convolution over five boards, all of two channels, and a linear layer."""
    layers = [
        nn.Conv2d(10, 10, 1, u=1, pc=2, pn=2, name="a"),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(60, 3, u=1, pc=2, pn=1, name="b"),
    ]
    return cut(network(layers, (2, 3, 10), rounding), Cut(0, axis, (0, 2, 4, 6, 8, 10)), Cut(5))


def stage_names(plan):
    return [stage_requests(plan, planned)[1].name for planned in plan.stages]


@pytest.mark.parametrize("axis", ["output_channels", "input_channels"])
def test_middle_parts_share_one_engine(axis):
    plan = five_parts(axis)
    first, *middle, last, linear = stage_names(plan)
    assert len(set(middle)) == 1
    assert len({first, middle[0], last, linear}) == 4
    assert len({planned.depths for planned in plan.on(1) + plan.on(2) + plan.on(3)}) == 1


def test_random_bits_keep_parts_apart():
    """With stochastic rounding each part draws by the logical numbers of its own weights."""
    names = stage_names(five_parts(rounding="stochastic"))
    assert len(set(names)) == len(names)


def test_equal_layers_on_different_boards_share_their_engine():
    layers = [nn.Flatten()]
    for name, board in (("a", 0), ("b", 1), ("c", 2), ("d", 3)):
        layers += [nn.Linear(4, 4, u=1, pc=2, pn=2, name=name, device=board), nn.ReLU()]
    plan = cut(network(layers[:-1], (1, 1, 4)), Cut(0), Cut(1), Cut(2), Cut(3))
    depths = plan.stages[1].depths
    same = tuple(dataclasses.replace(planned, depths=depths) for planned in plan.stages)
    names = stage_names(dataclasses.replace(plan, stages=same))
    assert names[1] == names[2]  # the first has no errors to send, the last no ReLU


@pytest.fixture(scope="module")
def plan():
    return five_parts()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No test here looks into the text of a module."""

    def text(self):
        return f"module {self.name}\n" * 9

    monkeypatch.setattr(Request, "text", text)


@pytest.fixture
def files(plan):
    return emit(plan)


def counted(plan, directory, **options):
    """An emission, and the names of the modules it made."""
    made = []

    def text(self):
        made.append(self.name)
        return f"module {self.name}\n" * 9

    with mock.patch.object(Request, "text", text):
        return emit_modules(plan, Kept(directory), **options), made


def test_kept_modules_are_the_made_ones(plan, files, tmp_path):
    first, made = counted(plan, tmp_path)
    assert first.files == files
    assert (first.made, first.kept, first.damaged) == (len(made), 0, 0)
    assert sorted(f"verilog/{name}.v" for name in made) == sorted(files)
    second, made = counted(plan, tmp_path)
    assert second.files == files
    assert (second.made, second.kept, made) == (0, len(files), [])


def test_interrupted_emission_goes_on(plan, files, tmp_path):
    def stop(boards, of):
        if boards == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counted(plan, tmp_path, progress=stop)
    there = len(list(tmp_path.glob("*.module")))
    assert 0 < there < len(files)
    emission, made = counted(plan, tmp_path)
    assert emission.files == files
    assert (emission.kept, len(made)) == (there, len(files) - there)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".module"]


DAMAGES = {
    "cut": lambda content: content[:-9],
    "empty": lambda content: b"",
    "flipped": lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:],
    "unchecked": lambda content: bytes(32) + content[32:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_module_is_made_again(damage, plan, files, tmp_path):
    counted(plan, tmp_path)
    path = min(tmp_path.iterdir())
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    emission, made = counted(plan, tmp_path)
    assert emission.files == files
    assert (emission.damaged, len(made)) == (1, 1)
    assert counted(plan, tmp_path)[1] == []


def test_another_version_makes_its_own(plan, tmp_path):
    counted(plan, tmp_path)
    with mock.patch.object(kept_module, "_version", return_value="other"):
        assert counted(plan, tmp_path)[0].kept == 0


def test_directory_that_cannot_be_written_is_no_error(plan, files, tmp_path):
    (tmp_path / "file").write_text("no directory")
    assert counted(plan, tmp_path / "file")[0].files == files


def test_oldest_modules_go(plan, tmp_path):
    with mock.patch.object(kept_module, "KEPT_BYTES", 1):
        counted(plan, tmp_path)
    assert not list(tmp_path.glob("*.module"))


def in_processes(monkeypatch):
    monkeypatch.setattr(verilog, "LARGE", 0)
    monkeypatch.setattr(verilog.os, "sched_getaffinity", lambda pid: {0, 1})


def test_processes_make_the_same_files(plan, files, monkeypatch, tmp_path):
    in_processes(monkeypatch)
    told = []
    emission = emit_modules(plan, Kept(tmp_path), lambda boards, of: told.append((boards, of)))
    assert emission.files == files
    assert list(emission.files) == list(files)
    assert told == sorted(told)
    assert told[-1] == (6, 6)
    assert len(list(tmp_path.iterdir())) == len(files)


def test_errors_of_processes_arrive_and_end_them(plan, monkeypatch):
    in_processes(monkeypatch)

    def text(self):
        raise ToolError(f"yosys: {self.name}")

    monkeypatch.setattr(Request, "text", text)
    with pytest.raises(ToolError, match=re.compile("yosys: hwgen_")):
        emit(plan)
    for child in multiprocessing.active_children():
        child.join(10)
    assert not multiprocessing.active_children()


def test_killed_process_is_reported(plan, monkeypatch):
    in_processes(monkeypatch)

    def text(self):
        os._exit(9)

    monkeypatch.setattr(Request, "text", text)
    with pytest.raises(ToolError, match="a process that makes modules was killed"):
        emit(plan)


def test_requests_name_every_module_once(plan):
    names = [one.name for one in requests(plan)]
    assert len(set(names)) == len(names)
    assert len({one.key for one in requests(plan)}) == len(names)
