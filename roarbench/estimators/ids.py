"""Ids of estimators, read and written in one place. Nothing here imports torch."""

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile

from roarbench.enums import OTHER_REFERENCE

TRUSTED = "trusted"  # run without the sandbox, for ever part of its id: NAME@hash~trusted
CUDA = "cuda"  # its maps were made on a GPU: NAME@hash~cuda, NAME@hash~trusted~cuda
_ID = re.compile(r"([^@(~]*)(?:@([^(~]*))?(?:\(([^()]*)\))?((?:~[^~()]*)*)")


@dataclass(frozen=True)
class EstimatorId:
    """An id in its parts, whether or not there is such an estimator.

    `NAME(listed)~twin` is an estimator of the table, `NAME@digits(listed)~trusted~cuda~twin` a submission. What is
    neither is a name without other parts, so that `str` always gives back what was read.
    """

    name: str  # in the table of estimators, or of a submission
    digits: str | None = None  # of the hash of a submission's file; None for what is in the table
    listed: str | None = None  # parameters, as they stand between the parentheses; None without parentheses
    marks: tuple[str, ...] = ()  # how a submission was run, if not in the sandbox on the processor: `trusted`, `cuda`
    twins: tuple[str, ...] = ()  # the first is a twin of the estimator, the next one of that twin

    @classmethod
    @lru_cache(4096)  # of a store with 25,000 results each id is read a hundred times
    def read(cls, text: str) -> "EstimatorId":
        """Take an id apart."""
        if not (found := _ID.fullmatch(text)):
            return cls(text)
        name, digits, listed, tail = found.groups()
        tags = tuple(tail.split("~")[1:])
        marks = () if digits is None else tuple(takewhile(lambda tag: tag in (TRUSTED, CUDA), tags))
        return cls(name, digits, listed, marks, tags[len(marks) :])

    def __str__(self) -> str:
        return "~".join([self.entry, *self.marks, *self.twins])

    @property
    def file(self) -> str:
        """Return which file was submitted, `NAME@digits`; the name of what is in the table."""
        return self.name if self.digits is None else f"{self.name}@{self.digits}"

    @property
    def entry(self) -> str:
        """Return what was submitted, with its parameters: the id without marks and twins."""
        return self.file if self.listed is None else f"{self.file}({self.listed})"

    @property
    def submitted(self) -> bool:
        """Return whether it is a submission's."""
        return self.digits is not None

    @cached_property
    def parent(self) -> "EstimatorId":
        """Return what its last twin was made from, or itself."""
        return replace(self, twins=self.twins[:-1])

    @property
    def row(self) -> "EstimatorId":
        """Return what all its twins were made from, or itself."""
        return replace(self, twins=())

    @property
    def default(self) -> "EstimatorId":
        """Return the same with the default of every parameter."""
        return replace(self, listed=None)

    @property
    def explains_next(self) -> bool:
        """Return whether it explains the next one of a suite's references."""
        return OTHER_REFERENCE in self.twins


def make_twin_id(estimator: str, twin: str) -> str:
    """Return the id of a twin of an estimator."""
    return f"{estimator}~{twin}"
