"""Store the training speeds that `doctor --suite` measures, for each network and mode of torch's compiler, in a file.

Nothing here imports torch.
"""

import json
from collections.abc import Mapping

from roarbench.common.files import convert_write_errors, lock_file, write_atomically
from roarbench.plan.suite import SuiteSpec
from roarbench.store.workspace import Workspace

UNCOMPILED, COMPILED, GRAPHS = "uncompiled", "compiled", "CUDA graphs"
_FILE = "training-modes.json"
_PAYS = 1.1  # minimum speed-up that is worth the minutes of compiling

Speeds = Mapping[str, float | str]  # from each mode to images per second, or to the reason why the mode fails


def store_training_speeds(workspace: Workspace, suite: SuiteSpec, device: str, speeds: Speeds) -> None:
    """Store the training speeds of a suite's network on a device, and replace earlier speeds."""
    path = workspace.root / _FILE
    with lock_file(workspace.root / ".training-modes.lock"), convert_write_errors(path):
        known = _read_speeds(workspace) | {_make_network_key(suite): {"device": device, **speeds}}
        write_atomically(path, lambda temporary: temporary.write_text(json.dumps(known, indent=1)))


def suggest_compiling(workspace: Workspace, suite: SuiteSpec) -> str:
    """Return a message if compiling made the training of a suite's network faster when measured; else return ""."""
    speeds = _read_speeds(workspace).get(_make_network_key(suite), {})
    plain, compiled = speeds.get(UNCOMPILED), speeds.get(COMPILED)
    if not (isinstance(plain, float) and isinstance(compiled, float) and compiled >= _PAYS * plain):
        return ""
    seen = f"{compiled:,.0f} images/s instead of {plain:,.0f} on {speeds['device']}"
    return f"compiling {_make_network_key(suite)}, because doctor measured {seen}"


def _make_network_key(suite: SuiteSpec) -> str:
    return f"{suite.model} at {suite.dataset_record.size} pixels by {suite.recipe}"


def _read_speeds(workspace: Workspace) -> dict[str, dict[str, float | str]]:
    """Return all stored speeds; there are none if the file is missing or damaged, which only affects running time."""
    try:
        known = json.loads((workspace.root / _FILE).read_text())
        return {name: dict(speeds) for name, speeds in dict(known).items()}
    except (OSError, ValueError, TypeError):
        return {}
