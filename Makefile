# Everything a user runs. Each target makes the environment it needs; `make venv` makes it alone.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
export JAX_PLATFORMS ?= cpu

.PHONY: help demo selftest test suite plan-all bench-learner test-all release-check test-rows test-model test-cuda test-cuda-all test-cgroups lock bench-sandbox bench-rollout rehearse-all lint venv docs docs-links notices wheel clean

# --- environments: .venv/base is a marker of what is installed ------------------------------------

.venv/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.8

.venv/base: .venv/bin/uv requirements/lock.txt pyproject.toml setup.cfg judge/pyproject.toml
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --constraint requirements/lock.txt --editable .
	touch $@

.venv/dev: .venv/base
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --constraint requirements/lock.txt --override requirements/overrides.txt \
		--editable '.[dev]'
	touch $@

.venv/notebooks: .venv/base
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --compile-bytecode --constraint requirements/lock.txt --editable '.[notebooks]'
	touch $@

# XLA's CUDA compiler (0.2 GB), next to .venv: no GPU and no driver needed.
.venv-cuda/compiler: .venv/bin/uv requirements/lock.txt
	rm -rf .venv-cuda
	VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --target .venv-cuda --constraint requirements/lock.txt \
		jax-cuda12-pjrt jax-cuda12-plugin nvidia-cuda-nvcc-cu12
	touch $@

venv: .venv/base  ## makes .venv, which the others make too

# Pins for `dev`, the notebooks and the images of launch/ on every Python, keeping the versions that still fit.
lock: .venv/bin/uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --constraint requirements/pairs.txt --no-header --no-annotate \
		--override requirements/overrides.txt --extra dev --extra notebooks --extra tpu --extra cuda12 --extra cuda13 \
		--no-emit-package codea1-judge \
		--output-file requirements/lock.txt pyproject.toml

help:  ## lists what there is to make
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## /{printf "make %-10s %s\n", $$1, $$2}' Makefile

# --- what one does --------------------------------------------------------------------------------

demo: .venv/base  ## trains the micro world, and writes a report
	@if [ -e runs/demo ]; then rm -rf runs/demo-before; mv runs/demo runs/demo-before; echo "the earlier demo is now runs/demo-before"; fi
	$(BIN)/codea1 train micro/a1 run.directory=runs/demo

# Proves this machine's kernels. Minutes; PRESET is chosen by the devices.
selftest: .venv/base  ## proves this machine's kernels
	$(BIN)/codea1 selftest $(PRESET)

# Executes the notebooks for laptops, minutes, and changes none of them: runs go to notebooks/runs.
.PHONY: notebooks  # a folder has this name
notebooks: .venv/notebooks  ## executes the notebooks
	$(BIN)/jupyter execute notebooks/first_run.ipynb notebooks/read_a_run.ipynb notebooks/judge_answers.ipynb

lint: .venv/dev  ## style, types and scripts
	$(LATER) $(BIN)/ruff check .
	$(LATER) $(BIN)/ruff format --check .
	$(LATER) $(BIN)/pyright
	$(LATER) $(BIN)/shellcheck .ci/run launch/worker.sh launch/slurm.sbatch launch/one_gpu.sh scripts/release_check.sh tests/support/cgroup_vm.sh

# Lint takes the time in which the tests wait for a jail or a process.
test:  ## lint and the quick tests
	$(MAKE) -j 2 suite lint LATER="nice -n 19"

suite: .venv/dev
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -o faulthandler_timeout=900 -m "not long and not gpu" $(addprefix tests/,$(ROOM))

test-all: lint  ## and the long ones: an hour or more
	$(BIN)/pytest -n 1 --dist loadfile -m "not gpu" --jaxtyping-packages=codea1_jax,typechecking.checked
	$(if $(DATA),$(BIN)/pytest -vv -n 1 --dist loadfile -m "not gpu" --data="$(DATA)")

# The tests on the datasets' own rows, which nothing else needs: DATA holds them.
test-rows: .venv/dev
	$(BIN)/pytest -vv -n 2 --dist loadfile -m "not long and not gpu" --data="$(DATA)"

# Compares a Qwen2.5-Coder in the directory MODEL with TRUTH, which tests/support/make_qwen_truth.py writes.
test-model: .venv/dev
	$(if $(and $(MODEL),$(TRUTH)),,$(error usage: make test-model MODEL=DIR TRUTH=FILE))
	QWEN_MODEL="$(MODEL)" QWEN_TRUTH="$(TRUTH)" $(BIN)/pytest -vv tests/models/test_qwen.py

# Compiles phases of the GPU presets for GPUs that are not here; test-cuda-all does so for every architecture.
test-cuda: .venv/dev .venv-cuda/compiler
	PYTHONPATH=.venv-cuda $(BIN)/pytest -n 2 tests/cuda -m "not long"

test-cuda-all: .venv/dev .venv-cuda/compiler
	PYTHONPATH=.venv-cuda $(BIN)/pytest -n 2 tests/cuda

# The tests of cgroups in a virtual machine whose kernel grants them. A few minutes.
test-cgroups: .venv/dev
	tests/support/cgroup_vm.sh $(BIN)/python -m pytest -c /dev/null --rootdir . --noconftest -q tests/sandbox/host/test_cgroup.py

bench-sandbox: .venv/base
	$(BIN)/python benches/bench_sandbox.py

bench-rollout: .venv/base
	$(BIN)/python benches/bench_rollout.py

# Compiles every hardware preset for its TPUs or GPUs, minutes each, and writes docs/plan.md; or those in PRESETS.
plan-all: .venv/dev .venv-cuda/compiler
	PYTHONPATH=.venv-cuda $(BIN)/python benches/plan_all.py $(PRESETS)

# Rehearses the presets of every size, method and kind of hardware in turn, minutes each, or those in PRESETS; ends at the
# first that fails, and does not repeat those that left rehearsals/NAME.passed. WITH="key=value ..." names data that is here.
rehearse-all: PRESETS ?= $(foreach m,1.5b 3b 7b,$(foreach h,h100 v5p v6e v5e,$(foreach w,a1 golden self_play sft,$(m)/$(w)_$(h))))
rehearse-all: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/rehearsed_programs
rehearse-all: .venv/base
	@for preset in $(PRESETS); do \
		passed="rehearsals/$$(echo "$$preset" | tr / -).passed"; \
		[ -e "$$passed" ] || { $(BIN)/codea1 rehearse "$$preset" $(WITH) && touch "$$passed"; } || exit 1; \
	done

bench-learner: .venv/base
	$(BIN)/python benches/bench_learner.py

# --- documentation and releases -------------------------------------------------------------------

# A warning, such as a link that leads nowhere, is an error.
docs: .venv/dev  ## writes reference pages and builds the documentation
	$(BIN)/python scripts/write_config_reference.py
	$(BIN)/python scripts/write_fidelity.py
	$(BIN)/python -m sphinx --quiet --nitpicky --fail-on-warning -b html docs docs/_build/html

docs-links: .venv/dev
	$(BIN)/python -m sphinx --quiet -b linkcheck docs docs/_build/links

notices: .venv/dev
	$(BIN)/python scripts/write_third_party.py

wheel: .venv/dev  ## builds both packages
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist judge

# All that a release must pass, in a clean clone with a network; about ten minutes.
release-check: .venv/dev
	scripts/release_check.sh

clean:
	rm -rf .venv .cache build dist docs/_build *.egg-info
