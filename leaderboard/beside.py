"""Of what the columns are that stand beside a board's own gain: their levels and seeds are not always its own."""

from collections import Counter

from leaderboard.source import main_rows, units
from roarbench.analysis.boards import SuiteResults
from roarbench.terms import KAR, MORF, Protocol, Retrain, Unit

_COLUMNS = {"KAR gain": KAR, "No-retrain gain": MORF}


def beside(held: SuiteResults, unit: Unit, levels: tuple[float, ...]) -> str:
    """Levels and seeds of the gains under KAR and without retraining, on a board of this unit and these levels.

    A protocol that has none of the levels is shown over all that it has, as `tables.judge` does it.
    """
    parts = [
        f"{heading}: {_levels_and_seeds(held, protocol, unit, levels)}."
        for heading, protocol in _COLUMNS.items()
        if unit in units(held, protocol)
    ]
    return " ".join(parts)


def _levels_and_seeds(held: SuiteResults, protocol: Protocol, unit: Unit, levels: tuple[float, ...]) -> str:
    kind, rows = (protocol.order, protocol.retrain, unit, "mean"), set(main_rows(held))
    cells = [point.cell for point in held.results]
    found = [cell for cell in cells if (cell.order, cell.retrain, cell.unit, cell.fill) == kind]
    blocks = [block for block in held.suite.blocks if (block.protocol, block.unit, block.fill) == (protocol, *kind[2:])]
    has = sorted({t for block in blocks for t in block.levels})
    kept = [t for t in has if t in levels] or has
    counts = Counter((cell.estimator, cell.t) for cell in found if cell.estimator in rows and cell.t in kept)
    text = f"levels {', '.join(f'{t:g}' for t in kept)}"
    if protocol.retrain is Retrain.NONE:
        return f"{text}, the reference as it is"
    seeds = " or ".join(map(str, sorted(set(counts.values())))) or "no"
    return f"{text}, {seeds} seed{'' if seeds == '1' else 's'}"
