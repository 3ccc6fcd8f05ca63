#!/usr/bin/env bash
# What a release must pass: `make release-check`, in a clean clone, with a network. Builds both distributions, installs the
# judge alone and both on every Python, without the lock as a stranger would, and runs them far from the clone; then builds
# the pages.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
export JAX_COMPILATION_CACHE_DIR=$PWD/.cache/jax

version=$(.venv/bin/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')
for file in CHANGELOG.md judge/CHANGELOG.md; do
  grep -Eq "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" "$file" || { echo "$file: write the line ## [$version] - DATE"; exit 1; }
done
[ -z "$(git status --porcelain)" ] || { echo "commit first: $(git status --porcelain | head -1)"; exit 1; }

rm -rf dist build
make wheel
"$uv" tool run --quiet twine check --strict dist/*

away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
for python in 3.11 3.12 3.13; do
  echo "== Python $python, without the lock"
  judge=dist/codea1_judge-$version-py3-none-any.whl
  for name in judge both; do "$uv" venv --quiet --python "$python" "$away/$python-$name"; done
  "$uv" pip install --quiet --python "$away/$python-judge" "$judge"
  "$uv" pip install --quiet --python "$away/$python-both" "$judge" "dist/codea1_jax-$version-py3-none-any.whl"
  (
    cd "$away"
    judge=$python-judge/bin bin=$python-both/bin
    "$judge/codea1-judge" check
    "$judge/python" -c 'from codea1_judge import Judge
with Judge() as judge:
    assert judge.judge("def double(x): return x + x", ["assert double(2) == 4"]).passed
    assert not judge.judge("def double(x): return x", ["assert double(2) == 4"]).passed'
    [ "$("$bin/codea1" --version)" = "$version" ]
    "$bin/codea1" train micro/a1 train.steps=2 warm_start.steps=20 data.problems=32 data.heldout_problems=8 eval.samples=2 \
      "run.directory=run-$python"
    "$bin/codea1" convert "run-$python" "model-$python" --role code
    "$bin/python" -c "import sys, transformers; transformers.AutoConfig.from_pretrained(sys.argv[1])" "model-$python"
  )
done

make docs
git diff --exit-code --stat # the generated pages are those that are committed
echo "release $version: all passed"
