#!/bin/sh
# Builds the image of the daemon for clusters from the programs in BIN, without a
# network.
#
#   scripts/daemon-image.sh BIN IMAGE
set -eu

usage='usage: scripts/daemon-image.sh BIN IMAGE'
bin=${1:?$usage} image=${2:?$usage}
here=$(cd "$(dirname "$0")/.." && pwd)
authorities=/etc/ssl/certs/ca-certificates.crt
[ -e "$authorities" ] || {
    echo "daemon-image: there is no $authorities; install ca-certificates" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/Dockerfile.daemon" "$work/Dockerfile"
cp "$bin/sandbox-daemon" "$authorities" "$work/"
# The guest of pods has a port with TLS.
cp "$bin/sandbox-guest-tls" "$work/sandbox-guest"
chmod 755 "$work"/sandbox-*
chmod 644 "$work"/*.crt
docker build --quiet --tag "$image" "$work"
