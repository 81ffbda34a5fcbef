"""The overview page, a table of verdicts with a row per estimator and columns per suite, without averages of gains."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from leaderboard.board_contents import BEATS, CONTROL, OPEN, BoardContents, BoardRow, find_kinds
from leaderboard.links import Address, Site, make_address
from leaderboard.page.board import find_board_address
from leaderboard.suite_view import SuiteView, sort_for_display
from leaderboard.text_helpers import shorten_line
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.plan.cells_and_runs import Run

_SHOWN = 9  # visible columns per kind of data: three questions of three suites; further columns are under "more"


class QuestionColumn(NamedTuple):
    """A column of the table: a board of a suite, with its address."""

    href: str
    suite: str
    board: BoardContents
    later: bool  # whether the column comes after the columns of ROAR and own-network gain of all suites


def build_overview_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of the page: advice on choosing an estimator, and verdicts by kind of data."""
    columns_by_data = defaultdict[str, list[QuestionColumn]](list)
    views = sort_for_display(_drop_repeated_suites(site.views.values()))
    for view in views:
        kind, title, both = _find_kind_of_data(view), shorten_line(view.title, 44), view.combined_board
        # a column for each question of the board of all gains; without it, a column for the suite's first board
        address = make_address("board", view.slug) if both else find_board_address(view, view.board.protocol)
        for number, board in enumerate(both.boards if both else (view.board,)):
            if any(row.value.value is not None for row in board.rows):
                later = not both or number > 1
                columns_by_data[kind].append(QuestionColumn(site.get_link(address), title, board, later))
    tables = []
    meanings, present = dict[str, Mapping[str, str]](), defaultdict[str, set[str]](set)
    for data, unsorted in columns_by_data.items():
        columns = sorted(unsorted, key=lambda column: column.later)
        tables.append((data, False, columns[:_SHOWN], _list_estimators_with_verdicts(columns[:_SHOWN])))
        if more := columns[_SHOWN:]:
            tables.append((f"{data}: {len(more)} more", True, more, _list_estimators_with_verdicts(more)))
        for board in (column.board for column in unsorted):
            meanings[board.legend_title] = find_kinds(board.protocol)
            present[board.legend_title] |= {row.colour_class for row in board.rows if row.value.value is not None}
    titles_by_items = defaultdict[tuple[tuple[str, str], ...], list[str]](list)  # equal meanings share an entry
    for title, kinds in meanings.items():
        titles_by_items[tuple(item for item in kinds.items() if item[0] in present[title])].append(title)
    advices = [advice for view in views if (advice := view.advice)]
    return {
        "tables": tables,
        "legend": [(", ".join(titles), items) for items, titles in titles_by_items.items()],
        "advice": [advice for advice in advices if advice.front],
        "unadvised": [advice for advice in advices if not advice.front],
    }


def _drop_repeated_suites(views: Iterable[SuiteView]) -> Iterator[SuiteView]:
    """Yield the suites except those that another suite on the same images and network repeats.

    A suite that leads with ROAR and own-network gain is repeated by such a suite with more rows; any other suite is
    repeated by such a suite that contains all its runs.
    """

    def count_own_rows(view: SuiteView) -> int:
        return sum(not row.added for row in view.combined_board.rows) if view.combined_board else 0

    def collect_runs(view: SuiteView) -> set[Run]:
        return {result.run for result in view.results.results.values()}

    for view in views:
        rivals = [other for other in view.suites_on_same_images_and_network if other.combined_board]
        if view.combined_board:
            repeated = any(count_own_rows(other) > count_own_rows(view) for other in rivals)
        else:
            repeated = any(collect_runs(view) <= collect_runs(other) for other in rivals)
        if not repeated:
            yield view


def _find_kind_of_data(view: SuiteView) -> str:
    record = view.results.suite.dataset_record
    if record.tabular:
        return "Tables"
    return "Known truth" if record.generated else "Images"


def _list_estimators_with_verdicts(
    columns: list[QuestionColumn],
) -> list[tuple[str, str, str, bool, list[BoardRow | None]]]:
    """Return the rows with a value, the most successful first: id, name, detail, whether a control, and answers."""
    complete = [{row.id: row for row in column.board.rows if row.value.value is not None} for column in columns]
    names = dict.fromkeys(name for answers in complete for name in answers)
    rows = {name: [answers.get(name) for answers in complete] for name in names}
    control = {name: find_estimator_or_placeholder(name).has_control_verdict for name in names}

    def make_sort_key(name: str) -> list[int]:
        kinds = [answer.colour_class for answer in rows[name] if answer]
        return [control[name], *(-kinds.count(kind) for kind in (BEATS, OPEN, CONTROL))]

    return [(name, *find_display_name(name), control[name], rows[name]) for name in sorted(names, key=make_sort_key)]
