"""A component that stands in the design as an instance of a Verilog module emitted elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from amaranth import *
from amaranth.hdl import Instance, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In

__all__ = ["Emitted"]


class Emitted(wiring.Component):
    """Has the ports of ``component`` and is an instance of Verilog module ``module``; ``domains`` names the domain here
    for every other domain that the module has, ``reset`` resets it beside the domain's own reset.

    Amaranth elaborates and emits every submodule anew; this lets equal engines and tiles be emitted once. It
    cannot run in Amaranth's own simulator.
    """

    def __init__(
        self,
        component: wiring.Component,
        module: str,
        domains: Mapping[str, str] = MappingProxyType({}),
        reset: ValueLike | None = None,
    ):
        self.module, self.domains, self.reset = module, domains, reset
        component._MustUse__silence = True  # it lends its signature only and is never elaborated here
        super().__init__(component.signature)

    def elaborate(self, platform):
        m = Module()
        ports: dict[str, object] = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        if self.reset is not None:
            ports["i_rst"] = ResetSignal() | self.reset
        for inside, outside in self.domains.items():
            ports[f"i_{inside}_clk"], ports[f"i_{inside}_rst"] = ClockSignal(outside), ResetSignal(outside)
        for path, member, value in self.signature.flatten(self):
            side = "i" if member.flow is In else "o"
            ports[f"{side}_{'__'.join(map(str, path))}"] = Value.cast(value)
        m.submodules.emitted = Instance(self.module, **ports)
        return m
