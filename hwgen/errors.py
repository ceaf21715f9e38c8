"""The errors a user may see; each carries the exit code that the command line returns."""

__all__ = [
    "BuildError",
    "DataError",
    "HwgenError",
    "MismatchError",
    "ModelError",
    "SynthesisError",
    "TargetError",
    "ToolError",
    "WatchdogError",
]


class HwgenError(Exception):
    """A user's mistake or a failed check, ``where: what is wrong; what to do``, no traceback.

    ``problems`` are the messages, one or all that were found together. ``exit_code`` is what ``hwgen`` exits
    with: 1 mismatch or misfit, 2 user error, 3 tool missing or broken, 4 watchdog.
    """

    exit_code = 2

    def __init__(self, problems: list[str] | str):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ModelError(HwgenError):
    """The network, its number formats or its foldings are wrong. Holds every problem found."""


class TargetError(HwgenError):
    """A board, a link or a cluster is wrong or unknown. Holds every problem found."""


class DataError(HwgenError):
    """Images, labels or stored tensors do not fit the network."""


class BuildError(HwgenError):
    """A build directory is missing, of another version, or cannot be written."""


class MismatchError(HwgenError):
    """The hardware and the reference differ, or nothing was compared."""

    exit_code = 1


class SynthesisError(HwgenError):
    """The design does not fit its board, or is too slow for its clock."""

    exit_code = 1


class ToolError(HwgenError):
    """An external tool is missing or failed; the message carries the tool's own output."""

    exit_code = 3


class WatchdogError(HwgenError):
    """The hardware made no progress; the message names the stuck channel."""

    exit_code = 4
