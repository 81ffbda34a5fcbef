"""The board as frozen records: one row per estimator, placed among the rows shown."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from roarbench.analysis.marks import Mark, weighs
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.terms import MASK_ONLY, SHOWN, Unit


@dataclass(frozen=True)
class BoardRow:
    """One row of the board.

    Attributes:
        estimator: Its id.
        about: What it is, in one sentence.
        family: The base that it is built on.
        control: Whether it never looks at the model.
        place: Among the rows shown; None where the gain is missing.
        gain: Under the board's protocol, in accuracy points.
        accuracies: Per level of the board, in [0, 1].
        random, sobel, blurred: Verdicts of its comparison with each control in words; empty for the control itself and
            where there is none.
        kar, unretrained: Gains under KAR and under MoRF without retraining, in accuracy points.
        other_image: Its gain minus that of its maps handed to other images, in accuracy points; missing without them.
        vs_other_image: The verdict on that in words; empty where there is none.
        flag: Why the row should be doubted; empty where nothing says so.
        sign: `†` where noisy copies change their class, `(!!)` where a mark is strong, `(!)` for any other doubt.
        marks: What speaks against the row and by how much.
        above_masks: Under ROAR, its accuracy minus that of masks alone at the highest level that has both, in [-1, 1].
        seconds: Processor seconds for the maps of 1,000 images; None where not known.
        seeds: Fewest in a cell of its curve.
        date: Day of the newest run of its curve; empty where there is none.
        status: `verified`, `trusted` or `self-reported`, see `source.status`; empty where its curve has no run.
        gap: Why there is no place; empty where there is one, and under a protocol that has none.
        entered: Whether the suite does not name it: it is placed as if it alone joined the other rows.
    """

    estimator: str
    about: str
    family: str
    control: bool
    place: Place | None
    gain: Estimate
    accuracies: tuple[Estimate, ...]
    random: str
    sobel: str
    blurred: str
    kar: Estimate
    unretrained: Estimate
    other_image: Estimate
    vs_other_image: str
    flag: str
    sign: str
    marks: tuple[Mark, ...]
    above_masks: Estimate
    seconds: float | None
    seeds: int
    date: str
    status: str
    gap: str
    entered: bool = False

    def mark(self, kind: str) -> Mark:
        """Return the mark of a kind; without share and grade where there is none."""
        return next((mark for mark in self.marks if mark.kind == kind), Mark(kind, Estimate(), None))


@dataclass(frozen=True)
class BoardTable:
    """A board as it is shown: under one protocol and unit, over some levels.

    Attributes:
        slug: Of the suite, for addresses.
        title: Suite with version.
        protocol: Name of the protocol whose gain is shown.
        unit: What one feature is.
        levels: Levels above 0 that the gain is taken over.
        caption: Of what the numbers are.
        footnote: What the intervals cover, and of what the gains of the other protocols are.
        rows: One for each estimator and control.
        whole: Number of rows before any was filtered out.
        lines: Gains of the controls that bars are compared with, filtered out or not, in accuracy points; Random's
            is 0.
    """

    slug: str
    title: str
    protocol: str
    unit: Unit
    levels: tuple[float, ...]
    caption: str
    footnote: str
    rows: tuple[BoardRow, ...]
    whole: int
    lines: dict[str, float]

    @property
    def gained(self) -> bool:
        """Return whether rows have gains and places; under mask-only they have accuracies alone."""
        return self.protocol != MASK_ONLY.name

    @property
    def marked(self) -> bool:
        """Return whether the rows' marks, which weigh gains under ROAR, say something about this board."""
        return weighs(SHOWN[self.protocol])

    @property
    def stem(self) -> str:
        """Return the name of its files, without ending."""
        return f"board-{self.slug}-{self.protocol}-{self.unit.stem}"


def with_places(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """Return these rows with their places among each other.

    Two rows are significantly different if they share no tie group. The tests hold for all pairs of the board at once,
    so also for the pairs that are left: nothing is drawn again, and no choice of rows makes a difference look surer.
    """
    shown = list(rows)
    ranked = [row for row in shown if row.place]
    own = [row for row in ranked if not row.entered] or ranked
    return [replace(row, place=_place(row, own)) if row.place else row for row in shown]


def _place(row: BoardRow, others: list[BoardRow]) -> Place:
    above = [other for other in others if _value(other) > _value(row)]
    below = [other for other in others if _value(other) < _value(row)]
    assert row.place, "only rows with a gain have a place"
    if row.place.low is None:
        return Place(1 + len(above))
    low, high = (sum(_differ(row, other) for other in side) for side in (above, below))
    return Place(1 + len(above), 1 + low, len(others) + (row not in others) - high, row.place.groups)


def _differ(one: BoardRow, other: BoardRow) -> bool:
    assert one.place and other.place, "only rows with a gain are compared"
    return not set(one.place.groups) & set(other.place.groups)


def _value(row: BoardRow) -> float:
    return -float("inf") if row.gain.value is None else row.gain.value
