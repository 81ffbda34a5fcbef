"""The toy's numbers as text and as JSON."""

import json
from dataclasses import asdict

from toy.linear import ToyCurve, ToyResult

COLUMN = 15  # characters


def to_text(result: ToyResult) -> str:
    """Write a table: one row per level, one column per curve, mean accuracy in percent with its standard error."""
    spread = "" if result.draws == 1 else " +- its standard error"
    second = ["retrained" if curve.retrain else "not retrained" for curve in result.curves]
    lines = [
        f"Test accuracy in percent, mean of {result.draws} draws{spread}; seed {result.seed}",
        _row("ranking", [curve.ranking for curve in result.curves]),
        _row("t", second),
    ]
    lines += [_row(f"{t:.4f}", [_cell(curve, k) for curve in result.curves]) for k, t in enumerate(result.levels)]
    return "\n".join(lines)


def _row(first: str, cells: list[str]) -> str:
    return f"{first:>7}" + "".join(cell.rjust(COLUMN) for cell in cells)


def _cell(curve: ToyCurve, k: int) -> str:
    value = f"{100 * curve.accuracy[k]:.1f}"
    return value if curve.error is None else f"{value} +- {100 * curve.error[k]:.1f}"


def to_json(result: ToyResult) -> str:
    """Return the whole record; accuracies are fractions, the error of a single draw is null."""
    return json.dumps(asdict(result), indent=2)
