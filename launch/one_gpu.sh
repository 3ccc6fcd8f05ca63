#!/usr/bin/env bash
# From a clone to an evaluated, exported model, on one GPU, or on a CPU where there is none:
#
#   bash launch/one_gpu.sh                    Qwen2.5-Coder 1.5B on KodCode's hard questions; on a CPU SmolLM2 135M on 60
#                                             questions of the micro world, about three hours. `codea1 init` forecasts them
#   bash launch/one_gpu.sh QUESTIONS.jsonl    the same models on your own questions (docs/your-own-data.md)
#   DRY_RUN=1 bash launch/one_gpu.sh          prints the commands
#
# MODEL and OUT choose others: MODEL=Qwen/Qwen3-1.7B OUT=runs/qwen3. With the same variables again, it continues. It needs no
# account and downloads the model and KodCode from the Hugging Face Hub. On one GPU its commands have been run, with SmolLM2 and
# 1,000 questions (BENCHMARKS.md), but not this script.
set -euo pipefail

own=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
OUT=${OUT:-runs/one_gpu}

run() {
    echo "+ $*"
    if [ -z "${DRY_RUN:-}" ]; then "$@"; fi
}
codea1() { run .venv/bin/codea1 "$@"; }

# 1. The environment, and what suits the machine.
run make venv
if command -v nvidia-smi >/dev/null; then
    run env VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --constraint requirements/lock.txt \
        --override requirements/overrides.txt --editable ".[${CUDA:-cuda12}]"
    MODEL=${MODEL:-Qwen/Qwen2.5-Coder-1.5B-Instruct}
    questions=${own:-data/kodcode} measured=evalplus/humanevalplus longest=4096
else
    export JAX_PLATFORMS=cpu
    MODEL=${MODEL:-HuggingFaceTB/SmolLM2-135M-Instruct}
    questions=${own:-$OUT/questions.jsonl} measured=${own:-$OUT/unseen.jsonl} longest=256
fi

# 2. Questions, and others to measure by.
if [ "$questions" = data/kodcode ] && [ ! -e data/kodcode ]; then
    codea1 data prepare kodcode
fi
if [ "$measured" = "$OUT/unseen.jsonl" ]; then
    run mkdir -p "$OUT"
    run .venv/bin/python -c "from data_pipeline import micro, problem_files as files
files.write('$OUT/questions.jsonl', micro.problems('train', 60, 0))
files.write('$OUT/unseen.jsonl', micro.problems('heldout', 64, 0))"
fi

# 3. A configuration that suits them, and whether anything is missing.
if [ ! -e "$OUT/config.yaml" ]; then
    codea1 init "$OUT" --data "$questions" --model "$MODEL"
fi
if [ ! -e "$OUT/run" ]; then codea1 doctor "$OUT"; fi

# 4. Training. SmolLM2 as Test LLM first imitates golden tests, or hardly any of its own would be right; for other small models
# see docs/your-own-data.md.
start=()
if [[ $MODEL == *SmolLM2* ]]; then
    codea1 train "$OUT" method.name=sft train.steps=24 eval.every=6 run.directory="$OUT/sft" --resume
    start=(test.start="$OUT/sft")
fi
codea1 train "$OUT" "${start[@]}" --resume

# 5. Before and after: by questions that were not trained on, except for your own on a CPU, of which most were.
codea1 eval code --data "$measured" --model "$MODEL" --n 8 --max-tokens "$longest" --out "$OUT/eval-before"
codea1 eval code --data "$measured" --model "$OUT" --n 8 --max-tokens "$longest" --out "$OUT/eval-after"

# 6. Both models in the Hugging Face format, and the report.
for role in code test; do
    if [ ! -e "$OUT/exported-$role" ]; then codea1 convert "$OUT" "$OUT/exported-$role" --role "$role"; fi
done
echo "done: $OUT/run/report.html, $OUT/exported-code, $OUT/exported-test"
