"""The licence is there in full, and goes with whatever is built."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
# of https://www.apache.org/licenses/LICENSE-2.0.txt
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
BUILD = "import sys, setuptools.build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"


def test_the_licence_is_the_whole_of_apache_2_0():
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE


def test_what_is_built_carries_it(tmp_path):
    source, built = tmp_path / "source", tmp_path / "built"
    (source / "roarbench").mkdir(parents=True)
    built.mkdir()
    for name in ("LICENSE", "README.md", "pyproject.toml", "roarbench/__init__.py"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-c", BUILD, built], cwd=source, check=True, capture_output=True)
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    licence = (ROOT / "LICENSE").read_bytes()
    with ZipFile(wheel) as file:
        names = {name.partition(".dist-info/")[2]: name for name in file.namelist()}
        assert file.read(names["licenses/LICENSE"]) == licence
        about = file.read(names["METADATA"]).decode().splitlines()
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(about)
    with tarfile.open(archive) as sources:
        (name,) = [name for name in sources.getnames() if name.endswith("/LICENSE")]
        assert sources.extractfile(name).read() == licence
