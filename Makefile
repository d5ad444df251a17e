# make chip      build the bundled network's chip into gds_out/
# make test      run the linters and a test of every property, in about eight minutes
# make full      run the other tests: repetitions over devices, sizes, processes and applications (half an hour)
# make quick     run a linter and one test of every file, in about a minute
# make bench     measure the speed of kernels and commands against fixed references, and write results/speed.json (minutes)
# make rules     test every design rule on generated layouts and write results/rules.json
# make mutants   inject every kind of fault into four chips and write results/mutants.json (half an hour)
# make circuits  check faults in the circuits of examples/circuits and write results/circuits.json (minutes)
# make faults    kill, interrupt and starve the commands at every file operation and print a table (half an hour)
# make fuzz      read a million mutated files of every kind and write results/fuzzing.json (half an hour)
# make trainings  train small networks with every scheme and write results/training.json (an hour)
# make scenarios  build a chip for every scenario of the paper and write results/scenarios.json (an hour)
# make results   list the studies of results/, and what has changed since each was measured
# make figures   draw the figures of docs/ that a single command draws
# make docs      write the documentation site into site/; open site/index.html
# make peers     install the wheel with the newest cspdk, gplugins and sax, and build the default chip there (minutes)
# make interconnect  simulate all-reduces on every system and write results/interconnect.json (minutes)
# Each makes its own environment in .venv; a Python from 3.11 to 3.13 is all they need.

VENV := .venv
BIN := $(VENV)/bin

# gdsfactory 9.45 supports Python 3.11 to 3.13, and 9.46 to 9.51 support 3.12 to 3.14: take the first of 3.11 to 3.13.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
    "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
    && { echo "$$p"; break; }; done)

# Workers of pytest and threads of the linear algebra would otherwise multiply.
export OMP_NUM_THREADS ?= 1

PEERS := cspdk gplugins sax

# How many of the slowest tests are listed.
DURATIONS ?= 20

# Tests whose results could depend on the processor.
NUMBERS := tests/drive tests/factor tests/matrices tests/models tests/networks tests/simulate tests/studies tests/pipeline/test_building.py

.DELETE_ON_ERROR:
.PHONY: chip test full portable bench quick lint unit golden results rules mutants circuits docs faults fuzz peers trainings \
    interconnect scenarios figures

chip: $(VENV)/.chip
	$(BIN)/optinc build

test: lint unit

lint: $(VENV)/.dev
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --scope test --durations=$(DURATIONS)

full: $(VENV)/.dev portable
	$(BIN)/python -m pytest -n 2 --dist worksteal --scope full --durations=$(DURATIONS)

# Tests of numbers with the kernels for the oldest processors: NumPy without the instructions that it looks for, OpenBLAS
# for processors of 2004, and numba for none in particular.
portable: $(VENV)/.dev
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c 'from numpy._core import _multiarray_umath as kernels; print(*(name \
	    for name in kernels.__cpu_dispatch__ if kernels.__cpu_features__[name]))')" \
	OPENBLAS_CORETYPE=Prescott NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=$(VENV)/generic_kernels \
	$(BIN)/python -m pytest -n 2 --dist worksteal --scope test $(NUMBERS)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/speed.py

# One representative of everything: the first test of every file.
quick: $(VENV)/.dev
	$(BIN)/ruff check --no-cache .
	$(BIN)/python -m pytest -n 2 --dist worksteal --scope quick --durations=20

mutants: $(VENV)/.dev
	PYTHONPATH=tests/signoff:benchmarks $(BIN)/python -m mutants

# Runs the tutorials; fails on broken links, missing anchors and pages without a place in the navigation.
docs: $(VENV)/.docs
	PATH="$(abspath $(BIN)):$$PATH" PYTHONPATH=benchmarks NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "documentation: $(CURDIR)/site/index.html"

results: $(VENV)/.chip
	$(BIN)/python benchmarks/studies.py

# Draws those of benchmarks/docs_figures.py, in about a minute.
figures: $(VENV)/.chip
	$(BIN)/python benchmarks/docs_figures.py

circuits: $(VENV)/.dev
	PYTHONPATH=tests/examples:benchmarks $(BIN)/python -m circuit_faults

# Needs Linux: faults are found by audit hooks and /proc.
faults: $(VENV)/.dev
	PYTHONPATH=tests/faults $(BIN)/python -m file_faults
	$(BIN)/python tests/faults/test_threads.py 50
	$(BIN)/python tests/faults/test_terminals.py
	$(BIN)/python tests/faults/test_paths.py
	$(BIN)/python tests/faults/test_signals.py
# What it finds is kept in fuzz_out/: the input and the traceback.
fuzz: $(VENV)/.dev
	PYTHONPATH=tests/fuzz:benchmarks $(BIN)/python -m fuzzing --record

# Rewrites every process's golden polygons of devices after a cell or card changed on purpose.
golden: $(VENV)/.chip
	for process in components/*/process.yml; do $(BIN)/optinc process golden --process $$(dirname $$process) || exit; done

# Tests every design rule on generated layouts and writes the table of what they found.
rules: $(VENV)/.dev
	PYTHONPATH=tests/signoff:benchmarks $(BIN)/python -m rule_cases

trainings: $(VENV)/.dev
	PYTHONPATH=benchmarks $(BIN)/python examples/training/table.py

scenarios: $(VENV)/.chip
	$(BIN)/python benchmarks/scenarios.py run

interconnect: $(VENV)/.chip
	$(BIN)/python benchmarks/interconnect.py

# One environment for all, of its own; uv finds in seconds the versions for which pip searches more than ten minutes.
peers:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || \
	    { echo "the newest cspdk needs Python 3.12 or later: say make peers PYTHON=/path/to/python" >&2; exit 1; }
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && set -e; \
	"$(PYTHON)" -m venv "$$folder/environment"; \
	python="$$folder/environment/bin/python"; \
	"$$python" -m pip wheel --quiet --no-deps --wheel-dir "$$folder" .; \
	"$$python" -m pip install --quiet uv; \
	"$$python" -m uv pip install --quiet --python "$$python" "$$folder"/*.whl $(PEERS); \
	"$$python" -m pip check; \
	"$$python" -m pip list | grep -E '^(optinc-pdk|gdsfactory|kfactory|klayout|numpy|$(subst $() ,|,$(PEERS))) '; \
	"$$python" -W ignore -c "import cspdk, gplugins, sax"; \
	cd "$$folder" && environment/bin/optinc build -o out

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "needs Python 3.11, 3.12 or 3.13: install one, or say make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps' order lets both targets share one environment: dev is chip plus what the tests need.
$(VENV)/.chip: pyproject.toml hatch_build.py | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.chip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.chip
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@
