# `make demo` and `make test` work on a fresh machine: they make .venv and install into it first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
DEMO ?= demo
PARALLEL ?= -n auto --dist loadfile
PARALLEL_SLOW ?= -n auto --dist worksteal

.PHONY: demo test test-core test-slow lint types results docs install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/discrete-diffusion train experiment=demo hydra.run.dir=$(DEMO) overwrite=true
	$(BIN)/discrete-diffusion sample checkpoint=$(DEMO) num_samples=6 num_rooms=7 trajectory=6 out=$(DEMO)/animation
	$(BIN)/discrete-diffusion sample checkpoint=$(DEMO) num_samples=4 num_rooms=7 livable=true realise=true out=$(DEMO)/plans
	@echo
	@echo "Sampled diagrams: $(DEMO)/samples.png, coming out of the noise: $(DEMO)/animation/trajectory.gif,"
	@echo "floor plans that keep rules of living: $(DEMO)/plans/floor_plans.svg, numbers: $(DEMO)/metrics.json"
	@echo
	@echo "To go on: draw diagrams of six rooms that can be built, find floor plans of 90 m2 for them, complete a partial"
	@echo "diagram, measure the model on plans that it has not seen:"
	@echo
	@echo "  $(BIN)/discrete-diffusion sample checkpoint=$(DEMO) num_rooms=6 num_samples=16 buildable=true out=$(DEMO)/six_rooms"
	@echo "  $(BIN)/discrete-diffusion plans realise $(DEMO)/six_rooms/samples.jsonl total_area=90 out=$(DEMO)/floor_plans"
	@echo "  $(BIN)/discrete-diffusion sample checkpoint=$(DEMO) given=examples/partial.jsonl out=$(DEMO)/completed"
	@echo "  $(BIN)/discrete-diffusion evaluate checkpoint=$(DEMO) quick=true out=$(DEMO)/evaluation"

# The rewritten asserts of the tests are kept between runs, whatever the shell says of bytecode.
test test-core test-slow: export PYTHONDONTWRITEBYTECODE :=

test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL)

# The framework while the packages that plug into it cannot be imported; random graphs stand in for
# the default data.
test-core: $(STAMP)
	PYTHONPATH=$(CURDIR)/tests/alone:$(CURDIR)/tests/stand_in:$(CURDIR)/tests \
		$(BIN)/python -m pytest $(PARALLEL) tests/discrete_diffusion

test-slow: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL_SLOW) -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# benchmarks/REPORT.md and the figures of docs/ from benchmarks/results/*.json; nothing is measured.
results: $(STAMP)
	$(BIN)/python benchmarks/results.py

# The site, in build/site; a warning ends it.
docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -f site/mkdocs.yml

clean:
	rm -rf $(VENV) $(DEMO) $(DEMO).replaced-* dist .pytest_cache .mypy_cache .ruff_cache
