#!/bin/sh
# Builds the images of sandboxes and of browsers unless the engine has them
# made from the recipes in this checkout already. Building anew would give
# them another identity, and every container made from the old ones would count
# as changed.
#
#   scripts/image.sh path/to/sandbox
set -eu

cd "$(dirname "$0")/.."
program=${1:?usage: scripts/image.sh path/to/sandbox}
label=dev.bulkhead.sandbox.image.dockerfile-digest

# fresh IMAGE FILE...: the engine has the image made from these files.
fresh() {
    image=$1
    shift
    want=$(cat "$@" | sha256sum | cut -d' ' -f1)
    have=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null || true)
    [ "$have" = "$want" ]
}

fresh sandbox:bookworm-slim Dockerfile.sandbox || "$program" images build
fresh sandbox-browser:bookworm-slim Dockerfile.browser browser/entrypoint.sh browser/policies.json browser/settings.sh ||
    "$program" images build --browser
