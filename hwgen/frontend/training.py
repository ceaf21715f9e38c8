"""How to train a model whose file says nothing of it: what ``hwgen build model.onnx`` is told by options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from .nn import SGD

__all__ = ["LOSSES", "Training"]

LOSSES = ("cross_entropy",)


@dataclass(frozen=True)
class Training:
    """None stands for what was not said: SGD's own learning rate and batch, random data, formats by role.

    ``data`` is an .npz file; ``calibrate`` the number of batches from it by which binary points are chosen.
    """

    loss: str | None = None
    lr: float | None = None
    batch: int | None = None
    data: Path | None = None
    calibrate: int | None = None

    def given(self) -> str:
        """The options that were given, for messages."""
        return ", ".join(field.name for field in fields(self) if getattr(self, field.name) is not None)

    def optimizer(self) -> SGD:
        """The update."""
        said = {"lr": self.lr, "batch": self.batch}
        return SGD(**{name: value for name, value in said.items() if value is not None})  # type: ignore[arg-type]
