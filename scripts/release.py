"""Prepare a release: build sdist and wheel, test the wheel in new environments, and write the text of the tag.

    python scripts/release.py [--out dist]

The sdist is built from the files that git tracks, and the wheel from the sdist, so that a file that either lacks is
noticed. The wheel is installed in a new environment for each installed Python of `PYTHONS`, with the versions of
constraints.txt. The program ends with exit code 1 and one line at the first error. It does not tag or upload anything.
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
    """Raised if the release cannot be made as it is."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="folder for sdist, wheel and tag text")
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
                print(f"{Path(python).name}: installed; it draws the toy's figure and has published rows", flush=True)
        text = out / f"v{version}.txt"
        text.write_text(write_tag_text(ROOT, version, [wheel, out / f"roarbench-{version}.tar.gz"]), "utf-8")
        refuse_uncommitted_changes(ROOT)
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    print(f"next: git tag --annotate v{version} --file {text}")


def read_common_version(root: Path) -> str:
    """Read the version from pyproject.toml; raise ReleaseError if CITATION.cff or CHANGELOG.md has another version."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    for name, pattern in (("CITATION.cff", r"(?m)^version: (\S+)$"), ("CHANGELOG.md", r"(?m)^## (\S+) - \S+$")):
        if (seen := _find_match(root / name, pattern)) != version:
            raise ReleaseError(f"{name} has version {seen}, pyproject.toml {version}; write the same in both")
    return version


def _find_match(path: Path, pattern: str) -> str:
    match = re.search(pattern, path.read_text("utf-8"))
    return match[1] if match else "none"


def write_tag_text(root: Path, version: str, files: Iterable[Path]) -> str:
    """Return the text of a release's tag: date, section of the changelog, and SHA-256 of each built file.

    Raises ReleaseError if CHANGELOG.md has no date, or CITATION.cff has another date.
    """
    section = (root / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    date = section.partition("\n")[0].rpartition(" - ")[2]
    if date == "Unreleased":
        raise ReleaseError(
            f"CHANGELOG.md says '{version} - Unreleased'; write the date there, and in CITATION.cff as date-released"
        )
    if (seen := _find_match(root / "CITATION.cff", r"(?m)^date-released: (\S+)$")) != date:
        raise ReleaseError(f"CITATION.cff has date-released {seen}, CHANGELOG.md {date}; write the same in both")
    plain = re.sub(r"(?m)^#+ ", "", section.partition("\n")[2])  # git treats lines with a leading # as comments
    checksums = "\n".join(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files)
    return f"roarbench {version}, {date}\n\n{plain.strip()}\n\n{checksums}\n"


def refuse_uncommitted_changes(root: Path) -> None:
    """Raise ReleaseError if there are uncommitted changes, which the tag would lack."""
    if changed := run_program(["git", "status", "--porcelain"], root).splitlines():
        raise ReleaseError(f"{changed[0].strip()} is not committed; commit all changes that belong to the release")


def find_installed_pythons() -> list[str]:
    """Return the paths of the installed Pythons of `PYTHONS`; print the names of the others."""
    installed = {name: path for name in PYTHONS if (path := shutil.which(name)) and _can_run(path)}
    if missing := [name for name in PYTHONS if name not in installed]:
        print(f"not installed, so not tested: {', '.join(missing)}", flush=True)
    if not installed:
        raise ReleaseError(f"no Python to test the wheel with; install one of {', '.join(PYTHONS)}")
    return list(installed.values())


def _can_run(python: str) -> bool:
    """Return whether a Python runs; pyenv also lists versions that are not activated."""
    return subprocess.run([python, "--version"], capture_output=True).returncode == 0


def list_git_files(root: Path, *words: str) -> list[str]:
    """Return the paths that `git ls-files` lists with these options, relative to the root; tracked files by default."""
    listed = subprocess.run(["git", "ls-files", "-z", *words], cwd=root, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if (root / name).is_file()]


def build_packages(root: Path, files: Iterable[str], folder: Path, out: Path) -> Path:
    """Build an sdist from these files of the root and a wheel from the sdist; return the wheel's path.

    Args:
        root: Folder of the source.
        files: Relative paths of the files to copy.
        folder: Empty folder for temporary files.
        out: Folder for sdist and wheel.
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
    """Raise ReleaseError unless the wheel has exactly the files of the packages and the published results."""
    expected = {name for name in files if name.partition("/")[0] in PACKAGES}
    published = re.compile(r"results/(index\.json|.*\.parquet|.*/suite\.toml|networks/.*\.safetensors)")
    expected |= {name for name in files if published.fullmatch(name)}
    with ZipFile(wheel) as opened:
        packed = (re.sub(r"^[^/]*\.data/data/share/roarbench/", "", name) for name in opened.namelist())
        contained = {name for name in packed if ".dist-info/" not in name}
    for verb, names in (("lacks", expected - contained), ("has, and git does not track,", contained - expected)):
        if names:
            raise ReleaseError(f"the wheel {verb} {', '.join(sorted(names))}; see package-data in pyproject.toml")


def install_wheel(python: str, wheel: Path, environment: Path) -> Path:
    """Create a virtual environment with the wheel and its dependencies; return the folder of its programs."""
    run_program([python, "-m", "venv", str(environment)], ROOT)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "-c", "constraints.txt"]
    run_program([*pip, "torch", "torchvision"], ROOT)
    run_program([*pip, str(wheel)], ROOT)
    return environment / "bin"


def check_installed_programs(programs: Path, version: str, folder: Path) -> None:
    """Raise ReleaseError unless the installed package has this version, draws the toy's figure and has results."""
    output = run_program([str(programs / "roarbench"), "--version"], folder)
    if output.strip() != f"roarbench {version}":
        raise ReleaseError(f"roarbench --version prints {output.strip()}, expected roarbench {version}")
    picture = folder / "toy.png"
    run_program([str(programs / "roarbench"), "toy", "-o", str(picture)], folder)
    if not picture.read_bytes().startswith(b"\x89PNG\r\n"):
        raise ReleaseError("roarbench toy -o toy.png did not write a PNG")
    run_program(
        [str(programs / "python"), "-c", "import roarbench; roarbench.load_published_results('quick').table()"], folder
    )


def run_program(command: list[str], folder: Path) -> str:
    """Run a command that cannot import modules of this source tree, and return its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise ReleaseError(f"{' '.join(command[:4])} … ended with {done.returncode}: {last}")
    return done.stdout


if __name__ == "__main__":
    main()
