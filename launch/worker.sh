#!/usr/bin/env bash
# One worker's part of a launch; runs on a TPU VM, in the home directory that source.tar.gz was copied to:
#   worker.sh install EXTRAS                    install the tree, its Python and its packages
#   worker.sh jail                              try the jail
#   worker.sh start FOLDER RUN ARGUMENTS...     start codea1 ARGUMENTS, detached; upload RUN to FOLDER (gs://...), which
#                                               also keeps compiled programs: a new slice has none
#   worker.sh status | logs | stop
# Repeating a command is safe.
set -euo pipefail

root=${CODEA1_ROOT:-/opt/codea1} # not in a home directory, where the jail could not read Python
state=$HOME/.codea1-training     # log, pid of `train`, pid of codea1, exit code
upload_every=300
# Seconds. On SIGTERM training ends what it samples or learns, saves and uploads: up to 50 GB per host in the shipped presets.
stop_within=300

install() {
    local extras=$1 wanted
    if is_running; then return; fi # it uses these files
    wanted="$(sha256sum <source.tar.gz) $extras"
    if [[ "$(cat "$root/installed" 2>/dev/null)" == "$wanted" ]]; then return; fi
    if [[ ! -w $root ]]; then
        sudo mkdir -p "$root"
        sudo chown "$(id -un)" "$root"
    fi
    rm -rf "$root/installed" "$root/source"
    mkdir "$root/source"
    tar -xzf source.tar.gz -C "$root/source"
    python3 -m pip install --quiet --disable-pip-version-check --upgrade --target "$root/uv" uv==0.13.8
    export UV_PYTHON_INSTALL_DIR=$root/python
    "$root/uv/bin/uv" venv --quiet --clear --managed-python --python 3.11 "$root/venv"
    VIRTUAL_ENV=$root/venv "$root/uv/bin/uv" pip install --quiet --constraint "$root/source/requirements/lock.txt" \
        --override "$root/source/requirements/overrides.txt" --editable "$root/source[$extras]"
    echo "$wanted" >"$root/installed"
}

jail() {
    "$root/venv/bin/codea1" sandbox check
}

is_running() {
    local pid
    pid=$(cat "$state/train.pid" 2>/dev/null) && grep -qs worker.sh "/proc/$pid/cmdline" # else another process has that pid
}

start() {
    if is_running; then return; fi
    mkdir -p "$state"
    rm -f "$state/exit" "$state/train.pid"
    setsid nohup bash "$0" train "$@" >>"$state/log" 2>&1 </dev/null &
    until [[ -s $state/train.pid ]]; do sleep 0.05; done
}

# Runs detached. A signal to all processes, as in a preemption, must not end the shell before its child.
train() {
    local folder=$1 run=$2 code=0 child next
    shift 2
    trap : TERM INT
    echo $$ >"$state/train.pid" # not earlier: until the shell has started, its command line is empty
    ulimit -Sn hard # the judge has about one worker per core, and each holds descriptors
    export JAX_COMPILATION_CACHE_DIR="${JAX_COMPILATION_CACHE_DIR:-$folder/compiled}"
    JAX_PLATFORMS=tpu "$root/venv/bin/codea1" "$@" &
    child=$!
    echo "$child" >"$state/codea1.pid"
    next=$((SECONDS + upload_every))
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.5 || true
        if ((SECONDS >= next)); then
            upload "$folder" "$run"
            next=$((SECONDS + upload_every))
        fi
    done
    wait "$child" || code=$?
    upload "$folder" "$run"
    echo "$code" >"$state/exit.new"
    mv "$state/exit.new" "$state/exit"
}

# Only the first process writes a run's files; on other workers there is nothing to upload.
upload() {
    if [[ ! -f $2/config.yaml ]]; then return; fi
    gcloud storage rsync --recursive --quiet "$2" "$1/run" || echo "worker.sh: uploading $2 failed" >&2
}

status() {
    if is_running; then
        echo "training: running"
    elif [[ -f $state/exit ]]; then
        echo "training: exit $(cat "$state/exit")"
    elif [[ -f $state/train.pid ]]; then
        echo "training: lost" # with the machine, or killed
    else
        echo "training: none"
    fi
}

logs() {
    if is_running; then
        tail -n +1 -F --sleep-interval=0.5 --pid="$(cat "$state/train.pid")" "$state/log"
    else
        cat "$state/log"
    fi
}

stop() {
    if ! is_running; then return; fi
    kill -TERM "$(cat "$state/codea1.pid")" 2>/dev/null || true
    timeout "$stop_within" tail -f --sleep-interval=0.5 --pid="$(cat "$state/train.pid")" /dev/null
}

"$@"
