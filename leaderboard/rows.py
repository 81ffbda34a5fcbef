"""The board as frozen records: one row per estimator."""

from dataclasses import dataclass

from roarbench.analysis.marks import Mark, weighs
from roarbench.protocols import SHOWN
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.stats.beating import Beating
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.terms import Unit

BEATS, BELOW, NEITHER = "beats all controls", "below a control", "neither"


@dataclass(frozen=True)
class BoardRow:
    """One row of the board.

    Attributes:
        estimator: Its id.
        about: What it is, in one sentence.
        family: The base that it is built on.
        control: Whether it never looks at the model.
        place: Among all rows of the board; None where the gain is missing.
        gain: Under the board's protocol, in accuracy points.
        beating: Beside every control that asks no network; None of a control and where there is no verdict.
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
    """

    estimator: str
    about: str
    family: str
    control: bool
    place: Place | None
    gain: Estimate
    beating: Beating | None
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

    @property
    def beats(self) -> str:
        """Return whether it beats every control in a few signs; empty where that is not known."""
        return self.beating.words if self.beating else "control" * self.control

    @property
    def kind(self) -> str:
        """Return what it is coloured by: success is to beat every control, not one of them."""
        if self.control or not self.beating:
            return "control" if self.control else NEITHER
        return BEATS if self.beating.verdict else BELOW if self.beating.below else NEITHER

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
        headline: How many estimators beat every control, in a sentence; empty where that is not known.
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
    headline: str
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
