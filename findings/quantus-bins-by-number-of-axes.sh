#!/usr/bin/env bash
# Guess: the five rules for bins of Quantus' EfficientMPRT (square root, Sturges, Rice, Scott, Freedman-Diaconis) choose
#   the bins of the discrete entropy by the number of values, as NumPy's rules of the same names do.
# Behaviour: with Quantus 0.6.0 they read the number of axes of a map, 3, instead of its 784 or 150,528 values. They
#   ask for 1 to 10 bins where NumPy has 11 to 34 for 784 values, and EfficientMPRT raises what is below 10 to 10: all
#   rules, data sets and sizes have 10 bins. The entropy of a map in 10 bins is at most 2.3; "no rule" has 100 bins.
# Cause: `n = a_batch[0].ndim` where the size is meant (quantus/functions/n_bins_func.py).
# Why it matters: the score is the rise of entropy by randomised weights. Of maps with a few large values nearly all
#   pixels share one bin, so the entropy is near 0; one outlier decides it.
# Versions: quantus 0.6.0, torch 2.13.0, numpy 2.4.6. The paper: https://arxiv.org/abs/2401.06465.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q quantus==0.6.0 torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from quantus import EfficientMPRT
from quantus.functions import n_bins_func

generator = np.random.default_rng(0)
for side, channels in ((28, 1), (224, 3)):
    maps = generator.exponential(size=(16, channels, side, side))
    for rule, function, numpy_name in (
        ("Square Root", n_bins_func.square_root_choice, "sqrt"),
        ("Sturges Formula", n_bins_func.sturges_formula, "sturges"),
        ("Rice", n_bins_func.rice_rule, "rice"),
        ("Scotts", n_bins_func.scotts_rule, "scott"),
        ("Freedman Diaconis", n_bins_func.freedman_diaconis_rule, "fd"),
    ):
        metric = EfficientMPRT(complexity_func_kwargs={"rule": rule}, disable_warnings=True)
        metric.find_n_bins(a_batch=maps, debug=False)
        asked, used = function(a_batch=maps), metric.complexity_func_kwargs["n_bins"]
        right = len(np.histogram_bin_edges(maps[0], numpy_name)) - 1
        print(f"{rule}, {maps[0].size} values: asks for {asked}, uses {used}; NumPy {right}")
        assert asked <= 10 and used == 10 and right > 10, "the behaviour changed"
PYTHON
