"""From a function or a class of Python to the file of a submission. Nothing here imports torch.

The file's hash is the identity of the row: a function that changed, or that uses another value, is another row.
"""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roarbench.api.source_text import Written
from roarbench.errors import CallerError
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.files import write_new
from roarbench.submissions.file import Submission, check_source
from roarbench.text import fit_on_one_line

_LONGEST = 300  # letters of a description
_PLAIN = '''\
class estimator:
    """Called as captum's are; the function gets plain tensors, and may return an array."""

    def __init__(self, model):
        self.model = model

    def attribute(self, inputs, target):
        return torch.as_tensor({call}(self.model, inputs.detach(), target), dtype=torch.float32, device=inputs.device)
'''
_WAYS = {  # by the number of arguments that have no default
    1: "estimator = {call}\n",  # captum's: of the model
    3: _PLAIN,
    4: "estimate = {call}\n",  # that of submissions: with a generator
}


def write_submission(given: Callable[..., Any], name: str = "", folder: str | Path = ".") -> Path:
    """Write the file of a submission, whose row is made in the sandbox: `roarbench run --submission FILE`.

    Args:
        given: A function of (model, inputs, targets), a class of captum, or what Quantus calls; see `evaluate`.
        name: Of the row; that of the function if empty.
        folder: Where the file goes.

    Returns:
        The file.

    Raises:
        CallerError: The file is there already with other content, or the function cannot stand in a file.
    """
    made = make_submission(name or getattr(given, "__name__", ""), given)
    path = Path(folder) / f"{made.name.replace('-', '_')}.py"
    if not path.exists() or path.read_bytes() != made.source:
        write_new(path, lambda temporary: temporary.write_bytes(made.source))
    return path


def make_submission(name: str, given: Callable[..., Any]) -> Submission:
    """Return a function or a class as a submission; CallerError if it cannot stand in a file or be called."""
    name = make_row_name(name)
    written = Written()
    call = written.expression(given, "explained_by")
    about = fit_on_one_line((inspect.getdoc(given) or "").partition("\n\n")[0]) or f"{call}, called from Python"
    head = f"NAME = {json.dumps(name)}\nDESCRIPTION = {json.dumps(about[:_LONGEST])}\n"
    statements = {"torch": "import torch"} | written.statements
    imports = [text for text in statements.values() if text.startswith(("import ", "from "))]
    others = [text for text in statements.values() if text not in imports]
    imports.sort(key=lambda text: (text.startswith("from "), text))
    parts = ["\n".join(imports), head, *others, _way(name, given).format(call=call)]
    return check_source("\n\n".join(parts).encode())


def make_row_name(name: str) -> str:
    """Return the name of a submission that is nearest to a name in Python; one that is taken gets `own-` before it."""
    found = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:36]
    if not found:
        raise CallerError(f"'{name}' cannot be the name of a row; write letters and digits")
    return f"own-{found}" if found in ESTIMATORS else found


def _way(name: str, given: Callable[..., Any]) -> str:
    """Return how a file calls an object, by the convention that its arguments tell."""
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):
        signature = inspect.Signature()
    held = signature.parameters.values()
    if isinstance(given, type) and hasattr(given, "attribute"):
        return _WAYS[1]
    if any(one.kind is one.VAR_KEYWORD for one in held):
        return "explain_func = {call}\n"
    plain = [one for one in held if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in plain)
    if needed not in _WAYS:
        seen = f"{name}{signature} has {needed} arguments without a default"
        raise CallerError(f"{seen}; expected (model, inputs, targets), or a class of captum")
    return _WAYS[needed]
