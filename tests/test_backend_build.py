"""The build directory: what is in it, that it is the same every time, and that a damaged one is refused."""

import hashlib
import json
import re
import shutil

import build_stubs
import numpy as np
import pytest
from sample_model import SOURCE, write_model

import hwgen
from hwgen.backend import build as module
from hwgen.backend.arrays import pack, unpack
from hwgen.backend.build import build, load_build
from hwgen.errors import BuildError, HwgenError
from hwgen.frontend.loader import load_source
from hwgen.plan.serial import plan_from_json

FILES = [
    "data.npz", "host/device.json", "hwgen.core", "manifest.json", "parameters.npz", "plan.json", "plan.txt",
    "result.json",
    "verilog/conv1.v", "verilog/hwgen_core.v", "verilog/linear1.v",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _stubs(monkeypatch):
    build_stubs.install(monkeypatch)


@pytest.fixture
def source(tmp_path):
    return write_model(tmp_path)


@pytest.fixture
def built(tmp_path, source):
    build(source, tmp_path / "out", seed=3)
    return tmp_path / "out"


def contents(directory, but=("result.json",)):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in but
    }


def refused(action, *arguments, **options):
    with pytest.raises(BuildError) as error:
        action(*arguments, **options)
    return str(error.value)


def edit(built, **changes):
    path = built / "manifest.json"
    manifest = json.loads(path.read_text())
    for key, value in changes.items():
        if value is KeyError:
            del manifest[key]
        else:
            manifest[key] = value
    path.write_text(json.dumps(manifest))


def test_files_and_manifest(built):
    assert list(contents(built, but=())) == FILES
    manifest = json.loads((built / "manifest.json").read_text())
    number = build_stubs.NUMBER + len((built / "plan.json").read_text())
    assert manifest == {
        "format": 3,
        "hwgen": hwgen.__version__,
        "build": f"0x{number:08x}",
        "seed": 3,
        "files": {
            name: hashlib.sha256((built / name).read_bytes()).hexdigest()
            for name in FILES
            if name not in ("manifest.json", "result.json")
        },
    }


def test_load_gives_back_what_was_built(built, source):
    loaded, expected = load_build(built), load_source(source, 3)
    assert loaded.path == built
    assert loaded.seed == 3
    assert loaded.plan == plan_from_json((built / "plan.json").read_text())
    assert loaded.plan.network == expected.network
    assert loaded.parameters == expected.parameters
    assert loaded.parameters.biases[0] is None
    assert all(weights.dtype == np.int64 for weights in loaded.parameters.weights)
    for name in module.TENSORS:
        read, wanted = getattr(loaded.dataset, name), getattr(expected.dataset, name)
        assert read.dtype == np.int64
        np.testing.assert_array_equal(read, wanted)
    assert sorted(loaded.files) == FILES[-3:]
    assert loaded.files["verilog/conv1.v"] == (built / "verilog/conv1.v").read_text()


def test_same_source_same_bytes(tmp_path, built, source):
    build(source, tmp_path / "again", seed=3)
    assert contents(tmp_path / "again") == contents(built)
    build(source, tmp_path / "other", seed=4)
    differing = {
        name for name, content in contents(tmp_path / "other").items() if content != contents(built)[name]
    }
    assert differing == {"data.npz", "manifest.json", "parameters.npz", "plan.json"}


def test_no_path_of_this_machine_in_any_file(tmp_path, built):
    for name, content in contents(built, but=()).items():
        assert str(tmp_path).encode() not in content, name


def test_result(tmp_path, source):
    steps = []
    result = build(source, tmp_path / "out", progress=steps.append)
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result
    assert [step.split()[0] for step in steps] == ["loading", "planning", "emitting", "writing"]
    assert result["multipliers"] == sum(stage["multipliers"] for stage in result["stages"]) == 9 * 2 + 3
    assert result["stages"][0] == {
        "name": "conv1",
        "board": 0,
        "array": [9, 1],
        "folding": {"u": 9, "pc": 1, "pn": 1, "b": 1},
        "multipliers": 18,
        "macs": {"forward": 288, "backward": 0, "gradient": 288},
    }
    assert (result["predicted_cycles_per_sample"], result["predicted_cycles_per_batch"]) == (32.0, 100.25)
    assert (result["batch"], result["bottleneck"], result["verilog_files"]) == (2, "conv1 forward", 3)


def test_building_again_replaces_and_removes(tmp_path, built):
    (built / "wave.fst").write_text("mine")
    untouched = (built / "verilog" / "conv1.v").stat()
    text = SOURCE.replace("nn.Flatten(), nn.Linear(8, 3)", "nn.Flatten(), nn.Linear(8, 5, name='dense')")
    build(write_model(tmp_path, text), built)
    assert [name for name in contents(built) if name.startswith("verilog/")] == [
        "verilog/conv1.v", "verilog/dense.v", "verilog/hwgen_core.v",
    ]  # fmt: skip
    assert (built / "verilog" / "conv1.v").stat().st_mtime_ns == untouched.st_mtime_ns
    assert (built / "wave.fst").read_text() == "mine"
    assert load_build(built).seed == 0


def test_a_directory_with_only_a_result_may_be_built_into(tmp_path, source):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text("{}")
    build(source, tmp_path / "out")
    load_build(tmp_path / "out")


@pytest.mark.parametrize("manifest", [None, "{", "[]", "{}", '{"files": 3}'])
def test_somebody_elses_directory_is_left_alone(tmp_path, source, manifest):
    (tmp_path / "plan.txt").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = contents(tmp_path)
    message = refused(build, source, tmp_path)
    assert re.fullmatch(r".+: not empty and no build directory; give a new directory with -o", message)
    assert contents(tmp_path) == before


def test_a_manifest_that_names_files_elsewhere(tmp_path, built, source):
    edit(built, files={"../model.py": "00"})
    assert re.fullmatch(
        r".+/out: '\.\./model\.py' is no path below it; nothing was changed", refused(build, source, built)
    )
    assert source.exists()


def test_a_wrong_model_leaves_the_old_build(tmp_path, built):
    before = contents(built, but=())
    with pytest.raises(HwgenError):
        build(write_model(tmp_path, SOURCE.replace("Linear(8, 3)", "Linear(9, 3)")), built)
    assert contents(built, but=()) == before


def test_missing_directory(tmp_path):
    message = refused(load_build, tmp_path / "none")
    assert re.fullmatch(
        r"(.+/none): no build directory \(no manifest\.json\); make one with hwgen build SOURCE -o \1",
        message,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hwgen": "0.0.9"}, r"(.+)/out: built by hwgen 0\.0\.9, this is \d+\.\d+\.\d+; build again"),
        ({"format": 2}, r"(.+)/out: build directory of format 2, this is 3; build again"),
        ({"format": 2, "files": KeyError}, r"(.+)/out: build directory of format 2, this is 3; build again"),
        (
            {"build": "0x00000000"},
            r".+/manifest\.json: build 0x00000000 is not that of plan\.json; build again",
        ),
        (
            {"hwgen": KeyError},
            r".+/manifest\.json: not written by hwgen, or damaged; build into a new directory",
        ),
        (
            {"files": KeyError},
            r".+/manifest\.json: not written by hwgen, or damaged; build into a new directory",
        ),
        ({"files": {}}, r".+/manifest\.json: not written by hwgen, or damaged; build into a new directory"),
        ({"seed": "x"}, r".+/manifest\.json: not written by hwgen, or damaged; build into a new directory"),
    ],
)
def test_other_version_or_damaged_manifest(built, changes, message):
    edit(built, **changes)
    assert re.fullmatch(message, refused(load_build, built))


@pytest.mark.parametrize("seed", [-1, 1 << 32, True])
def test_a_seed_that_is_none(built, seed):
    edit(built, seed=seed)
    assert "damaged; build into a new directory" in refused(load_build, built)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.npz", b""),
        ("data.npz", b"PK"),
        ("data.npz", pack({"x": np.arange(3)})),
        ("parameters.npz", pack({"x": np.arange(3)})),
        ("verilog/conv1.v", b"\xff\xfe"),
    ],
)
def test_damage_that_the_manifest_covers(built, name, content):
    (built / name).write_bytes(content)
    manifest = json.loads((built / "manifest.json").read_text())
    edit(built, files={**manifest["files"], name: hashlib.sha256(content).hexdigest()})
    assert re.fullmatch(r".+/out: damaged \(\w+: .+\); build again", refused(load_build, built))


def test_no_work_for_a_directory_that_cannot_be_written(tmp_path, source):
    (tmp_path / "file").write_text("mine")
    steps = []
    message = refused(lambda: build(source, tmp_path / "file" / "out", progress=steps.append))
    assert message == f"{tmp_path}/file: cannot be written (Not a directory); nothing was changed"
    assert steps == []


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_manifest_that_is_no_json(built, text):
    (built / "manifest.json").write_bytes(text.encode("latin1"))
    message = refused(load_build, built)
    expected = r".+/out/manifest\.json: not written by hwgen, or damaged; build into a new directory"
    assert re.fullmatch(expected, message)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("manifest.json", "result.json")])
def test_changed_and_missing_files_are_named(built, name):
    path = built / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    message = refused(load_build, built)
    assert re.fullmatch(rf".+/out/{re.escape(name)}: changed since it was built; build again", message)
    path.unlink()
    expected = rf".+/out/{re.escape(name)}: cannot be read \(No such file or directory\); build again"
    assert re.fullmatch(expected, refused(load_build, built))


def test_a_moved_build_is_still_good(tmp_path, built):
    shutil.move(built, tmp_path / "elsewhere")
    assert load_build(tmp_path / "elsewhere").path == tmp_path / "elsewhere"


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63])
def test_tensors_keep_their_values(bits):
    rng = np.random.default_rng(bits)
    high = 1 << (bits - 1)
    tensors = {
        "extremes": np.array([-high, high - 1], dtype=np.int64),
        "z": rng.integers(-high, high, (3, 1, 2)),
        "a": rng.integers(-high, high, (4, 5)).T,
        "none": np.zeros((0, 2), dtype=np.int64),
    }
    content = pack(tensors)
    back = unpack(content)
    assert list(back) == list(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == np.int64
        np.testing.assert_array_equal(back[name], tensor)
    assert pack(back) == content


def test_tensors_take_the_narrowest_type():
    sizes = [len(pack({"x": np.full(1000, high)})) for high in (127, 128, 32767, 32768, 2**31 - 1, 2**31)]
    assert [round(size / 1000) for size in sizes] == [1, 2, 2, 4, 4, 8]
    assert len(pack({"x": np.full(1000, -129)})) == sizes[1]


def test_tensors_have_no_time_stamp(monkeypatch):
    first = pack({"x": np.arange(5)})
    monkeypatch.setattr("time.localtime", lambda *_: (2031, 5, 6, 7, 8, 9, 0, 0, 0))
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert pack({"x": np.arange(5)}) == first
