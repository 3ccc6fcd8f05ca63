#!/bin/bash
# cgroup_vm.sh COMMAND...: runs a command in this folder as root of a virtual machine whose kernel grants cgroup v2.
# The machine sees the files of this host and writes to memory. Needs Debian's qemu-system-x86, busybox-static and cpio;
# Debian's kernel is downloaded once, into .cache/. Without KVM, so it is some ten times slower than the host.
set -eu
modules="virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay"
kernel=$PWD/.cache/kernel
if ! ls "$kernel"/boot/vmlinuz-* >/dev/null 2>&1; then
    mkdir -p "$kernel"
    package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
    (cd "$kernel" && apt-get download -q "$package" && dpkg-deb -x ./*.deb . && rm ./*.deb)
fi

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.gz"' EXIT
mkdir -p "$root"/{bin,modules,proc,sys,dev,lower,upper,new}
cp "$(command -v busybox)" "$root/bin/busybox"
for module in $modules; do
    find "$kernel/lib/modules" -name "$module.ko" -exec cp {} "$root/modules/" \;
done
printf 'cd %q && export PYTHONPATH=%q HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin\n%s\n' "$PWD" "$PWD" "$*" > "$root/command"
cat > "$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin; export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $modules; do insmod /modules/\$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /lower
mount -t tmpfs upper /upper; mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new
for folder in proc sys dev; do mount --move /\$folder /new/\$folder; done
mount -t tmpfs -o mode=1777 tmp /new/tmp; mount -t tmpfs run /new/run
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
ln -s /proc/self/fd /new/dev/fd; ip link set lo up; cp /command /new/run/
exec switch_root /new /bin/bash -c 'bash /run/command; echo "exit status: \$?"; echo o > /proc/sysrq-trigger; sleep 60'
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --create --format=newc --quiet | gzip -1) > "$root.gz"
timeout "${VM_SECONDS:-600}" qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 2048 -nographic -no-reboot \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$root.gz" -append "console=ttyS0 loglevel=3 panic=-1" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap < /dev/null |
    tr -d '\r' | tee "$root/console"
grep -q "^exit status: 0" "$root/console"
