"""The page of one estimator, and the page of images, which shows test images after removal."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from leaderboard.board_contents import BoardContents, BoardRow
from leaderboard.figures import EstimatorCurves, make_estimator_curves
from leaderboard.links import Address, PageNotFound, Site, read_choice
from leaderboard.page.board import find_board_address
from leaderboard.pictures import (
    CorrectCountsPerImage,
    Pictures,
    count_correct_per_image_over_all_levels,
    find_pictured_protocol,
)
from leaderboard.suite_view import SuiteView, sort_for_display
from leaderboard.text_helpers import format_day, shorten_line
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import (
    describe_control_use_of_network,
    find_display_name,
    find_estimator_or_placeholder,
)
from roarbench.estimators.ids import TRUSTED
from roarbench.report.descriptions_and_repeat_commands import collect_papers_and_settings, make_repeat_command

_FIGURES, _PICTURES = 3, 6  # maximum figures of curves on a page, and maximum images per sheet
RowOnBoard = tuple[SuiteView, BoardContents, BoardRow]
_LINES = {
    "map": "map",
    "own": "its own mask",
    "matched": "matched mask",
    "other": "another’s mask",
    "sibling": "another network’s mask",
}
_MASKS = {  # from the lines of a sheet, without the map, to their description in a sentence
    ("own",): "under its own mask",
    ("own", "sibling"): "under its own mask and under that of another network’s map",
    ("own", "matched", "other"): "under its own mask, under another image’s mask matched to change it as much, "
    "and under that mask unmatched",
}


def build_estimator_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of an estimator's page."""
    name = address.get_choice("estimator")
    views = sort_for_display(view for view in site.views.values() if name in view.rows)
    if not views:
        raise PageNotFound(f"There is no estimator {shorten_line(name, 60)!r} here.")
    boards = list[RowOnBoard]()
    for view in views:  # the boards of headline protocols that have the row; if there are none, all that have the row
        leading = [board for board in view.headline_boards if name in board.rows_by_id]
        others = (board for board in map(view.get_board, view.protocols) if name in board.rows_by_id)
        boards += [(view, board, board.rows_by_id[name]) for board in leading or others]
    view, _, row = next((entry for entry in boards if entry[2].value.value is not None), boards[0])
    against = (  # the row's comparison with each control, worst first, on each board with verdicts
        (view.title, board, sorted(row.beating.against.items(), key=lambda item: item[1].difference.value or 0.0))
        for view, board, row in boards
        if row.beating
    )
    runs, marks = view.results.by_estimator.get(name, ()), find_estimator_or_placeholder(name).parsed_id.marks
    # a store cannot know more: `scripts/make_demo.py` deletes records of imports
    origin = "trusted, " if TRUSTED in marks else "self-reported, " if name in view.results.doubts else ""
    commands = defaultdict[str, list[str]](list)
    for other in views:
        commands[make_repeat_command(other.results, name)].append(other.title)
    return {
        "row": row,
        "about": collect_papers_and_settings(name, (view.results for view in views)),
        "origin": f"{origin}computed {format_day(max(result.created for _, result in runs))}" if runs else "",
        "use": describe_control_use_of_network(name) if row.control else "",
        "passes": list_passes([view.results for view in views], name),
        "verdicts": [
            (site.get_link(find_board_address(view, board.protocol)), view.title, row, board)
            for view, board, row in boards
        ],
        "against": next(against, None),
        "figures": list(islice(list_curves(views, name), _FIGURES)),
        "pictures": add_pictures_of_estimator(site, views, name),
        "doubts": collect_doubts(boards),
        "commands": commands,
        "compare": site.get_page_link("compare", view.slug),
    }


def list_passes(suites: Iterable[SuiteResults], name: str) -> list[float]:
    """Return a row's different numbers of passes in suites, ascending; empty if unknown."""
    return sorted({sum(passes) for suite in suites if (passes := suite.find_passes(name)) is not None})


def list_curves(views: Iterable[SuiteView], name: str) -> Iterator[tuple[str, EstimatorCurves]]:
    """Yield the estimator's curves with their titles, in the order of `views`; a curve of two suites comes once."""
    shown = []
    for view in views:
        for protocol in view.protocols:
            if drawn := make_estimator_curves(view.table(protocol), name):
                own = protocol, [(t, at.value) for t, at in drawn.curves[-1]]
                if own not in shown:
                    shown.append(own)
                    yield f"{view.title}: {view.get_tab_label(protocol)}", drawn


def add_pictures_of_estimator(site: Site, views: Iterable[SuiteView], name: str) -> list[tuple[Any, ...]]:
    """Add an estimator's sheets; return suite, arguments of the macro `pictures` and a link for each data set.

    If several suites have the same images, the pictures come from the suite with pictures of the most rows.
    """
    by_images = dict[str, tuple[SuiteView, Pictures]]()
    for view in views:
        if (available := view.pictures) and name in available.rows:
            best = by_images.get(view.results.data)
            if best is None or len(available.rows) > len(best[1].rows):
                by_images[view.results.data] = view, available
    shown = list[tuple[Any, ...]]()
    for view, pictures in by_images.values():
        sheet, counts = add_sheet_of_row(site, view, name)
        originals = site.add_file(f"images-{view.slug}.webp", partial(pictures.sheet, ""))
        positions, lines = choose_evenly_spaced_images(len(pictures.numbers)), list_sheet_lines(pictures, counts)
        arguments = (pictures, originals, sheet, positions, lines)
        shown.append((view.title, arguments, site.get_page_link("images", view.slug)))
    return shown


def choose_evenly_spaced_images(images: int) -> list[int]:
    """Return the positions of at most six of `images` images, at equal distances."""
    count = min(_PICTURES, images)
    return [i * images // count for i in range(count)]


def collect_doubts(boards: Iterable[RowOnBoard]) -> list[tuple[str, bool, list[str]]]:
    """Return each doubt about a row once: its sentence, whether it is grave on any board, and the boards' names.

    If a sentence is the beginning of an earlier one, the two count as the same doubt.
    """
    boards_by_sentence, grave = defaultdict[str, list[str]](list), set[str]()
    for view, board, row in boards:
        for doubt in row.doubts:
            longer = (known for known in boards_by_sentence if known.startswith(doubt.sentence))
            sentence = next(longer, doubt.sentence)
            boards_by_sentence[sentence].append(f"{view.title}, {board.tab_label}")
            grave |= {sentence} if doubt.grave else set()
    return [(sentence, sentence in grave, names) for sentence, names in boards_by_sentence.items()]


def build_images_context(site: Site, address: Address) -> dict[str, Any]:
    """Return the template fields of a suite's page."""
    view, live = site.find_view(address), site.live
    pictures = view.pictures
    if pictures is None:
        raise PageNotFound(f"The store has no images and rankings of {view.title}.")
    ids = [row.id for row in (view.combined_board or view.board).rows if row.id in pictures.rows]
    names = sorted(ids, key=lambda name: find_estimator_or_placeholder(name).is_control_or_search)
    shown = read_choice(view, address, "estimator", names)
    rows = []
    for name in names:
        href = site.get_page_link("images", view.slug, estimator=name) if live else f"#row={pictures.rows.index(name)}"
        sheet = () if live else add_sheet_of_row(site, view, name)
        rows.append((name == shown, *find_display_name(name), href, sheet))
    href, counts = add_sheet_of_row(site, view, shown)
    protocol = find_pictured_protocol(view.results)
    levels = len(view.get_board(protocol).levels)
    name, detail = find_display_name(shown)
    return {
        "view": view,
        "name": name,
        "detail": detail,
        "rows": rows,
        "sheet": href,
        "of": counts.of,
        "shown": list_sheet_lines(pictures, counts),
        "photos": site.add_file(f"images-{view.slug}.webp", partial(pictures.sheet, "")),
        "masks": _MASKS[tuple(pictures.kinds[1:])],
        "tab": protocol.title,
        "against": _LINES[pictures.kinds[2]] if pictures.kinds[2:] else "",
        "kept": counts.word,
        "claim": "explains its network" if protocol.scores_all_network_pairs else "follows the image",
        "asks": f"{format_count(counts.of // levels, 'network')} at {format_count(levels, 'level')}",
    }


def add_sheet_of_row(site: Site, view: SuiteView, name: str) -> tuple[str, CorrectCountsPerImage]:
    """Add a row's sheet to the site; return the sheet's address, and the number of correct predictions per image."""
    pictures = view.pictures
    assert pictures is not None, "the caller has checked that there are pictures"
    href = site.add_file(f"images-{view.slug}-{pictures.rows.index(name)}.webp", partial(pictures.sheet, name))
    protocol = find_pictured_protocol(view.results)
    return href, count_correct_per_image_over_all_levels(
        view.results, protocol, view.results.list_units(protocol)[0], name, pictures.numbers
    )


def list_sheet_lines(pictures: Pictures, counts: CorrectCountsPerImage) -> list[tuple[int, str, tuple[int, ...], str]]:
    """Return number, label, counts and total, such as `of 9 right`, of each line of a row's sheet, for a template."""
    right = {"own": counts.own, pictures.kinds[2] if pictures.kinds[2:] else "": counts.against}
    total = f"of {counts.of} {counts.word}"
    return [(line, _LINES[kind], right.get(kind, ()), total) for line, kind in enumerate(pictures.kinds)]
