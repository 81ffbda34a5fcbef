"""Rules for source, tests and the Makefile: names that pages and comments mention, docstrings, imports, markers."""

import ast
import os
import re
import shlex
import tomllib

from tests.helpers.processes import ROOT


def test_test_modules_import_no_other_test_module():
    wrong = re.compile(r"(?m)^ *(?:from|import) +(?:tests\b(?!\.helpers)|.*\b(?:test_|conftest\b)).*")
    tests = (ROOT / "tests").rglob("*.py")
    assert {str(path): found for path in tests if (found := wrong.findall(path.read_text()))} == {}


def test_makefile_targets_cover_registered_markers():
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    lanes = re.findall(r'pytest .*-m (?:"not \((.*)\)"|(\w+))', (ROOT / "Makefile").read_text())
    named = {name for lane in lanes for part in lane for name in part.split(" or ") if name}
    named |= set(re.findall(r'"-m", "(gpu)"', (ROOT / "scripts/first_gpu.py").read_text()))  # of `make first-gpu`
    assert named == {marker.partition(":")[0] for marker in markers}


PROGRAM = [path for name in ("leaderboard", "roarbench", "toy") for path in sorted((ROOT / name).rglob("*.py"))]
TREES = {path: ast.parse(path.read_text("utf-8")) for path in PROGRAM}


def list_members(tree):
    """Return a dict from a module's classes to the names in them, and to the names of their base classes."""
    found = {}
    for of in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        names = {node.id for node in ast.walk(of) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(of) if isinstance(node, ast.Attribute)}
        names |= {node.name for node in ast.walk(of) if isinstance(node, ast.FunctionDef)}
        found[of.name] = names, {ast.unparse(base) for base in of.bases}
    return found


def list_top_names(tree):
    """Return the names that a module defines or imports."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names | {
        one.asname or one.name for node in tree.body if isinstance(node, ast.ImportFrom) for one in node.names
    }


CLASSES = {name: members for tree in TREES.values() for name, members in list_members(tree).items()}
MODULES = {}
for _path, _tree in TREES.items():
    MODULES.setdefault(_path.stem, set()).update(list_top_names(_tree))
NAMES = set().union(*MODULES.values(), CLASSES, *(names for names, _ in CLASSES.values()))


def has_member(of, name):
    names, bases = CLASSES[of]
    return name in names or any(has_member(base, name) for base in bases & {*CLASSES})


def is_stale(owner, name):
    """Return whether `owner.name` of a comment means a class or module of the program that has no such name."""
    if owner in CLASSES:
        return not has_member(owner, name)
    if owner in MODULES:
        return name not in MODULES[owner] and (ROOT / "roarbench" / owner / f"{name}.py").exists() is False
    return name.isupper()  # a constant of an unknown module


def test_comments_mention_existing_names():
    """`Class.field` and `module.name` in comments and docstrings; file names and other programs' names are left out."""
    pattern = re.compile(r"`(?:(?:roarbench|leaderboard)\.(?:\w+\.)*)?(\w+)\.(\w+)(?:\(.*?\))?`")
    ends = {"toml", "py", "md", "json", "usetex"}
    texts = {path: path.read_text("utf-8") for path in PROGRAM}
    found = [
        (path.name, *pair) for path, text in texts.items() for pair in pattern.findall(text) if pair[1] not in ends
    ]
    assert len(found) > 50
    assert [(name, f"{owner}.{member}") for name, owner, member in found if is_stale(owner, member)] == []
    assert is_stale("Protocol", "limits") and is_stale("rates", "JOB_OVERHEAD") and is_stale("Suite", "given_weights")


def test_contributing_page_names_existing_files_and_names():
    page = re.sub(r"(?m)^    .*$", "", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    words = set(re.findall(r"`([^`\s]+)`", page))
    paths = {word for word in words if "/" in word and not re.search(r"NAME|dist/|[*…]", word)}
    assert len(paths) > 40 and [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    files = {word for word in words if re.fullmatch(r"\w+\.py", word)}
    assert len(files) > 5 and [name for name in sorted(files) if not [*ROOT.glob(f"*/**/{name}")]] == []
    tests = " ".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    names = {
        word for word in words if re.fullmatch(r"_?[A-Za-z]+(_\w+)*", word) and ("_" in word or word != word.lower())
    }
    known = NAMES | set(re.findall(r"(?m)^(?:def )?(\w+)", tests))
    assert len(names) > 15 and sorted(names - known) == []


def test_functions_of_several_statements_have_docstrings():
    """A method or public function of one statement may be its own description."""
    for path, tree in TREES.items():
        for of in (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)):
            for node in of.body:
                several = isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and len(node.body) > 1
                inner = isinstance(of, ast.ClassDef) and of.name.startswith("_")
                assert not several or inner or ast.get_docstring(node), f"{path.name}: {node.name}"


def test_no_module_draws_from_the_callers_generator():
    """`rb.evaluate` runs in the caller's process, whose `random` may be seeded; submissions are seeded in their own."""
    allowed = {"getstate", "setstate", "Random", "SystemRandom"}
    used = {
        (path.stem, node.attr)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
    }
    assert {(module, name) for module, name in used if name not in allowed} == {("submission_calls", "seed")}


def test_findings_run_alone_with_pinned_packages():
    for path in sorted((ROOT / "findings").glob("*.sh")):
        text = path.read_text("utf-8").replace("\\\n", " ")
        assert os.access(path, os.X_OK) and "\nset -euo pipefail\n" in text, path.name
        assert "$(mktemp -d)" in text and "\ntrap 'rm -rf " in text, path.name
        packages = [
            word for line in re.findall(r'pip" install (.*)', text) for word in shlex.split(line, comments=True)
        ]
        packages = [word for word in packages if not word.startswith(("-", "$folder/"))]
        assert packages and all("==" in word for word in packages), f"{path.name}: {packages}"
