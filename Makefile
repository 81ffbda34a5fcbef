# make run: the main job on bundled photographs; make run SUITE=quick-roar: the paper's figure.   make test: everything that is checked.   make demo: a board to look at.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SUITE ?= quick
unexport PYTHONDONTWRITEBYTECODE  # pip has compiled nothing: unless it is kept, each process compiles all modules

PORT ?= 8501

.PHONY: run demo test first-gpu quick-test soak environments site install install-test check benchmark release clean

run: install
	$(BIN)/roarbench run --suite $(SUITE)
	$(BIN)/roarbench plot --suite $(SUITE) -o $(SUITE).png

demo: build/demo/results.sqlite
	@echo "the board: http://127.0.0.1:$(PORT)"
	$(BIN)/roarbench leaderboard --store build/demo --port $(PORT)

build/demo/results.sqlite: results/index.json scripts/make_demo.py $(VENV)/installed-board
	@echo "the published results, into build/demo: once, less than a minute"
	$(BIN)/python scripts/make_demo.py build/demo

# a GPU: ten steps, each with what to expect, 40 minutes at most; build/gpu/report.md
first-gpu: install-test
	$(BIN)/python scripts/first_gpu.py

# the daily loop: without a browser, processes, PostgreSQL and what is slow
quick-test: install-test
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not (browser or process or slow or postgres)"

# the checks, which use one core, run beside the tests; what they say comes last; Ctrl-C, which a shell keeps from
# commands with `&`, ends both
test: install-test
	@$(MAKE) --no-print-directory check >$(VENV)/check.txt 2>&1 & checking=$$!; \
		trap 'kill $$checking 2>/dev/null' INT TERM; \
		$(BIN)/python -m pytest -n 2 --dist worksteal; tested=$$?; \
		wait $$checking; checked=$$?; \
		if [ $$checked = 0 ]; then echo "ruff, mypy and import-linter: passed"; else cat $(VENV)/check.txt; fi; exit $$((tested || checked))

# faults and claims at length: at most half an hour; imagecodecs is another decoder of the format corpus
soak: install-test
	$(BIN)/pip install -qq --no-compile -c constraints.txt imagecodecs==2026.3.6
	$(BIN)/python -m pytest -n 2 -m soak -rP

# the wheel installed in other ways, and tests with the oldest and the newest releases of packages; needs uv
environments:
	scripts/environments.sh

check: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the old commit of benchmarks/peers/test_reading.py uses typer
benchmark: install-test
	$(BIN)/pip install -qq --no-compile -c constraints.txt typer==0.29.1
	$(BIN)/python -m pytest benchmarks/peers --benchmark-only

# the documentation, into build/site
site: install-test
	$(BIN)/python scripts/site_pages.py

# sdist, wheel and the tag's text into dist/, the wheel tried in bare environments; tag and upload are yours
release: install-test
	$(BIN)/python scripts/release.py --out dist

install: $(VENV)/installed
install-test: $(VENV)/installed-test

# torch first: a later resolution that finds it installed leaves it as it is; with its torchvision, from one index
# at the same time the large packages that torch does not need: one pip uses one core
# --no-compile: pip would compile all modules, which takes half of the time; imports compile the few that they need,
# the first of them while pip goes on
# -qq: pip's errors, and none of its warnings about the machine's settings
BESIDE_TORCH := pyarrow pandas scipy matplotlib fonttools sqlalchemy contourpy cycler kiwisolver pyparsing \
	packaging python-dateutil six tzdata
$(VENV)/installed: pyproject.toml constraints.txt
	@echo "an environment in $(VENV): a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq --no-compile -c constraints.txt torch torchvision & \
		$(BIN)/pip install -qq --no-compile --no-deps -c constraints.txt $(BESIDE_TORCH) && wait $$!
	$(BIN)/python -c "import torch, pyarrow.parquet, scipy.stats, matplotlib.pyplot" & \
		$(BIN)/pip install -qq --no-compile -c constraints.txt -e .
	touch $@

$(VENV)/installed-board: $(VENV)/installed
	$(BIN)/pip install -qq --no-compile -c constraints.txt -e '.[leaderboard]'
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install -qq --no-compile -c constraints.txt -e '.[dev,leaderboard,postgres,quantus,ray]'
	touch $@

clean:
	rm -rf $(VENV) dist
