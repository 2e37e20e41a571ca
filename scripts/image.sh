#!/bin/sh
# Builds the default image unless the engine has it made from the recipe in
# this checkout already. Building anew would give it another identity, and
# every sandbox made from the old one would count as changed.
#
#   scripts/image.sh path/to/sandbox
set -eu

cd "$(dirname "$0")/.."
program=${1:?usage: scripts/image.sh path/to/sandbox}
image=sandbox:bookworm-slim
label=dev.bulkhead.sandbox.image.dockerfile-digest

want=$(sha256sum Dockerfile.sandbox | cut -d' ' -f1)
have=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null || true)
if [ "$have" = "$want" ]; then
    exit 0
fi
exec "$program" images build
