#!/bin/sh
# Unpacks the server of OpenSSH for tests of media that comes from other
# machines. It is taken from this machine's package sources and not installed:
# installing it would start a server on port 22, for good.
#
#   scripts/sshd.sh FOLDER
set -eu

folder=${1:?usage: scripts/sshd.sh FOLDER}
if [ -e "$folder/.unpacked" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    [ -x /usr/sbin/sshd ] && exit 0
    echo "sshd: this machine has neither apt-get nor an sshd: install openssh with this system's own means" >&2
    exit 1
fi
echo "sshd: unpacking the server of OpenSSH into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder/packages"
folder=$(cd "$folder" && pwd)
cd "$folder/packages"
if ! apt-get download openssh-server libwrap0 >&2; then
    # The lists of packages are missing, or older than the packages.
    apt-get update >&2
    apt-get download openssh-server libwrap0 >&2
fi
for package in *.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -rf "$folder/packages"
: >"$folder/.unpacked"
