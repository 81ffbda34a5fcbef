"""Make a release ready: build sdist and wheel, try the wheel in bare environments, write the text of its tag.

    python scripts/release.py [--out dist]

The sdist is built from the files that git tracks and the wheel from the sdist, so that a file forgotten in either is
missed here. Each environment is new, one for every Python of `PYTHONS` that is at hand; pip installs torch, torchvision
and the wheel with the versions of constraints.txt. Ends with exit code 1 and one line at the first thing that is wrong.
Nothing is tagged and nothing is uploaded.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = tuple(f"python3.{minor}" for minor in range(11, 15))
PACKAGES = ("leaderboard", "roarbench", "toy")
_BUILD = "import sys, setuptools.build_meta as build; getattr(build, sys.argv[1])(sys.argv[2])"


class ReleaseError(Exception):
    """Something about the release is wrong; the message says what."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where sdist, wheel and the tag's text are kept")
    out = parser.parse_args().out.resolve()
    try:
        version = read_common_version(ROOT)
        print(f"version {version} in pyproject.toml, CITATION.cff and CHANGELOG.md", flush=True)
        files = list_git_files(ROOT)
        with tempfile.TemporaryDirectory(prefix="roarbench-release-") as folder:
            wheel = build_packages(ROOT, files, Path(folder), out)
            print(f"built: {wheel}", flush=True)
            check_wheel_contents(wheel, files)
            for python in find_installed_pythons():
                programs = install_wheel(python, wheel, Path(folder, Path(python).name))
                check_installed_programs(programs, version, Path(folder))
                print(f"{Path(python).name}: installed; the toy's figure and the published rows are there", flush=True)
        text = out / f"v{version}.txt"
        text.write_text(write_tag_text(ROOT, version, [wheel, out / f"roarbench-{version}.tar.gz"]), "utf-8")
        refuse_uncommitted_changes(ROOT)
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    print(f"next: git tag --annotate v{version} --file {text}")


def read_common_version(root: Path) -> str:
    """Return the version that pyproject.toml, CITATION.cff and the newest heading of CHANGELOG.md agree on."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    for name, pattern in (("CITATION.cff", r"(?m)^version: (\S+)$"), ("CHANGELOG.md", r"(?m)^## (\S+) - \S+$")):
        if (seen := _find_match(root / name, pattern)) != version:
            raise ReleaseError(f"{name} has version {seen}, pyproject.toml {version}; write the same in both")
    return version


def _find_match(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text("utf-8"))
    return found[1] if found else "none"


def write_tag_text(root: Path, version: str, files: Iterable[Path]) -> str:
    """Return the text of a release's tag: its day, its part of the changelog, the SHA-256 of what was built.

    Raises ReleaseError if it has no day yet, or CITATION.cff has another one.
    """
    changes = (root / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    day = changes.partition("\n")[0].rpartition(" - ")[2]
    if day == "Unreleased":
        raise ReleaseError(
            f"CHANGELOG.md says '{version} - Unreleased'; write the day, in CITATION.cff as date-released"
        )
    if (seen := _find_match(root / "CITATION.cff", r"(?m)^date-released: (\S+)$")) != day:
        raise ReleaseError(f"CITATION.cff has date-released {seen}, CHANGELOG.md {day}; write the same in both")
    plain = re.sub(r"(?m)^#+ ", "", changes.partition("\n")[2])  # git treats lines with a leading # as comments
    sums = "\n".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files)
    return f"roarbench {version}, {day}\n\n{plain.strip()}\n\n{sums}\n"


def refuse_uncommitted_changes(root: Path) -> None:
    """Raise ReleaseError where a tag would not have what was built."""
    changed = run_program(["git", "status", "--porcelain"], root).splitlines()
    if changed:
        raise ReleaseError(f"{changed[0].strip()} is not committed; commit what belongs to the release")


def find_installed_pythons() -> list[str]:
    """Return the Pythons that are installed here, and print which of those that the package is for are not."""
    found = {name: path for name in PYTHONS if (path := shutil.which(name)) and _can_run(path)}
    if missing := [name for name in PYTHONS if name not in found]:
        print(f"not at hand, so not tried: {', '.join(missing)}", flush=True)
    if not found:
        raise ReleaseError(f"no Python to try the wheel with; install one of {', '.join(PYTHONS)}")
    return list(found.values())


def _can_run(python: str) -> bool:
    """Return whether a Python answers; pyenv has names for versions that are not switched on."""
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def list_git_files(root: Path, *words: str) -> list[str]:
    """Return the paths that `git ls-files` lists with these options, relative to the root; tracked files by default."""
    listed = subprocess.run(["git", "ls-files", "-z", *words], cwd=root, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if (root / name).is_file()]


def build_packages(root: Path, files: Iterable[str], folder: Path, out: Path) -> Path:
    """Build an sdist from these files of the root and a wheel from the sdist; return the wheel's path.

    Args:
        root: Of the source.
        files: Relative paths; nothing else is copied.
        folder: Empty, for what is needed between.
        out: Where sdist and wheel are left.
    """
    source, unpacked = folder / "source", folder / "unpacked"
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, source / name)
    out.mkdir(parents=True, exist_ok=True)
    run_program([sys.executable, "-c", _BUILD, "build_sdist", str(out)], source)
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    with tarfile.open(out / f"roarbench-{version}.tar.gz") as archive:
        archive.extractall(unpacked, filter="data")
    run_program([sys.executable, "-c", _BUILD, "build_wheel", str(out)], unpacked / f"roarbench-{version}")
    return out / f"roarbench-{version}-py3-none-any.whl"


def check_wheel_contents(wheel: Path, files: Iterable[str]) -> None:
    """Raise ReleaseError unless the wheel has every file of the packages and no other."""
    expected = {name for name in files if name.partition("/")[0] in PACKAGES}
    expected |= {name for name in files if re.fullmatch(r"results/(index\.json|.*\.parquet|.*/suite\.toml)", name)}
    with ZipFile(wheel) as opened:
        packed = (re.sub(r"^[^/]*\.data/data/share/roarbench/", "", name) for name in opened.namelist())
        found = {name for name in packed if ".dist-info/" not in name}
    for words, names in (("lacks", expected - found), ("has, and git does not track,", found - expected)):
        if names:
            raise ReleaseError(f"the wheel {words} {', '.join(sorted(names))}; see package-data in pyproject.toml")


def install_wheel(python: str, wheel: Path, environment: Path) -> Path:
    """Make a virtual environment with the wheel and what it needs; return the folder of its programs."""
    run_program([python, "-m", "venv", str(environment)], ROOT)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "-c", "constraints.txt"]
    run_program([*pip, "torch", "torchvision"], ROOT)
    run_program([*pip, str(wheel)], ROOT)
    return environment / "bin"


def check_installed_programs(programs: Path, version: str, folder: Path) -> None:
    """Raise ReleaseError unless what is installed has this version, draws the toy's figure and has published rows."""
    said = run_program([str(programs / "roarbench"), "--version"], folder)
    if said.strip() != f"roarbench {version}":
        raise ReleaseError(f"roarbench --version says {said.strip()}, expected roarbench {version}")
    picture = folder / "toy.png"
    run_program([str(programs / "roarbench"), "toy", "-o", str(picture)], folder)
    if not picture.read_bytes().startswith(b"\x89PNG\r\n"):
        raise ReleaseError("roarbench toy -o toy.png did not write a PNG")
    run_program(
        [str(programs / "python"), "-c", "import roarbench; roarbench.load_published_results('quick').table()"], folder
    )


def run_program(command: list[str], folder: Path) -> str:
    """Run a command that sees no module of this tree, and return its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]
        raise ReleaseError(f"{' '.join(command[:4])} … ended with {done.returncode}: {last}")
    return done.stdout


if __name__ == "__main__":
    main()
