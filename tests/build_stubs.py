"""Stand-ins for planner and emitter, so that tests of build directory and command line take no time."""

import sys
import types
from types import SimpleNamespace

from sample_model import hand_plan

from hwgen.plan.serial import plan_to_json

NUMBER = 0x1234ABCD


def install(monkeypatch):
    """Puts the stand-ins in place; build numbers are the lengths of plans, added to NUMBER."""
    emitted = lambda plan: {  # noqa: E731
        "verilog/hwgen_core.v": f"module hwgen_core; // {plan.network.name}\nendmodule\n",
        **{f"verilog/{s.name}.v": f"module {s.name};\nendmodule\n" for s in plan.network.stages},
    }
    stand_ins = {
        "hwgen.plan.planner": {"plan_network": hand_plan},
        "hwgen.plan.describe": {"describe": lambda plan: f"plan of {plan.network.name}\n"},
        "hwgen.backend.verilog": {
            "emit": emitted,
            "emit_modules": lambda plan, kept, progress: SimpleNamespace(
                files=emitted(plan), made=1, kept=0, damaged=0
            ),
            "build_number": lambda plan: NUMBER + len(plan_to_json(plan)),
        },
        "hwgen.backend.host": {"host_files": lambda plan, kept: {"host/device.json": "{}\n"}},
    }
    for name, members in stand_ins.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
