#!/bin/sh
# Builds the program that renders the chart, helm, in the version and with the sums
# of scripts/helm/go.mod and go.sum. What is built is kept in the user's cache.
#
#   scripts/helm.sh FILE
set -eu

file=${1:?usage: scripts/helm.sh FILE}
mkdir -p "$(dirname "$file")"
file=$(cd "$(dirname "$file")" && pwd)/${file##*/}
cd "$(dirname "$0")/helm"

digest=$({ go env GOVERSION GOARCH && cat go.mod go.sum; } | sha256sum | cut -c 1-16)
kept=${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-helm/helm-$digest
if [ ! -e "$kept" ]; then
    echo "helm: building $kept, which takes some minutes" >&2
    mkdir -p "${kept%/*}"
    CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" -o "$kept.$$" helm.sh/helm/v3/cmd/helm
    mv "$kept.$$" "$kept"
fi
ln -sfn "$kept" "$file"
