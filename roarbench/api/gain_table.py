"""Tables of gains as a terminal, a notebook and a picture show them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from roarbench.stats.bootstrap import Estimate

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class GainTable(ABC):
    """Gains of several estimators with their intervals."""

    @abstractmethod
    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each estimator."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """Say what was measured, and what the intervals cover."""

    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the table as text, headings first."""

    @abstractmethod
    def bars(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Return gains by the label of their panel and by estimator."""

    def __repr__(self) -> str:
        cells = self.cells()
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(map(str.ljust, row, wide)).rstrip() for row in cells)
        return "\n".join([*lines, self.caption])

    def _repr_html_(self) -> str:
        import pandas

        heads, *rows = self.cells()
        text = escape(self.caption).replace("\n", "<br>")
        return f"{pandas.DataFrame(rows, columns=heads).to_html(index=False)}<p>{text}</p>"

    def plot(self, file: str | Path | None = None) -> "Figure":
        """Draw the gains with their intervals; also into a file, PNG, SVG or PDF by its ending."""
        from roarbench.report.figures import save_figure
        from roarbench.report.gain_bars import draw_gains

        figure = draw_gains(self.bars())
        if file is not None:
            save_figure(figure, Path(file))
        return figure
