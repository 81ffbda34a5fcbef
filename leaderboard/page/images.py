"""Images: what maps remove from a few test images, and how many networks still know them."""

from typing import Any

from leaderboard.links import Address, NotThere, Site
from leaderboard.pictures import Pictures
from leaderboard.views import SuiteView
from leaderboard.words import plain
from roarbench.analysis.shown_images import ImageAnswers, answers_of
from roarbench.estimators.naming import human_name
from roarbench.text import counted

_PAGE = 12  # rows that a static page can show; a running program has all
_LINES = {"map": "map", "own": "its own mask", "matched": "matched mask", "other": "another’s mask"}
_MASKS = {  # of the lines of a sheet, in a sentence
    ("own",): "under its own mask",
    ("own", "other"): "under its own mask and under another image’s",
    (
        "own",
        "matched",
        "other",
    ): "under its own mask, under another image’s matched to change it as much, and under that one unmatched",
}


def context(site: Site, at: Address) -> dict[str, Any]:
    """Return the fields of the page of a suite."""
    view, live = site.view(at), site.live
    found = view.pictures
    if found is None:
        raise NotThere(f"The store has no images and rankings of {plain(view.title)}.")
    order = sorted(view.board.rows, key=lambda row: row.control)
    names = [row.id for row in order if row.id in found.rows][: None if live else _PAGE]
    wanted = at.chosen("estimator") or names[0]
    if wanted not in names:
        raise NotThere(f"There are no pictures of {plain(wanted, 60)!r} in {plain(view.title)}.")
    rows = []
    for name in names:
        href = site.to("images", view.slug, estimator=name) if live else f"#row={found.rows.index(name)}"
        rows.append((name == wanted, *human_name(name), href, () if live else sheet(site, view, name)))
    href, now = sheet(site, view, wanted)
    levels = len(view.board.levels)
    name, detail = human_name(wanted)
    return {
        "view": view,
        "name": name,
        "detail": detail,
        "rows": rows,
        "sheet": href,
        "of": now.of,
        "shown": shown(found, now),
        "photos": photos(site, view),
        "masks": _MASKS[tuple(found.kinds[1:])],
        "against": _LINES[found.kinds[2]] if view.leading.against else "",
        "asks": f"{counted(now.of // levels, 'network')} at {counted(levels, 'level')}",
    }


def photos(site: Site, view: SuiteView) -> str:
    """Return the address of the sheet of a suite's images themselves."""
    assert view.pictures is not None, "asked only where there are pictures"
    return site.file(f"images-{view.slug}.webp", view.pictures.sheet(""))


def sheet(site: Site, view: SuiteView, name: str) -> tuple[str, ImageAnswers]:
    """Return the address of a row's pictures, and how many answers to each image are right."""
    found = view.pictures
    assert found is not None, "asked only where there are pictures"
    href = site.file(f"images-{view.slug}-{found.rows.index(name)}.webp", found.sheet(name))
    return href, answers_of(view.results, view.leading, view.evidence.unit, name, found.numbers)


def shown(found: Pictures, of: ImageAnswers) -> list[tuple[str, int, str, tuple[int, ...], int]]:
    """Return the lines of a row's sheet for a template: sheet, line, what it shows, right answers, of how many."""
    right = {"own": of.own, found.kinds[2] if found.kinds[2:] else "": of.against}
    return [("a", line, _LINES[kind], right.get(kind, ()), of.of) for line, kind in enumerate(found.kinds)]
