#!/usr/bin/env bash
# Install the wheel in other ways than `pip install` in a virtual environment, and run a part of the tests with the
# declared minima and with the newest releases.
#
#   scripts/environments.sh [wheel] [target] [pythonpath] [overlay] [minimum] [newest]     all of them by default
#
# Needs uv, bubblewrap and a package registry. Each line says what was tried; the first failure ends the program.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-python3.11}
cd "$folder"
export ROARBENCH_STORE=$folder/store
# networks, figures, rows of other packages, packages on the path: what a library's version has changed before
tests=(test_frozen.py compute/test_truncated_normal.py report/test_curve_panels.py datasets/test_formats.py
    submissions/test_installed_packages.py estimators/test_random_draws.py api/test_source.py
    datasets/test_table_columns.py datasets/test_infer_dataset.py estimators/test_layer_search.py)

build_wheel() {
    [ -d dist ] && return
    mkdir source
    git -C "$root" archive HEAD | tar x -C source
    uv build -q --wheel -o dist source
}

# check COMMAND...: that the command runs Python with roarbench: a submission, published results, a function of captum
check() {
    rm -f my_estimator.py
    "$@" -m roarbench new-submission my-estimator
    "$@" -m roarbench validate my_estimator.py
    "$@" -c 'import roarbench as rb; assert len(rb.load_published_results("quick").to_dataframe())'
    "$@" -c 'import roarbench as rb
from captum.attr import Saliency
print(rb.write_submission(Saliency, "saliency-here", "."))'
    rm -f saliency_here.py
}

try_wheel() {
    uv venv -q -p "$python" bare
    uv pip install -q -p bare dist/*.whl
    check bare/bin/python
}

try_target() {
    uv pip install -q -p "$python" --target target dist/*.whl
    check env PYTHONPATH="$folder/target" "$python"
}

try_pythonpath() { # an empty environment, and packages of another on PYTHONPATH, as modules of clusters set it
    uv venv -q -p "$python" empty
    uv venv -q -p "$python" other
    uv pip install -q -p other dist/*.whl
    check env PYTHONPATH="$(echo "$folder"/other/lib/*/site-packages)" empty/bin/python
}

try_overlay() {
    mkdir project
    printf '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = ["roarbench"]\n' \
        >project/pyproject.toml
    printf '[tool.uv.sources]\nroarbench = { path = "%s" }\n' dist/*.whl | sed "s#dist/#$folder/dist/#" \
        >>project/pyproject.toml
    check uv run -q -p "$python" --project project --with six python
}

run_tests() { # NAME, and arguments of `uv pip install`
    local name=$1
    shift
    uv venv -q -p "$python" "$name"
    uv pip install -q -p "$name" "$@" -r "$root/pyproject.toml" --extra dev --extra leaderboard --extra postgres
    uv pip list -q -p "$name" | grep -E '^(captum|matplotlib|numpy|pillow|torch) '
    (cd "$root" && PYTHONPATH=$root "$folder/$name/bin/python" -m pytest -q -rs -p no:cacheprovider -W default "${tests[@]/#/tests/}")
}

try_minimum() { run_tests minimum --resolution lowest-direct; }
try_newest() { run_tests newest; }

for name in "${@:-wheel target pythonpath overlay minimum newest}"; do
    for way in $name; do
        case $way in minimum | newest) ;; *) build_wheel ;; esac
        "try_$way"
        echo "$way: works"
    done
done
