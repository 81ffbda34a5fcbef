"""A short form of a suite beside the suite that it shortens: what each step of shortening saves."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from roarbench.forecast.rates import Rates
from roarbench.forecast.workload import Work, count_work
from roarbench.plan.points import expand_points
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import FAST, find_suite

_DAY = 86400  # seconds


class Design(NamedTuple):
    """Work of a suite, and the step that made it shorter than the one before."""

    step: str
    trainings: int
    seconds: float  # of the device

    def record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"step": self.step, "trainings": self.trainings, "days": self.seconds / _DAY}


def list_designs(suite: SuiteSpec, rates: Rates, wall: Callable[[Work, Rates], float]) -> list[Design]:
    """Return the suite that this one shortens, and each step to this one, cumulative; nothing for any other suite.

    `rates` are this suite's; images of a recipe with other sizes take as much longer as they have more pixels. `wall`
    says the seconds from start to end.
    """
    if suite.name not in FAST:
        return []
    found = []
    for step, part in _steps(find_suite(FAST[suite.name].of), suite):
        work = count_work(part, expand_points(part))
        size = part.recipe_record.area / suite.recipe_record.area
        found.append(Design(step, work.trainings, wall(work, replace(rates, train=rates.train * size))))
    return found


def format_designs(designs: list[Design], device: str) -> Iterator[str]:
    """Yield a table of designs for a terminal, with a heading line; nothing where there is none."""
    if designs:
        rows = [["step, cumulative", "trainings", f"days of {device}"]]
        rows += [[each.step, f"{each.trainings:,}", f"{each.seconds / _DAY:,.1f}"] for each in designs]
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        yield "  the same question, shorter step by step:"
        for step, *numbers in rows:
            right = "".join(f"  {number:>{width}}" for number, width in zip(numbers, widths, strict=True))
            yield f"    {step:<{first}}{right}"


def _steps(long: SuiteSpec, short: SuiteSpec) -> Iterator[tuple[str, SuiteSpec]]:
    """Yield suites from the long one to the short one, each with one more of the short one's choices."""
    yield long.title, long
    part = replace(long, recipe=short.recipe)
    recipe = short.recipe_record
    yield f"short recipe ({recipe.epochs:g} epochs instead of {long.recipe_record.epochs:.0f})", part
    if short.references != long.references:
        part = replace(part, references=short.references)
        yield f"{short.references} explained network instead of {long.references}", part
    kept = {block.protocol for block in short.blocks}
    if kept != {block.protocol for block in part.blocks}:
        left = dict.fromkeys(block.protocol.title for block in part.blocks if block.protocol not in kept)
        part = replace(part, blocks=tuple(block for block in part.blocks if block.protocol in kept))
        yield f"without {', '.join(left)}", part
    if len(short.blocks) == 1:
        (model,) = short.blocks
        for words, changed in (
            (f"{model.seeds} seeds", {"seeds": model.seeds}),
            (f"levels {', '.join(f'{t:g}' for t in model.levels)}", {"levels": model.levels}),
        ):
            blocks = tuple(replace(block, **changed) for block in part.blocks)
            if blocks != part.blocks:
                part = replace(part, blocks=blocks)
                yield words, part
    if part.blocks != short.blocks or part.maps != short.maps:
        yield f"{len(short.estimators)} rows, maps in {short.maps}: {short.title}", short
