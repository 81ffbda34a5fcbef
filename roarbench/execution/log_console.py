"""What is said while a suite runs, as lines of a log instead of words on a terminal."""

import logging
from typing import Any

from rich.console import Console

_log = logging.getLogger(__name__)


class LogConsole(Console):
    """Console that hands what is printed to the log of this process."""

    def print(self, *objects: Any, **style: Any) -> None:
        """Write the text of the objects to the log; how it should look is left out."""
        self.tell("\n".join(str(each) for each in objects).strip())

    def tell(self, message: str, **about: object) -> None:
        """Write a line to the log, with fields that say what it is about."""
        _log.info("%s", message, extra={"about": about})
