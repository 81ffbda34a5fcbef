"""Images: what maps remove from a few test images, and how many networks still know them."""

from typing import Any

from leaderboard.links import Address, NotThere, Site
from leaderboard.pictures import Pictures
from leaderboard.views import SuiteView
from leaderboard.words import plain
from roarbench.analysis.shown_images import ImageAnswers, answers_of, pictured_protocol
from roarbench.estimators.naming import human_name, lookup_estimator
from roarbench.text import counted

_PAGE = 16  # rows that a static page can show; a running program has all
_LINES = {
    "map": "map",
    "own": "its own mask",
    "matched": "matched mask",
    "other": "another’s mask",
    "sibling": "another network’s mask",
}
_MASKS = {  # of the lines of a sheet, in a sentence
    ("own",): "under its own mask",
    ("own", "sibling"): "under its own mask and under that of another network’s map",
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
    there = [row.id for row in (view.paired or view.board).rows if row.id in found.rows]
    names = sorted(there, key=lambda name: lookup_estimator(name).control)[: None if live else _PAGE]
    wanted = at.chosen("estimator") or names[0]
    if wanted not in names:
        raise NotThere(f"There are no pictures of {plain(wanted, 60)!r} in {plain(view.title)}.")
    rows = []
    for name in names:
        href = site.to("images", view.slug, estimator=name) if live else f"#row={found.rows.index(name)}"
        rows.append((name == wanted, *human_name(name), href, () if live else sheet(site, view, name)))
    href, now = sheet(site, view, wanted)
    protocol = pictured_protocol(view.results)
    levels = len(view.board_of(protocol).levels)
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
        "tab": protocol.tab,
        "against": _LINES[found.kinds[2]] if found.kinds[2:] else "",
        "kept": now.word,
        "knows": "explains its network" if protocol.by_networks else "knows the image",
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
    protocol = pictured_protocol(view.results)
    return href, answers_of(view.results, protocol, view.results.units(protocol)[0], name, found.numbers)


def of_how_many(answers: ImageAnswers) -> str:
    """Return what stands after a count: `of 9 right`."""
    return f"of {answers.of} {answers.word}"


def shown(found: Pictures, of: ImageAnswers) -> list[tuple[str, int, str, tuple[int, ...], str]]:
    """Return the lines of a row's sheet for a template: sheet, line, what it shows, counts, and of how many."""
    right = {"own": of.own, found.kinds[2] if found.kinds[2:] else "": of.against}
    return [("a", line, _LINES[kind], right.get(kind, ()), of_how_many(of)) for line, kind in enumerate(found.kinds)]
