"""Which tests prove an operation: tests/test_ir_proofs.py sees to it that they are there and that they have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .ops import Conv2d, Flatten, Hardtanh, LeakyReLU, Linear, MaxPool2d, ReLU, SoftmaxCrossEntropy

__all__ = ["PROOFS", "Proof"]


@dataclass(frozen=True)
class Proof:
    """Tests by what they compare, "file::function" from the top of the checkout.

    ``reference``: the numpy reference beside PyTorch's autograd, or exact fractions; ``hardware``: emitted Verilog or
    the gateware beside the reference; ``imports``: imported models beside ONNX Runtime and PyTorch.
    """

    reference: tuple[str, ...]
    hardware: tuple[str, ...]
    imports: tuple[str, ...]


_WHOLE = "tests/test_ref_executor.py::test_random_networks"
_AUTOGRAD = "tests/test_ref_executor.py::test_each_pass_is_autograd_on_its_own_operands"
_DEVICES = "tests/test_device_random.py::test_random_devices"
_ARRAYS = "tests/test_device_cases.py::test_odd_arrays_give_the_same_tensors"
_ONNX = "tests/test_frontend_onnx.py::test_onnx_runtime_and_hwgen_compute_the_same"
_TORCH = "tests/test_frontend_torch.py::test_pytorch_and_hwgen_compute_the_same"
_FORMS = "tests/test_ref_kernels.py::test_activations_are_those_of_pytorch"
_EVERY_VALUE = "tests/test_gateware_relu.py::test_every_value_behind_other_activations"
_TRAINING = "tests/test_frontend_torch.py::test_training_is_pytorchs"

PROOFS: Mapping[type, Proof] = {
    Conv2d: Proof(
        ("tests/test_ref_kernels.py::test_convolution_over_the_grid", _AUTOGRAD, _WHOLE),
        (_DEVICES,),
        (_ONNX, _TORCH),
    ),
    Linear: Proof((_AUTOGRAD, _WHOLE), (_DEVICES, _ARRAYS), (_ONNX, _TORCH)),
    ReLU: Proof(
        ("tests/test_ref_kernels.py::test_relu_has_no_gradient_at_zero", _AUTOGRAD, _WHOLE),
        (
            "tests/test_gateware_relu.py::test_relu_of_every_value",
            "tests/test_gateware_relu.py::test_adjoint",
            _DEVICES,
        ),
        (_ONNX, _TORCH),
    ),
    LeakyReLU: Proof((_FORMS, _WHOLE), (_EVERY_VALUE, _DEVICES), (_ONNX, _TORCH)),
    Hardtanh: Proof((_FORMS, _WHOLE), (_EVERY_VALUE, _DEVICES), (_ONNX, _TORCH)),
    MaxPool2d: Proof(
        ("tests/test_ref_kernels.py::test_pool", _WHOLE),
        (
            "tests/test_gateware_pool.py::test_max_pool",
            "tests/test_gateware_pool.py::test_max_pool_adjoint",
            _DEVICES,
        ),
        (_ONNX, _TORCH),
    ),
    Flatten: Proof((_AUTOGRAD, _WHOLE), (_DEVICES, _ARRAYS), (_ONNX, _TORCH)),
    SoftmaxCrossEntropy: Proof(
        (
            "tests/test_ref_softmax.py::test_one_rounding_of_the_exact_quotient",
            "tests/test_ref_softmax.py::test_sums_and_accuracy",
            _WHOLE,
        ),
        (
            "tests/test_gateware_loss.py::test_lanes_and_stalls",
            "tests/test_gateware_loss.py::test_formats",
            _DEVICES,
        ),
        (_TRAINING,),
    ),
}
