#!/bin/sh
# Installs what "make test-dist" needs and the machine does not have: as root, on
# Debian or Ubuntu.
set -eu

missing=
while read -r program package; do
    command -v "$program" >/dev/null || missing="$missing $package"
done <<EOF
mmdebstrap mmdebstrap
rpm rpm
ruby ruby
skopeo skopeo
qemu-aarch64-static qemu-user-static
EOF
[ -n "$missing" ] || exit 0
echo "dist-tools: installing$missing" >&2
# shellcheck disable=SC2086 # a list
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >&2
