"""Write the static site: every page a file of its own, read with or without scripts, from a server or from disk."""

from pathlib import Path

from leaderboard.links import Asked, StaticLinks, file_name
from leaderboard.render import TEMPLATES, known, message, render
from leaderboard.views import Views
from roarbench.errors import CallerError

ASSETS = ("board.css", "board.js")


def export(views: Views, folder: Path) -> int:
    """Write all pages; files of other names in the folder stay.

    Returns:
        The number of pages.

    Raises:
        CallerError: The folder cannot be written.
    """
    pages = known(views)
    links = StaticLinks(pages)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not views:
            (folder / "index.html").write_text(message("No results yet.", links).html, encoding="utf-8")
        for at in pages:
            html = render(Asked(at, views, links, pages)).html
            for name in {links.at(at), file_name(at)}:  # the first has two
                (folder / name).write_text(html, encoding="utf-8")
        files = links.files | {name: (TEMPLATES / name).read_bytes() for name in ASSETS}
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    return len(pages) or 1
