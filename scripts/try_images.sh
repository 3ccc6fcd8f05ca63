#!/usr/bin/env bash
# Builds the images of launch/Dockerfile without Docker and without a registry, and runs `codea1 doctor` and the demo's
# training inside each: try_images.sh EXTRA..., as root, on a machine with buildah, bubblewrap and debootstrap. The base image is
# made here from Debian's packages: like python:3.11-slim it is Debian 12 with Python 3.11 and pip.
set -euo pipefail
cd "$(dirname "$0")/.."

base=docker.io/library/python:3.11-slim
work=$PWD/.cache/images
images() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }

make_base() {
    local container root
    container=$(images from scratch)
    root=$(images mount "$container")
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip bookworm "$root"
    rm "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
    ln -s python3 "$root/usr/bin/python"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # of the network that packages come from
    images config --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$container"
    images commit --quiet --rm "$container" "$base"
}

build() {
    images bud --quiet --layers=false --pull-never --isolation=chroot --build-arg "EXTRA=$1" \
        --file launch/Dockerfile --tag "codea1:$1" .
}

# Near to what `docker run --privileged` allows, which the jail needs; without a GPU or TPU, JAX computes on the CPU.
inside() {
    local root=$1
    shift
    bwrap --bind "$root" / --proc /proc --dev /dev --ro-bind /sys /sys --ro-bind /etc/resolv.conf /etc/resolv.conf \
        --cap-add ALL --unshare-pid --die-with-parent --clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin \
        --setenv HOME /root --setenv JAX_PLATFORMS cpu --chdir /work "$@"
}

try() {
    local container root
    container=$(images from --pull-never "codea1:$1")
    root=$(images mount "$container")
    inside "$root" codea1 doctor
    inside "$root" codea1 train micro/a1 run.directory=runs/demo # as `make demo`
    images rm "$container" >/dev/null
}

mkdir -p "$work"
images images --quiet "$base" | grep --quiet . || make_base
for name in "$@"; do
    build "$name"
    try "$name"
    echo "launch/Dockerfile, $name: built, checked, trained"
done
