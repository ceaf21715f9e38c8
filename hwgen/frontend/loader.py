"""Reading a model file: Python that defines ``model`` and, if it likes, ``data``; or ONNX."""

from __future__ import annotations

import ast
import importlib
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from ..data import Dataset, random_dataset, read_dataset
from ..errors import DataError, HwgenError, ModelError
from ..ir.initial import Parameters, given_parameters
from ..ir.stage import Network
from .calibrate import calibrate
from .dsl import Model
from .training import Training

__all__ = ["RANDOM_BATCHES", "RANDOM_VALUES", "Source", "load_source", "source_of"]

RANDOM_BATCHES = 8
"""Batches of random data for a file without ``data``; fewer where they would have more than RANDOM_VALUES."""
RANDOM_VALUES = 1 << 24
"""Most values in random training images, unless one batch has more."""
_OF_PYTORCH = (".pt", ".pth", ".pt2")
_MODULE = "hwgen_model_file"
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Source:
    """What a model file gives: model, network, first parameters, and data in the network's input format.

    Parameters and random data are made when they are first asked for: a plan needs neither, and those of a large
    network are gigabytes. ``given`` is the file's own data, None where it has none.
    """

    path: Path
    model: Model
    network: Network
    seed: int
    given: Dataset | None

    @cached_property
    def parameters(self) -> Parameters:
        """The first weights and biases: the file's, the rest drawn from the seed."""
        return self.model.parameters(self.network, self.seed)

    @cached_property
    def dataset(self) -> Dataset:
        """The file's data, else random images and labels drawn from the seed."""
        if self.given is not None:
            return self.given
        batch = self.network.update.batch
        batches = RANDOM_VALUES // (batch * math.prod(self.network.in_shape))
        samples = min(RANDOM_BATCHES, max(batches, 1)) * batch
        return random_dataset(self.network, samples, self.seed)


def load_source(path: str | Path, seed: int = 0, training: Training | None = None) -> Source:
    """Execute a model file, or import an ONNX file, and lower what it defines.

    The file sets ``model = Model(...)`` and may set ``data``: a Dataset, or a function network -> Dataset; without
    it the data is random. It may import modules that lie beside it. ``seed`` draws the first weights, the random
    data and the random bits of stochastic rounding. ``training`` says what an ONNX file does not; a Python file says it
    itself.

    Raises ModelError or DataError, ``file:line: what; what to do``, if the file cannot be read or run or
    defines something else; ModelError with every mistake of the model; DataError with the first bad image or
    label.
    """
    path = Path(path)
    if path.suffix == ".onnx":
        return _imported(path, seed, training or Training())
    script = _Script(path)
    if training is not None:
        raise ModelError(f"{path}: sets {training.given()} itself; leave the option out, and change the file")
    with _beside(path.parent):
        names = script.run()
        model = _model(script, names)
        network = model.network(seed)
        given_parameters(network, model.weights)
        dataset = _dataset(script, names, network) if "data" in names else None
    return Source(path, model, network, seed, dataset)


def source_of(model: Model, seed: int = 0, data: object = None) -> Source:
    """A model that is there already, with its ``data`` as a model file sets it. Raises ModelError or DataError."""
    network = model.network(seed)
    given_parameters(network, model.weights)
    made = data(network) if callable(data) and not isinstance(data, type) else data
    if made is not None and not isinstance(made, Dataset):
        raise DataError(f"data: {_kind(made)}; give a Dataset or a function network -> Dataset")
    dataset = None if made is None else _fitting(made, network, "data")
    return Source(Path(model.name or "model"), model, network, seed, dataset)


def _imported(path: Path, seed: int, training: Training) -> Source:
    from .onnx_import import model_from_onnx  # loads onnx

    dataset = None if training.data is None else read_dataset(training.data)
    model = model_from_onnx(path, optimizer=training.optimizer())
    if training.calibrate is not None and dataset is None:
        raise DataError(f"{path}: calibrate = {training.calibrate} without data; give --data FILE.npz, too")
    try:
        if training.calibrate is not None and dataset is not None:
            images, labels = dataset.train_images, dataset.train_labels
            model = calibrate(model, images, labels, seed=seed, batches=training.calibrate)
        network = model.network(seed)
    except ModelError as error:
        raise ModelError([f"{path}: {problem}" for problem in error.problems]) from None
    given_parameters(network, model.weights)
    if dataset is not None:
        dataset = _fitting(dataset, network, str(training.data))
    return Source(path, model, network, seed, dataset)


class _Script:
    """A user's file and where in it things stand."""

    def __init__(self, path: Path):
        self.path = path
        if path.suffix in _OF_PYTORCH:
            raise ModelError(
                f"{path}: {path.suffix} files are not read; load it in a .py file that sets "
                "model = hwgen.from_torch(module, example_input), or export it to ONNX"
            )
        if path.suffix != ".py" and not path.is_dir():
            raise ModelError(f"{path}: not a Python file; give a .py file that sets model = Model(...)")
        try:
            text = path.read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ModelError(f"{path}: {reason}; give a .py file that sets model = Model(...)") from None
        try:
            self._tree = ast.parse(text, str(path))
            self._code = compile(self._tree, str(path), "exec")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            reason = getattr(error, "msg", None) or str(error)
            raise ModelError(f"{path}:{line}: {type(error).__name__}: {reason}; correct the file") from None

    def run(self) -> Mapping[str, object]:
        """Execute the file; the names that it sets."""
        module = ModuleType(_MODULE)
        module.__file__ = str(self.path)
        sys.modules[_MODULE] = module  # dataclasses of the file look themselves up there
        try:
            self.guard(lambda: exec(self._code, module.__dict__), ModelError)
        finally:
            del sys.modules[_MODULE]
        return module.__dict__

    def guard(self, action: Callable[[], Result], kind: type[HwgenError], where: str = "") -> Result:
        """Run the user's code; exceptions become errors that name the line, else ``where``.

        An HwgenError keeps its class.
        """
        try:
            return action()
        except HwgenError as error:
            place = self._failed(error, where)
            raise type(error)([f"{place}: {problem}" for problem in error.problems]) from None
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())
            name = type(error).__name__
            what = f"{name}: {said}" if said else name
            raise kind(f"{self._failed(error, where)}: {what}; correct the file") from error

    def _failed(self, error: BaseException, where: str) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
        return f"{self.path}:{lines[-1]}" if lines and lines[-1] else where or str(self.path)

    def place(self, name: str) -> str:
        """``file:line`` of the last statement at the top that sets ``name``."""
        lines = [
            statement.lineno
            for statement in self._tree.body
            for node in ast.walk(statement)
            if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name)
            or (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name)
            or (isinstance(node, ast.alias) and (node.asname or node.name) == name)
        ]
        return f"{self.path}:{lines[-1]}" if lines else str(self.path)


def _model(script: _Script, names: Mapping[str, object]) -> Model:
    if "model" not in names:
        others = [name for name, value in names.items() if isinstance(value, Model)]
        if others:
            raise ModelError(
                f"{script.place(others[0])}: sets no model, but {others[0]} = Model(...); name it model"
            )
        raise ModelError(f"{script.path}: sets no model; add model = Model(input=..., layers=[...])")
    model = names["model"]
    if not isinstance(model, Model):
        raise ModelError(
            f"{script.place('model')}: model is {_kind(model)}; set model = Model(input=..., layers=[...])"
        )
    return model


def _dataset(script: _Script, names: Mapping[str, object], network: Network) -> Dataset:
    where = script.place("data")
    made = names["data"]
    what = "data is"
    if callable(made) and not isinstance(made, type):
        function = made
        made = script.guard(lambda: function(network), DataError, where)
        what = "data(network) returns"
    if not isinstance(made, Dataset):
        raise DataError(f"{where}: {what} {_kind(made)}; give a Dataset or a function network -> Dataset")
    return _fitting(made, network, where)


def _fitting(made: Dataset, network: Network, where: str) -> Dataset:
    """The samples in the network's format. Raises DataError, "where: ...", if they do not fit it or make no batch."""
    batch = network.update.batch
    try:
        dataset = made.quantise(network)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    if len(dataset.train_images) < batch:
        raise DataError(
            f"{where}: {len(dataset.train_images)} training samples make no batch of {batch}; "
            "give more samples or a smaller batch"
        )
    return dataset


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Let the file import its neighbours; they are forgotten afterwards: two files may each have theirs."""
    place = str(folder.resolve())
    known = set(sys.modules)
    neighbours: list[str] = []
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if place in sys.path:
            sys.path.remove(place)
        new = set(sys.modules) - known
        for name in new:
            top = name.partition(".")[0]
            origin = getattr(sys.modules.get(top), "__file__", None) if top in new else None
            if origin in (f"{place}/{top}.py", f"{place}/{top}/__init__.py"):
                neighbours.append(name)
        for name in neighbours:
            del sys.modules[name]
