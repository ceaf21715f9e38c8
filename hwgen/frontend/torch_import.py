"""A PyTorch module as a model of hwgen, by torch.export."""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Any

from ..errors import ModelError, ToolError
from ..ir.formats import Formats
from .chain import Chain, Tensor
from .dsl import Model
from .nn import SGD, Layer, SoftmaxCrossEntropy
from .torch_operators import TORCH_ALTERNATIVES, TORCH_OPERATORS, Call

if TYPE_CHECKING:
    from ..target import Cluster

__all__ = ["from_torch"]

BRANCH = "networks are chains without branches so far: let one layer follow another"


def from_torch(
    module: Any,
    example_input: Any,
    *,
    loss: Layer | None = None,
    optimizer: SGD | None = None,
    formats: Formats | None = None,
    cluster: Cluster | str | None = None,
    name: str | None = None,
) -> Model:
    """A ``torch.nn.Module`` with its weights as a model, to be trained with ``loss`` and ``optimizer``.

    ``example_input`` is a batch of any size, [N, C, H, W] or [N, features]; its numbers do not matter. Parameters that
    need no gradient make a frozen layer. Mistakes of the module's operators are noted in the model, which reports them
    when it is lowered. Raises ModelError if torch.export cannot trace the module, ToolError if there is no PyTorch.
    """
    try:
        import torch
    except ImportError:
        raise ToolError("torch: not installed; install PyTorch to import its modules") from None
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"from_torch: module is a {type(module).__name__}; give a torch.nn.Module")
    if not isinstance(example_input, torch.Tensor) or not 2 <= example_input.ndim <= 4:
        raise ModelError(
            "from_torch: example_input; give one tensor [N, C, H, W], [N, H, W] or [N, features]"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch.export thinks of itself
            program = torch.export.export(module, (example_input,))
    except Exception as error:  # of many classes, by what the module does
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"from_torch: torch.export cannot trace {type(module).__name__} ({reason}); "
            "write forward without branches on the data, for one input"
        ) from None
    chain = _Walk(module, program, example_input, Formats() if formats is None else formats).run()
    return chain.model(
        SoftmaxCrossEntropy() if loss is None else loss,
        SGD() if optimizer is None else optimizer,
        name or type(module).__name__,
    ).replace(cluster=cluster)


class _Walk:
    """Goes through the calls of an exported program; ``head`` is the one that the chain has reached."""

    def __init__(self, module: Any, program: Any, example: Any, formats: Formats):
        self._graph = program.graph
        self._batch = int(example.shape[0])
        self.chain = Chain(tuple(int(size) for size in example.shape[1:]), formats)
        if not example.is_floating_point():
            self.chain.say(f"numbers of type {example.dtype}; hwgen takes images as real numbers")
        signature = program.graph_signature
        self._outputs = [name for name in signature.user_outputs if name]
        self._tensors = _tensors(module, program)
        self.head = signature.user_inputs[0]

    def run(self) -> Chain:
        """Every call once."""
        chain = self.chain
        if len(self._outputs) != 1:
            chain.at("outputs", "")
            chain.say(f"{len(self._outputs)}; hwgen trains one: return the logits only")
        for node in self._needed():
            kind = _kind(node)
            chain.at(_where(node, kind), _path(node))
            data = [found for found in node.all_input_nodes if found.name not in self._tensors]
            if kind not in TORCH_OPERATORS:
                near = difflib.get_close_matches(kind, TORCH_OPERATORS, n=1, cutoff=0.8)
                advice = TORCH_ALTERNATIVES.get(kind) or (
                    f"did you mean {near[0]}?" if near else "leave it out"
                )
                chain.say(f"{kind} is not supported; {advice} (hwgen ops lists what is)")
            elif len(data) != 1:
                joined = " and ".join(found.name for found in data) or "parameters only"
                chain.say(f"works on {joined}; {BRANCH}, with parameters as weights")
            elif data[0].name != self.head:
                chain.say(f"reads {data[0].name}, and another operator its result or its input; {BRANCH}")
            else:
                TORCH_OPERATORS[kind](self._call(node, kind), chain)
            if chain.wrong:
                chain.lose()
            self.head = node.name
        if not chain.problems and self.head not in self._outputs:
            chain.say(f"is the last operator, but {self._outputs[0]} is returned; {BRANCH}")
        return chain

    def _needed(self) -> list[Any]:
        """The calls that the model's results need, in order."""
        needed = set(self._outputs)
        calls = []
        for node in reversed(list(self._graph.nodes)):
            if node.op == "call_function" and node.name in needed:
                needed.update(found.name for found in node.all_input_nodes)
                calls.append(node)
        return calls[::-1]

    def _call(self, node: Any, kind: str) -> Call:
        arguments: dict[str, Any] = {"result": node.meta["val"].shape}
        for index, argument in enumerate(node.target._schema.arguments):
            default = node.kwargs.get(argument.name, argument.default_value)
            value = node.args[index] if index < len(node.args) else default
            is_node = hasattr(value, "all_input_nodes")
            arguments[argument.name] = self._tensors.get(value.name, value) if is_node else value
        return Call(kind, arguments, self._batch, node.name in self._outputs)


def _tensors(module: Any, program: Any) -> dict[str, Tensor]:
    """Parameters and buffers by their placeholders; one that has several names has the first in all places."""
    firsts: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        firsts.setdefault(id(parameter), name)
    trained = dict(module.named_parameters(remove_duplicate=False))
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    names.update(signature.inputs_to_lifted_tensor_constants)
    found = {}
    for placeholder, name in names.items():
        values = program.state_dict.get(name, program.constants.get(name))
        parameter = trained.get(name)
        first = name if parameter is None else firsts[id(parameter)]
        frozen = parameter is None or not parameter.requires_grad
        found[placeholder] = Tensor(first, _numbers(values), frozen)
    return found


def _numbers(values: Any) -> Any:
    values = values.detach().cpu()
    return (values.float() if values.is_floating_point() else values).numpy()


def _kind(node: Any) -> str:
    """The operator without its overload: "conv2d"."""
    schema = getattr(node.target, "_schema", None)
    return str(schema.name if schema is not None else node.target).rpartition("::")[2]


def _path(node: Any) -> str:
    """The module that a call stands in: "features.0", "" if it is in the outermost one's forward."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _where(node: Any, kind: str) -> str:
    path = _path(node)
    return f"{node.name} ({kind} of {path!r})" if path else f"{node.name} ({kind})"
