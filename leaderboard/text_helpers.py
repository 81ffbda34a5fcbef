"""Format texts of the pages: dates, addresses, and texts from users."""

from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, metadata

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import fit_on_one_line


def _read_repository_url() -> str:
    """Return the public address of the source code from the package's metadata; an empty string if there is none."""
    with suppress(PackageNotFoundError):
        for url in metadata("roarbench").get_all("Project-URL") or []:
            name, _, address = url.partition(", ")
            if name == "Repository":
                return str(address.rstrip("/"))
    return ""


REPOSITORY = _read_repository_url()


def shorten_line(text: str, longest: int = 300) -> str:
    """Format any text as one printable line, and cut it if it is longer than `longest`."""
    return fit_on_one_line(text, longest)


def format_day(moment: datetime) -> str:
    """Format a date: `23 Nov 2026`."""
    return f"{moment.day} {moment:%b %Y}"


def make_slug(suite_results: SuiteResults) -> str:
    """Return a suite's name for addresses and files: `quick-v1`, `quick-v1-small-40`, `quick-v1-fill-linear`."""
    small = f"-small-{suite_results.limit}" if suite_results.limit else ""
    suite = suite_results.suite
    options = "".join(f"-{word.strip('-')}" for word in (*suite_results.options, *suite.changes.options))
    whole = f"{suite.name}-v{suite.version}{small}{options}"
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in whole)
