"""The images page, with test images after removal, and the number of networks that still classify them correctly."""

from functools import partial
from typing import Any

from leaderboard.links import Address, PageNotFound, Site, read_choice
from leaderboard.pictures import (
    CorrectCountsPerImage,
    Pictures,
    count_correct_per_image_over_all_levels,
    find_pictured_protocol,
)
from leaderboard.suite_view import SuiteView
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder

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


def build_context(site: Site, address: Address) -> dict[str, Any]:
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
        "photos": add_sheet_of_originals(site, view),
        "masks": _MASKS[tuple(pictures.kinds[1:])],
        "tab": protocol.title,
        "against": _LINES[pictures.kinds[2]] if pictures.kinds[2:] else "",
        "kept": counts.word,
        "claim": "explains its network" if protocol.scores_all_network_pairs else "follows the image",
        "asks": f"{format_count(counts.of // levels, 'network')} at {format_count(levels, 'level')}",
    }


def add_sheet_of_originals(site: Site, view: SuiteView) -> str:
    """Add the sheet of a suite's original images to the site, and return the sheet's address."""
    assert view.pictures is not None, "the caller has checked that there are pictures"
    return site.add_file(f"images-{view.slug}.webp", partial(view.pictures.sheet, ""))


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
