#!/usr/bin/env bash
# Runs a command in a virtual machine with Debian 12, its kernel, systemd and control
# groups of version 2 alone.
#
#   scripts/vm.sh [OPTION…] COMMAND [ARGUMENT…]
#     --user         run it in a login session of the user "user", not as root
#     --share DIR    a folder whose content is copied to /share in the machine
#     --memory MIB   memory of the machine (2048)
#     --cpus N       processors of it (2)
#     --limit S      end after that many seconds, with status 124 (900)
#     --add NAMES    Debian packages to have too, separated by commas
#     --verbose      show what the kernel and systemd print, too
#   scripts/vm.sh build [--add NAMES]   make the machine, unless it is cached
#
# The command's standard output and error go to this script's output, and its exit
# status is that of the script. The command starts in /share. It gets no input. The
# machine has no network interface but its loopback, and starts anew each time: what
# a command changes is gone when it has ended. The user "user" lingers: his service
# manager runs without a session, too, and he has ranges in /etc/subuid and
# /etc/subgid. Root may use `docker`, whose service starts when it is used first.
#
# Where the processor can, the machine runs by KVM, with Debian's kernel for clouds. Else
# it is Debian's kernel as a program (User Mode Linux), which is nearly as fast, has one
# processor and no Landlock. SANDBOX_VM_ACCEL=tcg has qemu translate the instructions of
# the former, which takes ten times as long.
#
# It needs root, to make the root file system, once. What it lacks it installs with
# apt-get. Environment: SANDBOX_VM_CACHE (~/.cache/sandbox-vm), SANDBOX_VM_ACCEL (kvm,
# uml or tcg).
set -euo pipefail

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH LC_ALL=C

# Docker and Podman with what they need without root; what sandboxes need; what tests call.
packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,udev,kmod,linux-image-cloud-amd64,user-mode-linux
packages+=,docker.io,podman,buildah,crun,netavark,aardvark-dns,uidmap,slirp4netns,fuse-overlayfs,rootlesskit
packages+=,bubblewrap,busybox-static,ca-certificates,curl,git,iproute2,iptables,procps,python3,sudo

say() { echo "vm: $*" >&2; }

fail() {
    say "$1"
    [ -z "${2-}" ] || say "what to do: $2"
    exit 125
}

usage() {
    sed -n '5,13s/^# \{0,3\}//p' "$0" >&2
    exit 125
}

as=root share='' memory=2048 cpus=2 limit=900 verbose='' build=''
if [ "${1-}" = build ]; then
    build=yes
    shift
fi
while [ $# -gt 0 ]; do
    case $1 in
    --user) as=user && shift ;;
    --share) share=${2:?} && shift 2 ;;
    --memory) memory=${2:?} && shift 2 ;;
    --cpus) cpus=${2:?} && shift 2 ;;
    --limit) limit=${2:?} && shift 2 ;;
    --add) packages+=,${2:?} && shift 2 ;;
    --verbose) verbose=yes && shift ;;
    --) shift && break ;;
    -*) usage ;;
    *) break ;;
    esac
done
[ -n "$build" ] || [ $# -gt 0 ] || usage
[ -z "$share" ] || [ -d "$share" ] || fail "the folder $share is not there"
[ "$(uname -m)" = x86_64 ] || fail "the machine is one of amd64, and this is $(uname -m)"

accel=${SANDBOX_VM_ACCEL-}
if [ -z "$accel" ]; then
    accel=uml
    # The device alone does not say that the processor can.
    if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accel=kvm; fi
fi
missing=()
[ "$accel" = uml ] || command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
if [ "${#missing[@]}" -gt 0 ]; then
    say "installing: ${missing[*]}"
    sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo --)
    log=$(mktemp)
    { "${sudo[@]}" apt-get update && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
        { tail -n 20 "$log" >&2 && rm -f "$log" && fail "could not install: ${missing[*]}" "see that apt-get update works, then repeat"; }
    rm -f "$log"
fi

# runner is what the machine starts: it runs the command of the second disk, and ends
# the machine with its status on the port "status".
runner() {
    cat <<'EOF'
#!/bin/bash
mkdir -p /share /vm
output=/dev/vport0p1 status=/dev/vport0p2 disk=/dev/nvme1n1
if [ -b /dev/ubdb ]; then
    mount -t hostfs none -o "$(sed 's/.*vm.work=\([^ ]*\).*/\1/' /proc/cmdline)" /vm
    output=/vm/output status=/vm/status disk=/dev/ubdb
fi
mount "$disk" /share
cd /share
as=$(cat .vm/as)
if [ "$as" = root ]; then
    HOME=/root bash .vm/command
else
    chown -R "$as:$as" /share
    runuser -l "$as" -w PATH -c 'cd /share && exec bash .vm/command'
fi >"$output" 2>&1 </dev/null
echo $? >"$status"
sync
echo o >/proc/sysrq-trigger
EOF
}

unit() {
    cat <<'EOF'
[Unit]
Description=The command of scripts/vm.sh
Wants=docker.socket dbus.socket systemd-logind.service user@1000.service
After=docker.socket dbus.socket systemd-logind.service user@1000.service
RequiresMountsFor=/tmp
[Service]
Type=exec
ExecStart=/usr/local/sbin/vm-runner
TimeoutStopSec=1
KillMode=process
Delegate=yes
[Install]
WantedBy=multi-user.target
EOF
}

# customize changes the new root file system $1. Nothing of it runs but what the
# packages bring: units that only take time are masked, and modules that the engines
# need are loaded by name because no initial file system has found them.
customize() {
    cat <<'EOF'
set -e
r=$1
chroot "$r" useradd --create-home --uid 1000 --shell /bin/bash user
install -d "$r/var/lib/systemd/linger" && : >"$r/var/lib/systemd/linger/user"
grep -q ^user: "$r/etc/subuid" || echo user:100000:65536 >>"$r/etc/subuid"
grep -q ^user: "$r/etc/subgid" || echo user:100000:65536 >>"$r/etc/subgid"
echo vm >"$r/etc/hostname"
echo '127.0.0.1 localhost vm' >"$r/etc/hosts"
: >"$r/etc/fstab"
cp -r "$r/usr/lib/uml/modules/." "$r/lib/modules/"
touch "$r/etc/.updated" "$r/var/.updated"
# Translated instructions take their time, on a busy machine more.
install -d "$r/etc/systemd/system.conf.d" "$r/etc/systemd/user.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=20min\n' | tee "$r/etc/systemd/system.conf.d/vm.conf" >"$r/etc/systemd/user.conf.d/vm.conf"
install -d "$r/etc/systemd/system/user@.service.d"
printf '[Service]\nTimeoutStartSec=20min\n' >"$r/etc/systemd/system/user@.service.d/vm.conf"
printf '%s\n' virtio_pci virtio_console overlay br_netfilter fuse tun veth >"$r/etc/modules-load.d/vm.conf"
install -d "$r/etc/systemd/system/multi-user.target.wants" "$r/etc/systemd/system/docker.service.d"
ln -s ../vm-runner.service "$r/etc/systemd/system/multi-user.target.wants/vm-runner.service"
for unit in docker.service containerd.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer getty.target getty@.service podman.service podman.socket podman-auto-update.timer podman-auto-update.service podman-restart.service; do
    find "$r/etc/systemd/system" -path '*.wants/*' -name "$unit" -delete
done
for unit in systemd-networkd-wait-online.service systemd-update-utmp.service systemd-random-seed.service systemd-timesyncd.service \
    systemd-udevd.service systemd-udev-trigger.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-pstore.service serial-getty@ttyS0.service getty@tty1.service systemd-tmpfiles-clean.timer systemd-update-utmp-runlevel.service systemd-firstboot.service systemd-hwdb-update.service; do
    ln -sf /dev/null "$r/etc/systemd/system/$unit"
done
tr -d - </proc/sys/kernel/random/uuid >"$r/etc/machine-id"
rm -rf "$r/var/lib/apt/lists"/* "$r/var/cache/apt"/*
EOF
}

cache=${SANDBOX_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-vm}
# discard removes a folder of make_machine, in which mmdebstrap may have left mounts
# when it was killed.
discard() {
    local mount
    for mount in "$1"/root/{proc,sys,dev}; do
        ! mountpoint -q "$mount" || umount --lazy "$mount" || return 0
    done
    rm -rf --one-file-system "$1"
}

make_machine() {
    [ "$(id -u)" -eq 0 ] || fail "the root file system is made by root, once" "run this as root"
    say "making the machine in $kept, which takes a minute or two"
    mkdir -p "$cache"
    local new=$kept.$$ old
    for old in "$cache"/*.[0-9]*; do
        [ ! -d "$old" ] || kill -0 "${old##*.}" 2>/dev/null || discard "$old"
    done
    discard "$new"
    mkdir "$new"
    # shellcheck disable=SC2064 # the folder is known now
    trap "discard '$new'" EXIT
    runner >"$new/runner"
    unit >"$new/unit"
    customize >"$new/customize"
    mmdebstrap --quiet --variant=minbase --include="$packages" --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="sh '$new/customize' \"\$1\"" \
        --customize-hook="install -m 755 '$new/runner' \"\$1/usr/local/sbin/vm-runner\"" \
        --customize-hook="install -m 644 '$new/unit' \"\$1/etc/systemd/system/vm-runner.service\"" \
        bookworm "$new/root" >"$new/log" 2>&1 || { tail -n 20 "$new/log" >&2 && fail "mmdebstrap could not make the root file system"; }
    cp "$new/root/boot"/vmlinuz-* "$new/vmlinuz"
    mv "$new/root/usr/bin/linux.uml" "$new/linux.uml"
    rm -f "$new/root/boot"/*
    mkfs.ext4 -q -d "$new/root" -E lazy_itable_init=1,root_owner=0:0 -O ^has_journal "$new/disk" 8G >/dev/null
    rm -rf "$new/root" "$new/runner" "$new/unit" "$new/customize" "$new/log"
    mv -T "$new" "$kept" 2>/dev/null || rm -rf "$new" # another run may have made the same meanwhile
    trap - EXIT
}

kept=$cache/$({ echo "$packages" && runner && unit && customize; } | sha256sum | cut -c 1-16)
[ -e "$kept/disk" ] || make_machine
if [ -n "$build" ]; then
    echo "$kept"
    exit
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-vm.XXXXXX")
machine=''
finish() {
    [ -z "$machine" ] || { kill -TERM "$machine" 2>/dev/null && wait "$machine"; } || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# The second disk has the command and what it needs.
mkdir -p "$work/share/.vm"
[ -z "$share" ] || cp -a "$share/." "$work/share/"
echo "$as" >"$work/share/.vm/as"
printf '%q ' "$@" >"$work/share/.vm/command"
size=$(du -sm --apparent-size "$work/share" | cut -f1)
mkfs.ext4 -q -d "$work/share" -E root_owner=0:0 -O ^has_journal "$work/disk" $((size * 5 / 4 + 512))M >/dev/null
rm -rf "$work/share"

: >"$work/output"
: >"$work/console"
: >"$work/status"
options="rw panic=-1 systemd.unified_cgroup_hierarchy=1 systemd.show_status=${verbose:-no}"
# Changes go to files of this run. The kernel has the drivers of these disks built in, so
# that it needs no initial file system. Should this script be killed, timeout ends the
# machine.
case $accel in
uml)
    TMPDIR=$work timeout --signal=KILL $((limit + 30)) "$kept/linux.uml" "mem=${memory}M" "umid=${work##*.}" "uml_dir=$work/" \
        "ubd0=$work/changes,$kept/disk" "ubd1=$work/disk" root=/dev/ubda con=null con0=null,fd:1 "vm.work=$work" \
        $options >"$work/console" 2>&1 </dev/null &
    ;;
kvm | tcg)
    cpu=(-accel kvm -cpu host)
    [ "$accel" = kvm ] || cpu=(-accel tcg,thread=multi -cpu max,la57=off)
    timeout --signal=KILL $((limit + 30)) qemu-system-x86_64 "${cpu[@]}" -M q35 -smp "$cpus" -m "$memory" -nodefaults -no-user-config \
        -display none -no-reboot -nic none -kernel "$kept/vmlinuz" -append "root=/dev/nvme0n1 console=ttyS0 quiet mitigations=off $options" \
        -drive "file=$kept/disk,format=raw,if=none,id=root,snapshot=on,cache=unsafe" -device nvme,drive=root,serial=root \
        -drive "file=$work/disk,format=raw,if=none,id=share,cache=unsafe" -device nvme,drive=share,serial=share \
        -serial "file:$work/console" -device virtio-serial-pci \
        -chardev "file,id=output,path=$work/output" -device virtserialport,chardev=output,nr=1 \
        -chardev "file,id=status,path=$work/status" -device virtserialport,chardev=status,nr=2 \
        -device virtio-rng-pci >"$work/qemu" 2>&1 </dev/null &
    ;;
*) fail "SANDBOX_VM_ACCEL is kvm, uml or tcg, not $accel" ;;
esac
machine=$!
follow() { tail --quiet --follow --bytes=+1 --sleep-interval=0.2 --pid="$machine" "$@"; }
if [ -n "$verbose" ]; then follow "$work/console" "$work/output" & else follow "$work/output" & fi
tail=$!
end=$(($(date +%s) + limit))
while kill -0 "$machine" 2>/dev/null; do
    if [ "$(date +%s)" -ge "$end" ]; then
        say "the command did not end within $limit seconds"
        kill -TERM "$machine" 2>/dev/null || true
        wait "$tail" || true
        exit 124
    fi
    sleep 0.2
done
wait "$machine" || true
machine=''
wait "$tail" || true
status=$(cat "$work/status")
if [ -z "$status" ]; then
    [ ! -e "$work/qemu" ] || cat "$work/qemu" >&2
    tail -n 30 "$work/console" >&2 2>/dev/null || true
    fail "the machine ended before the command did"
fi
exit "$status"
