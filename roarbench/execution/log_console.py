"""What is said while a suite runs, as lines of a log instead of words on a terminal."""

import logging
from typing import Any

from rich.console import Console

_log = logging.getLogger(__name__)


class LogConsole(Console):
    """Console that hands what is printed to the log of this process; never a terminal, so that no bar is drawn."""

    def __init__(self) -> None:
        super().__init__(force_terminal=False)

    def print(self, *objects: Any, **style: Any) -> None:
        """Write the text of the objects to the log; how it should look is left out."""
        self.tell("\n".join(str(each) for each in objects).strip())

    def tell(self, message: str, **about: object) -> None:
        """Write a line to the log, a warning of what failed, with fields that say what it is about."""
        level = logging.WARNING if about.get("state") == "failed" else logging.INFO
        _log.log(level, "%s", message, extra={"about": about})
