"""The scatter plot of ROAR gain against own-network gain, with a dot for every row that has both gains."""

from collections.abc import Iterable
from typing import NamedTuple

from leaderboard.board_contents import Axis, make_linear_axis
from leaderboard.roar_and_own_network_board import PairedBoard
from roarbench.common.text import format_count, format_interval
from roarbench.estimators.catalogue import find_display_name
from roarbench.stats.bootstrap_intervals import Estimate

_WIDTH, _HEIGHT = 560, 330  # size of the plot area in SVG units
_LETTER, _LINE = 6.4, 13.0  # width of a letter and height of a line in labels
# vertical shifts of a label that would overlap another
_STEPS = [0.0, *(sign * _LINE * n + 7 for n in range(1, 999) for sign in (1, -1))]


class Dot(NamedTuple):
    """A dot of the plot: a row with its two gains, and the position of its label in the plot's units."""

    name: str
    control: bool
    roar: Estimate
    own: Estimate
    label: tuple[float, float] = (0.0, 0.0)


class Scatter(NamedTuple):
    """The scatter plot: the label of the horizontal axis, the dots, both scales, and a description in words."""

    x_label: str
    dots: list[Dot]
    roar: Axis
    own: Axis
    words: str
    missing: str  # sentence on the number of rows that lack one of the gains; empty if all rows have both

    def to_x(self, value: float) -> float:
        """Return the horizontal position of a ROAR gain."""
        return round(_WIDTH * self.roar.to_percent(value) / 100, 1)

    def to_y(self, value: float) -> float:
        """Return the vertical position of an own-network gain."""
        return round(_HEIGHT * (1 - self.own.to_percent(value) / 100), 1)


def make_scatter(board: PairedBoard) -> Scatter | None:
    """Build the plot of a board; None if no row has both gains."""
    retrained, (roar, own) = board.questions[0], (question.answers for question in board.questions[:2])
    dots = list[Dot]()
    for row in board.rows:
        one, other = roar.get(row.id), own.get(row.id)
        if one and other and None not in (one.gain.value, other.gain.value):
            dots.append(Dot(find_display_name(row.id).full_name, row.control, one.gain, other.gain))
    if not dots:
        return None
    values = "; ".join(f"{dot.name} {format_interval(dot.roar)} and {format_interval(dot.own)}" for dot in dots)
    missing = len(board.rows) - len(dots)
    plot = Scatter(
        retrained.title,
        dots,
        _make_axis(dot.roar for dot in dots),
        _make_axis(dot.own for dot in dots),
        f"{retrained.title} and own-network gain in points: {values}.",
        f"{format_count(missing, 'row')} with only one of the two gains {'is' if missing == 1 else 'are'} not drawn."
        * (missing > 0),
    )
    return plot._replace(dots=_place_labels(plot))


def _make_axis(gains: Iterable[Estimate]) -> Axis:
    return make_linear_axis([end for gain in gains for end in gain if end is not None])


def _place_labels(plot: Scatter) -> list[Dot]:
    """Place each label beside its dot, shifted up or down if another label is in the way."""
    dots = list[Dot]()
    for dot in sorted(plot.dots, key=lambda dot: -(dot.own.value or 0.0)):
        x, y = plot.to_x(dot.roar.value or 0.0), plot.to_y(dot.own.value or 0.0) - 6
        width = _LETTER * len(dot.name)
        x = x + 8 if x + width < _WIDTH else x - 8 - width
        taken = [(*other.label, _LETTER * len(other.name)) for other in dots]
        beside = [top - y for left, top, wide in taken if left < x + width and x < left + wide]
        y += next(step for step in _STEPS if all(abs(other - step) >= _LINE for other in beside))
        dots.append(dot._replace(label=(round(x, 1), round(y, 1))))
    return dots
