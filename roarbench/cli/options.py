"""The options that commands share: one at a time, and as records that several commands take."""

import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from platformdirs import user_data_path

from roarbench.calls import propose
from roarbench.cli import completion
from roarbench.datasets.catalogue import DATASETS
from roarbench.errors import CallerError
from roarbench.estimators import JOINING, find_estimator, split_names
from roarbench.plan.runs import find_protocol
from roarbench.plan.suite import REFERENCE_SEED, Suite
from roarbench.plan.suites import with_entries
from roarbench.terms import SHOWN, Protocol, Unit

if TYPE_CHECKING:
    from roarbench.analysis.load import Question


class TableFormat(StrEnum):
    """Form in which a table is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


class PanelFormat(StrEnum):
    """Form in which a report with sentences is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class Device(StrEnum):
    """Processor that makes a submission's maps."""

    CPU = "cpu"
    CUDA = "cuda"


class ReportFormat(StrEnum):
    """Form in which a report is written."""

    TEXT = "text"
    JSON = "json"


STORE = user_data_path("roarbench")
_MOST_SEEDS = REFERENCE_SEED  # from this seed on they would be those of references and redrawn rankings
_MOST_IMAGES = max(max(record.train_images, record.test_images) for record in DATASETS.values())
_MOST_WORKERS = 4096  # of any machine; `run` takes no more than this one can feed

SuiteName = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="NAME|FILE",
        help=f"Which suite; `{propose('suites')}` lists them. One's own is a TOML file.",
        autocompletion=completion.suites,
    ),
]
StoreDir = Annotated[
    Path,
    typer.Option(
        "--store",
        envvar="ROARBENCH_STORE",
        metavar="DIR",
        show_default="the user's data folder",
        help="Folder of images, references, rankings, results.",
    ),
]
Db = Annotated[
    str, typer.Option("--db", metavar="URL", help="Database of results; an SQLite file in the store by default.")
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, max=_MOST_IMAGES, metavar="N", help="A small version: this many images of each split."
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Read the images from this folder in the hub's layout.")
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILE|NAME",
        show_default="trained by the suite's recipe",
        help="Explain these weights: a checkpoint of the suite's network, or torchvision:resnet50-v1. "
        "Once for each network.",
    ),
]
OfImages = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DIR",
        show_default="the suite's own images",
        help="Results on the images of this folder, or of a fingerprint that begins so.",
    ),
]
OfReferences = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILE|NAME",
        show_default="the suite's own",
        help="Results that explain these weights: a file, or their name in titles. Once for each network.",
    ),
]
OnlyImages = Annotated[
    str,
    typer.Option("--data", metavar="DIR", show_default="all", help="Only boards on these images, or on a fingerprint."),
]
OnlyReference = Annotated[
    str,
    typer.Option(
        "--reference", metavar="FILE|NAME", show_default="all", help="Only boards that explain these weights."
    ),
]
Chosen = Annotated[
    str,
    typer.Option(
        "--estimators",
        metavar="A,B",
        help="Only these and the controls, by id, with commas between; also 'var-grad(noise=0.05)'.",
        autocompletion=completion.estimators,
    ),
]
Rows = Annotated[
    str,
    typer.Option(
        "--estimators",
        metavar="A,B",
        help="Show only these, by id, with commas between.",
        autocompletion=completion.estimators,
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, max=_MOST_SEEDS, metavar="N", help="Trainings per cell instead of the suite's number."
    ),
]
OneProtocol = Annotated[
    str,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="Only this one, with the networks that it needs.",
        show_default="all of the suite",
        autocompletion=completion.protocols,
    ),
]
ProtocolName = Annotated[
    str,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help=f"{', '.join(SHOWN)}.",
        show_default="roar, or the first of a suite without it",
        autocompletion=completion.shown_protocols,
    ),
]
UnitName = Annotated[Unit | None, typer.Option("--unit", help="What one feature is; the suite's first by default.")]
File = Annotated[
    Path | None, typer.Option("--submission", metavar="FILE", help="Also this estimator; see submissions/.")
]
Trust = Annotated[
    bool, typer.Option("--trust-submission", help="Run it without the sandbox; its rows are never verified.")
]
MapDevice = Annotated[Device, typer.Option("--submission-device", help="Where its maps are made; its rows say so.")]
Metrics = Annotated[
    Literal["quantus"] | None, typer.Option("--with", help="Also score the maps by Quantus, in columns of their own.")
]
UntilDecided = Annotated[
    bool,
    typer.Option(
        "--until-decided", help="Train only where a verdict against Random is open, one seed after the other."
    ),
]
Interesting = Annotated[
    float | None,
    typer.Option(
        "--difference",
        metavar="D",
        help="Smallest difference of interest, in accuracy points: it is enough to know that there is none.",
    ),
]
AskedQuestion = Annotated[
    str, typer.Option("--question", metavar="TEXT", help="'beats random': the cheapest measured way to that answer.")
]
Detectable = Annotated[
    float | None,
    typer.Option("--difference", metavar="D", help="With --question: the gain that has to be found, accuracy points."),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", metavar="TIME", help="End after this long, such as 2h, 90m or 1h30m.", show_default="none"
    ),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Where the work is done: processes of this machine, or a Ray cluster."),
]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        show_default="a cluster of this machine alone",
        help="Of a Ray cluster's head; auto on one of its machines.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, max=_MOST_WORKERS, metavar="N", help="Processes; by default one per GPU, else per core."
    ),
]


LogFormat = Annotated[
    ReportFormat,
    typer.Option(
        "--log-format",
        help="Of what is said meanwhile; json: one object a line, and a log of each worker in the store.",
    ),
]


@dataclass(frozen=True)
class SuiteOptions:
    """Options that say what is run: a suite, or a part of it."""

    suite: SuiteName
    estimators: Chosen = ""
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
    reference: References = None

    @property
    def references(self) -> tuple[str, ...]:
        """Return where the given weights of each reference are; empty if they are trained."""
        return tuple(self.reference or ())


@dataclass(frozen=True)
class EngineOptions:
    """Options that say which machines do the work."""

    engine: Engine = "local"
    address: Address = ""

    def __post_init__(self) -> None:
        if self.address and self.engine != "ray":
            raise CallerError("--address says which Ray cluster does the work; add --engine ray")


@dataclass(frozen=True)
class SubmissionOptions:
    """A submitted estimator, and how its maps are made."""

    submission: File = None
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
    """Refuse a smallest difference of interest that is none.

    Raises:
        CallerError: It is not above 0 and below 100 points.
    """
    if difference is not None and not 0 < difference < 100:
        raise CallerError(f"--difference is {difference:g}; write accuracy points above 0 and below 100, such as 2")


def parse_duration(option: str, text: str) -> float:
    """Return the seconds that a text such as `2h`, `90m`, `45s` or `1h30m` means.

    Raises:
        CallerError: It means none, or no time at all.
    """
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

    @property
    def question(self) -> "Question":
        """Return the same as `load_suite` takes it."""
        from roarbench.analysis.load import Question

        return Question(self.store, self.db, self.limit, self.data, tuple(self.reference or ()))


@dataclass(frozen=True)
class BoardOptions:
    """Options that say which board of a suite is shown, and which of its rows."""

    estimators: Rows = ""
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


def with_added(suite: Suite, estimators: str, entries: Iterable[str] = ()) -> Suite:
    """Return a suite with what is added to it.

    Args:
        suite: Which.
        estimators: What `--estimators` takes: those with parameters, and what joins any suite, stand beside its own.
        entries: Ids of submissions.

    Raises:
        CallerError: A parameter cannot be what it is.
    """
    added = [part for part in _listed(estimators) if "(" in part or part.partition("~")[0] in JOINING]
    return with_entries(suite, [*entries, *(find_estimator(part).id for part in added)])


def chosen_estimators(suite: Suite, estimators: str) -> list[str] | None:
    """Return the ids of the estimators that `--estimators` names; None for all.

    Raises:
        CallerError: There is no such estimator, or the suite does not have it.
    """
    listed = _listed(estimators)
    if estimators and not listed:
        raise CallerError(f"--estimators '{estimators}' names none; write ids with commas between, or leave it out")
    chosen = [find_estimator(name, suite.estimators).id for name in listed]
    for estimator in chosen:
        if why := suite.why_not(estimator):
            raise CallerError(f"suite '{suite.name}' has no '{estimator}': {why}")
        if estimator not in suite.estimators:
            raise CallerError(f"suite '{suite.name}' has no '{estimator}'; it has: {', '.join(suite.estimators)}")
    return chosen or None


def chosen_protocol(suite: Suite, name: str) -> Protocol:
    """Return the protocol that `--protocol` names, of those that the suite has.

    Raises:
        CallerError: There is no such protocol, or the suite does not have it.
    """
    protocol = find_protocol(name)
    has = dict.fromkeys(block.protocol.name for block in suite.blocks)
    if name not in has:
        raise CallerError(f"suite '{suite.name}' has no {name}; it has: {', '.join(has)}")
    return protocol


def _listed(estimators: str) -> list[str]:
    return [part.strip() for part in split_names(estimators) if part.strip()]
