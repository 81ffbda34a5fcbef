"""Options that several commands take together, as records, and the decorator that makes commands of them."""

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from roarbench.cli.options import (
    STORE,
    Address,
    AskedQuestion,
    Budget,
    Chosen,
    Data,
    Db,
    Detectable,
    Device,
    EngineName,
    Files,
    Interesting,
    Limit,
    MapDevice,
    OfImages,
    OfReferences,
    OneProtocol,
    ProtocolName,
    ReferenceFiles,
    Rows,
    Seeds,
    StoreDir,
    SuiteName,
    Trust,
    TrustNetwork,
    UnitName,
    UntilDecided,
    Workers,
)
from roarbench.errors import CallerError

if TYPE_CHECKING:
    from roarbench.api.suites import Suite


@dataclass(frozen=True)
class SuiteOptions:
    """Options that say what is run: a suite, or a part of it."""

    suite: SuiteName
    estimators: Chosen = None
    protocol: OneProtocol = ""
    seeds: Seeds = None


@dataclass(frozen=True)
class QuestionOptions(SuiteOptions):
    """Options that say what is planned: a suite, or the cheapest way to an answer."""

    suite: SuiteName = ""
    question: AskedQuestion = ""
    difference: Detectable = None

    def __post_init__(self) -> None:
        if not self.suite and not self.question:
            raise CallerError("Missing option '--suite', or '--question \"beats random\"' for the cheapest way to that")
        if not self.question and self.difference is not None:
            raise CallerError('--difference says what has to be found; add --question "beats random"')
        part = [("--estimators", self.estimators), ("--protocol", self.protocol), ("--seeds", self.seeds)]
        if self.question and (given := [option for option, value in part if value]):
            raise CallerError(f"--question finds protocol, rows and seeds itself; leave {given[0]} out")
        check_difference(self.difference)


@dataclass(frozen=True)
class WorkOptions:
    """Options that say with what it is run: processes, store, images and the explained weights."""

    workers: Workers = None
    store: StoreDir = STORE
    db: Db = ""
    data: Data = None
    limit: Limit = None
    reference: ReferenceFiles = None
    trust_network: TrustNetwork = ""

    def load(self, suite: str) -> "Suite":
        """Return the suite of this name with what it is run on."""
        return _load(suite, self, trust_network=self.trust_network)


@dataclass(frozen=True)
class EngineOptions:
    """Options that say which machines do the work."""

    engine: EngineName = "local"
    address: Address = ""

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise CallerError("--address says which Ray cluster does the work; add --engine ray")


@dataclass(frozen=True)
class SubmissionOptions:
    """Submitted estimators, and how their maps are made."""

    submission: Files = None
    trust: Trust = False
    device: MapDevice = Device.CPU

    def __post_init__(self) -> None:
        if not self.submission and (self.trust or self.device is not Device.CPU):
            raise CallerError("--trust-submission and --submission-device say how a file is run; add --submission FILE")


@dataclass(frozen=True)
class CourseOptions:
    """Options that end a run before all is done."""

    until_decided: UntilDecided = False
    difference: Interesting = None
    budget: Budget = ""

    def __post_init__(self) -> None:
        if not self.until_decided and (self.difference is not None or self.budget):
            raise CallerError("--difference and --budget say when a course ends; add --until-decided")
        check_difference(self.difference)

    @property
    def seconds(self) -> float | None:
        """Return the budget; None without one."""
        return parse_duration("--budget", self.budget) if self.budget else None


def check_difference(difference: float | None) -> None:
    """Refuse a smallest difference of interest that is not above 0 and below 100 points."""
    if difference is not None and not 0 < difference < 100:
        raise CallerError(f"--difference is {difference:g}; write accuracy points above 0 and below 100, such as 2.5")


def parse_duration(option: str, text: str) -> float:
    """Return the seconds that a text such as `2h`, `90m`, `45s` or `1h30m` means; CallerError for none, or no time."""
    found = re.fullmatch(r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s)?", text.strip())
    try:
        parts = [float(part) if part else 0.0 for part in found.groups()] if found else []
    except ValueError:
        parts = []
    seconds = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=False))
    if seconds <= 0:
        raise CallerError(f"{option} is '{text}'; write a time such as 2h, 90m or 1h30m")
    return seconds


@dataclass(frozen=True)
class ResultsOptions:
    """Options that say which results are shown: those of a store, on these images and with this reference."""

    store: StoreDir = STORE
    db: Db = ""
    limit: Limit = None
    data: OfImages = ""
    reference: OfReferences = None

    def load(self, suite: str) -> "Suite":
        """Return the suite of this name with the results that are shown."""
        return _load(suite, self)


def _load(suite: str, asked: WorkOptions | ResultsOptions, trust_network: str = "") -> "Suite":
    from roarbench.api.finding import load

    return load(
        suite,
        asked.store,
        db=asked.db,
        data=asked.data or None,
        limit=asked.limit,
        reference=asked.reference or (),
        trust_network=trust_network,
    )


@dataclass(frozen=True)
class BoardOptions:
    """Options that say which board of a suite is shown, and which of its rows."""

    estimators: Rows = None
    protocol: ProtocolName = ""
    unit: UnitName = None


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as a command: for a parameter that is a record, the command has the record's fields as options.

    The options stand in the order of the parameters; where a record stands, in that of its fields.
    """
    parameters: list[Parameter] = []
    records: dict[str, Any] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        if is_dataclass(hints[name]):
            records[name] = hints[name]
            own = get_type_hints(hints[name], include_extras=True)
            options = {field.name: (own[field.name], field.default) for field in fields(hints[name])}
        else:
            options = {name: (hints[name], parameter.default)}
        for option, (annotation, default) in options.items():
            given = Parameter.empty if default is MISSING else default
            parameters.append(Parameter(option, Parameter.KEYWORD_ONLY, default=given, annotation=annotation))

    @wraps(function)
    def called(**values: Any) -> None:
        made = {
            name: record(**{field.name: values.pop(field.name) for field in fields(record)})
            for name, record in records.items()
        }
        function(**values, **made)

    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
