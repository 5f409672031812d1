# Each target sets up .venv by itself when it is missing or out of date.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP = $(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: cliff test verify try golden bench lint clean

cliff: $(VENV)/.ready ## one million libraries: the table and figures of the cliff
	$(RUN) -m sim +sweep=cliff

test: $(VENV)/.dev ## the fast suite
	$(RUN) -m pytest -n 2 --dist loadscope tests

verify: $(VENV)/.dev ## the slow suite: exact theory, an independent model, broken kernels, slow faults
	$(RUN) -m pytest -n 2 -m slow tests; slow=$$?; $(RUN) -m pytest -n 2 tests/verification; status=$$?; $(RUN) -m tests.verification; \
	exit $$((slow + status))

try: $(VENV)/.dev ## two rounds of the real loop with a real small model on a few tasks of MBPP+
	out=$$(mktemp -d) && $(RUN) -m real_loop subset=mbpp model=local/qwen2.5-coder-0.5b subset.n_train=4 subset.n_eval=2 \
	policy.rounds=2 policy.window=1 writing.min_cluster=1 roles.solver.max_tokens=200 out=$$out; status=$$?; rm -rf $$out; exit $$status

golden: $(VENV)/.dev ## write the golden files anew from the plain-Python reference
	$(RUN) -m tests.golden

bench: $(VENV)/.dev ## speed beside C, NumPy and plain Python; growth; the whole command
	$(RUN) -m benchmarks

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "halfblind needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.ready # what tests, benchmarks and checks need besides: JAX, Dask and more
	$(PIP) --editable '.[dev]'
	touch $@

clean: ## remove the environment and what it compiled; results in outputs/ stay
	rm -rf $(VENV) build *.egg-info
