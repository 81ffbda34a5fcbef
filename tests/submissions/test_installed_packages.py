"""Installed packages are found where this process imports them from, and the user's own files beside them are not."""

import ast
import sys
from importlib import import_module

import pytest

from roarbench.api.source_of_definitions import is_from_installed_package
from roarbench.common.errors import SandboxError
from roarbench.submissions import installed_packages, sandbox_isolation
from roarbench.submissions.installed_packages import list_package_folders, list_package_paths
from roarbench.submissions.limits_and_faults import CHECK_LIMITS
from roarbench.submissions.run_in_sandbox import SandboxTask, run_submission
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation
from tests.helpers.processes import run_python
from tests.helpers.sandboxed import GRADIENT, NETWORK, make_task


def install(folder, name, text="value = 3"):
    """A package in a folder, with the record that installers write."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    (folder / f"{name}-1.0.dist-info").mkdir()
    (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    record = (f"{name}/__init__.py,,", f'"{name}-1.0.dist-info/METADATA",,', "../../bin/program,,", "bin/other,,")
    (folder / f"{name}-1.0.dist-info" / "RECORD").write_text("\n".join(record))


@pytest.fixture
def target(tmp_path, monkeypatch):
    """A folder of `pip install --target`, on the path, in which the user also has a module and data."""
    install(tmp_path / "mixed", "targeted")
    (tmp_path / "mixed" / "own_file.py").write_text("value = 4")
    (tmp_path / "mixed" / "labels.csv").write_text("0")
    (tmp_path / "mixed" / "bin").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "mixed")
    yield tmp_path / "mixed"
    for name in ("targeted", "own_file", "later", "linked"):
        sys.modules.pop(name, None)


def test_package_on_the_path_is_installed_and_file_beside_it_is_not(target):
    assert is_from_installed_package(import_module("targeted"))
    assert not is_from_installed_package(import_module("own_file"))
    assert str(target) in list_package_folders()
    paths = [path for path in list_package_paths() if path.startswith(str(target))]
    assert paths == [f"{target}/targeted", f"{target}/targeted-1.0.dist-info"]


def test_package_installed_meanwhile_is_found(target):
    assert str(target) in list_package_folders()
    install(target, "later")
    assert is_from_installed_package(import_module("later"))


def test_folder_without_packages_or_with_another_name_is_told_apart(tmp_path, monkeypatch):
    (tmp_path / "source" / "mine").mkdir(parents=True)
    (tmp_path / "source" / "mine.egg-info").mkdir()  # of an editable installation
    (tmp_path / "overlay" / "site-packages").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "overlay" / "site-packages")
    for name in ("source", "alias", "missing"):
        monkeypatch.syspath_prepend(tmp_path / name)
    found = [path for path in list_package_folders() if path.startswith(str(tmp_path))]
    assert found == [str(tmp_path / "overlay" / "site-packages")]


def test_linked_package_is_installed(target, tmp_path):
    """uv's --link-mode=symlink links each file of an environment to its cache."""
    install(target, "linked")
    cached = tmp_path / "cache.py"
    (target / "linked" / "__init__.py").rename(cached)
    (target / "linked" / "__init__.py").symlink_to(cached)
    assert is_from_installed_package(import_module("linked"))


def list_imported_modules(file):
    """Names of roarbench's modules that a file imports at its top; of `from package import name`, both."""
    for part in ast.parse(file.read_text()).body:
        if isinstance(part, ast.ImportFrom) and part.module.startswith("roarbench"):
            yield part.module
            yield from (f"{part.module}.{alias.name}" for alias in part.names)


def test_files_of_the_sandbox_import_no_others():
    """Where bubblewrap is missing, no other test starts the program with these files alone."""
    folder, own = sandbox_isolation._PACKAGE, sandbox_isolation._OWN
    imported = {name for file in own for name in list_imported_modules(folder / file)}
    assert {"roarbench.compute.networks", "roarbench.common.errors"} <= imported
    files = {f"{name.replace('.', '/').removeprefix('roarbench/')}.py" for name in imported}
    assert {file for file in files if (folder / file).exists()} <= {*own}


@pytest.mark.process
def test_sandbox_imports_package_of_another_folder(target, bubblewrap):
    seen = """
import os, targeted
for name in ("own_file.py", "labels.csv"):
    assert not os.path.exists(os.path.join(os.path.dirname(targeted.__path__[0]), name))
"""
    task = make_task(seen + GRADIENT)
    answer = run_submission(SandboxTask(task.source, NETWORK, task.parts), CHECK_LIMITS)
    assert answer.refusal is None


@pytest.mark.process
def test_doctor_and_validate_name_package_that_the_sandbox_lacks(bubblewrap, monkeypatch):
    monkeypatch.setattr(sandbox_isolation, "find_spec", lambda name: type("Spec", (), {"origin": f"/src/{name}.py"}))
    with pytest.raises(SandboxError, match=r"torch is /src/torch.py.*sandbox.*; install torch"):
        check_sandbox_isolation.__wrapped__()


@pytest.mark.parametrize("folder", ["lib/python3.11/site-packages", "target", "local/lib/python3.11/dist-packages"])
def test_published_results_lie_beside_or_above_the_package(tmp_path, folder):
    """pip writes data into PREFIX/share, or into TARGET/share with --target."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "roarbench").symlink_to(installed_packages.__file__.rpartition("/submissions/")[0])
    root = tmp_path / folder.partition("/lib/")[0].removesuffix("lib/python3.11/site-packages")
    (root / "share" / "roarbench" / "results").mkdir(parents=True)
    (root / "share" / "roarbench" / "results" / "index.json").write_text("[]")
    program = "import sys; sys.path.insert(0, sys.argv[1]); from roarbench.plan.suites import *; print(RESULTS)"
    assert run_python(program, tmp_path / folder) == f"{root}/share/roarbench/results\n"
