"""What a page is asked for, and with what."""

from collections.abc import Sequence
from typing import NamedTuple

from leaderboard.links import Address, Links
from leaderboard.views import SuiteView, Views


class NotThere(LookupError):
    """The store does not have what an address asks for; the text is a sentence for the reader."""


class Asked(NamedTuple):
    """A page that is asked for.

    Attributes:
        at: Its address.
        views: All suites of the store, by slug, in the order of the pages.
        links: How the page links to others and keeps files.
        known: All pages that there are.
    """

    at: Address
    views: Views
    links: Links
    known: Sequence[Address]

    @property
    def view(self) -> SuiteView:
        """Return the suite that is asked for; the first one where none is.

        Raises:
            NotThere: The store does not have it, or is empty.
        """
        name = self.at.suite or next(iter(self.views), "")
        if name not in self.views:
            what = f"There is no suite {name!r} here." if name else "No results yet."
            raise NotThere(what)
        return self.views[name]
