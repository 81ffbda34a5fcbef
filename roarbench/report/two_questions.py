"""One table for two questions: do features matter in the data (ROAR), does a map explain its network (own-network)?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.analysis.boards import SuiteResults
from roarbench.estimators.catalogue import find_estimator, shown_name
from roarbench.plan.suite import Suite
from roarbench.protocols.own_network import OWN_NETWORK
from roarbench.protocols.roar import ROAR
from roarbench.report.table import SuiteTable, suite_table
from roarbench.stats.board import RANDOM, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.own_network import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict
from roarbench.text import MISSING, SAME, interval, markdown_table

HEADINGS = ("estimator", "ROAR gain [95%]", "Random", "own-network gain", "explains?")
NOT_RUN = "not run"  # the suite does not ask for it; a dash is a result that is missing
_SHORT = {  # answers to "does the map explain its network?"
    OwnNetworkVerdict.EXPLAINS: "yes",
    OwnNetworkVerdict.OPEN: "not shown",
    OwnNetworkVerdict.OPPOSES: "opposes it",
}


@dataclass(frozen=True)
class TwoQuestions:
    """Tables of ROAR and of own-network gain for the same suite, side by side."""

    roar: SuiteTable
    own: SuiteTable

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each estimator: by own-network gain, then the controls by ROAR gain."""
        roar, own = ({row.estimator: row for row in table.rows} for table in (self.roar, self.own))
        names = dict.fromkeys((*own, *roar))

        def key(name: str) -> tuple[bool, float]:
            control = find_estimator(name).control
            row = (roar if control else own).get(name)
            value = row.gain.value if row else None
            return control, -(float("-inf") if value is None else value)

        return [self._cells(name, roar.get(name), own.get(name)) for name in sorted(names, key=key)]

    def _cells(self, name: str, roar: Row | None, own: Row | None) -> tuple[str, ...]:
        return (shown_name(name), *self._roar_cells(name, roar), *_own_cells(own))

    def _roar_cells(self, name: str, row: Row | None) -> tuple[str, str]:
        if row is None:
            return NOT_RUN, ""
        if name == RANDOM:
            return interval((row.gain.value, None, None)), "control"
        verdict = MISSING if row.random is None else row.random.verdict.replace(Verdict.SAME, SAME)
        return interval(row.gain), verdict

    @property
    def pictures(self) -> dict[str, dict[str, Estimate]]:
        """Return the gains of each question by its name, in the order of the rows."""
        names = [cells[0] for cells in self.rows]
        panels = {"ROAR gain, points": self.roar, "own-network gain, points": self.own}
        gains = {label: {shown_name(row.estimator): row.gain for row in table.rows} for label, table in panels.items()}
        return {label: {name: found.get(name, Estimate()) for name in names} for label, found in gains.items()}

    @property
    def notes(self) -> tuple[str, str, str]:
        """Return three lines: what each gain is, what the intervals cover, and where the rest stands."""
        retrained, scored = (", ".join(f"{t:g}" for t in table.board.levels) for table in (self.roar, self.own))
        return (
            f"ROAR gain: accuracy lost beyond Random's after retraining, t = {retrained}.",
            f"Own-network gain: predictions lost under own maps beyond others', t = {scored}.",
            f"95% intervals over images, networks and seeds; {SAME} not significant; more: --notes.",
        )


def _own_cells(row: Row | None) -> tuple[str, str]:
    if row is None:
        return NOT_RUN, ""
    if row.network is None:
        return interval(row.gain), MISSING
    if row.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION:
        return str(row.network.verdict), ""
    return interval(row.gain), _SHORT[row.network.verdict]


def asks_two_questions(suite: Suite) -> bool:
    """Return whether a suite leads with ROAR and own-network gain."""
    return tuple(dict.fromkeys(block.protocol for block in suite.blocks))[:2] == (ROAR, OWN_NETWORK)


def two_questions(results: SuiteResults, rows: Sequence[str] | None = None) -> TwoQuestions:
    """Read both tables; CallerError where one of them has none of these rows."""
    return TwoQuestions(*(suite_table(results, protocol.name, None, rows) for protocol in (ROAR, OWN_NETWORK)))


def as_text(table: TwoQuestions) -> Table:
    """Return the table for a terminal."""
    shown = Table(
        title=table.roar.suite_results.title,
        caption="\n".join(table.notes),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
    )
    for heading in HEADINGS:
        shown.add_column(heading, justify="right" if "gain" in heading else "left", no_wrap=True)
    for cells in table.rows:
        shown.add_row(*cells, style="dim" if find_estimator(cells[0]).control else "")
    return shown


def as_markdown(table: TwoQuestions) -> str:
    """Return the table in Markdown, with its title and its notes."""
    return "\n\n".join((f"**{table.roar.suite_results.title}**", rows_in_markdown(table.rows), *table.notes))


def rows_in_markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table, names as code."""
    return markdown_table(HEADINGS, [(f"`{name}`", *cells) for name, *cells in rows])
