"""The options that commands share, one at a time."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from roarbench.api.suites import default_store
from roarbench.cli import completion
from roarbench.cli.proposals import propose
from roarbench.datasets.catalogue import DATASETS
from roarbench.plan.suite import REFERENCE_SEED
from roarbench.protocols import SHOWN
from roarbench.terms import Unit


class TableFormat(StrEnum):
    """Form in which a table is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"

    @property
    def plain(self) -> bool:
        """Return whether programs read it."""
        return self in (TableFormat.JSON, TableFormat.CSV)


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


STORE = default_store()
_MOST_SEEDS = REFERENCE_SEED  # from this seed on they would be those of references and redrawn rankings
_MOST_IMAGES = max(max(record.train_images, record.test_images) for record in DATASETS.values())
_MOST_WORKERS = 4096  # of any machine; `run` takes no more than this one can feed

SuiteName = Annotated[
    str,
    typer.Option(
        "--suite",
        metavar="NAME|FILE",
        help=f"A suite (`{propose('suites')}` lists them), or your own TOML file.",
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
        help="Folder of images, references, rankings and results.",
    ),
]
Db = Annotated[
    str, typer.Option("--db", metavar="URL", help="Database of results; by default an SQLite file in the store.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=_MOST_IMAGES, metavar="N", help="Use only this many images of each split."),
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Read images from this folder, in the hub's layout.")
]
ReferenceFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILE|NAME",
        show_default="trained by the suite's recipe",
        help="Explain these weights: a checkpoint of the suite's network, or torchvision:resnet50-v1. Repeatable.",
    ),
]
OfImages = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DIR",
        show_default="the suite's own images",
        help="Show results on the images in this folder, or with this fingerprint prefix.",
    ),
]
OfReferences = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILE|NAME",
        show_default="the suite's own",
        help="Show results that explain these weights: a file, or their name in titles. Repeatable.",
    ),
]
OnlyImages = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DIR",
        show_default="all",
        help="Show only boards on these images, or with this fingerprint prefix.",
    ),
]
OnlyReference = Annotated[
    str,
    typer.Option(
        "--reference", metavar="FILE|NAME", show_default="all", help="Show only boards that explain these weights."
    ),
]
Chosen = Annotated[
    list[str] | None,
    typer.Option(
        "--estimators",
        metavar="A,B",
        show_default="all",
        help="Only these and the controls, separated by commas; also 'var-grad(noise=0.05)'.",
        autocompletion=completion.estimators,
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option(
        "--estimators",
        metavar="A,B",
        show_default="all",
        help="Show only these, separated by commas.",
        autocompletion=completion.estimators,
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, max=_MOST_SEEDS, metavar="N", help="Trainings per cell; the suite's number by default."
    ),
]
OneProtocol = Annotated[
    str,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="Run only this protocol.",
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
        show_default="the suite's first that has results; for JSON and CSV roar where the suite has it",
        autocompletion=completion.shown_protocols,
    ),
]
UnitName = Annotated[Unit | None, typer.Option("--unit", help="Feature unit; the suite's first by default.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--submission",
        metavar="FILE",
        show_default="none",
        help="Add this estimator, or 'FILE(samples=50)'; see submissions/. Repeatable.",
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust-submission", help="Run submissions without the sandbox; their rows are never verified.")
]
TrustNetwork = Annotated[
    str,
    typer.Option(
        "--trust-network",
        metavar="HASH",
        show_default="only files that your own suites name",
        help="Run the imported network file with this hash, with your rights.",
    ),
]
MapDevice = Annotated[
    Device, typer.Option("--submission-device", help="Device for submissions' maps; their rows record it.")
]
Metrics = Annotated[
    Literal["quantus"] | None, typer.Option("--with", help="Also score the maps by Quantus, in extra columns.")
]
UntilDecided = Annotated[
    bool,
    typer.Option("--until-decided", help="Add seeds one at a time, only where the verdict against Random is open."),
]
Interesting = Annotated[
    float | None,
    typer.Option(
        "--difference",
        metavar="D",
        help="Smallest difference of interest, in accuracy points; stop once it is excluded.",
    ),
]
AskedQuestion = Annotated[
    str, typer.Option("--question", metavar="TEXT", help="'beats random': find the cheapest measured way to answer it.")
]
Detectable = Annotated[
    float | None,
    typer.Option("--difference", metavar="D", help="With --question: the gain to detect, in accuracy points."),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", metavar="TIME", help="Stop after this time, such as 2h, 90m or 1h30m.", show_default="none"
    ),
]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Work in processes on this machine, or on a Ray cluster."),
]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        show_default="a new cluster on this machine",
        help="Head of a Ray cluster; auto on one of its machines.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=_MOST_WORKERS,
        metavar="N",
        help="Number of processes; by default one per GPU, else per core.",
    ),
]


LogFormat = Annotated[
    ReportFormat,
    typer.Option(
        "--log-format",
        help="Format of progress messages; json also writes one log per worker to the store.",
    ),
]
