#!/bin/sh
# Writes the plain manifests of FOLDER anew from the chart with its default values,
# one file for each template, and the namespace into which they are to be installed.
#
#   scripts/manifests.sh HELM FOLDER
set -eu

usage='usage: scripts/manifests.sh HELM FOLDER'
helm=${1:?$usage} folder=${2:?$usage}
chart=$(cd "$(dirname "$0")/../deploy/helm/sandbox" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the settings of the helm of this user say does not count.
export HELM_CONFIG_HOME="$work/config" HELM_CACHE_HOME="$work/cache" HELM_DATA_HOME="$work/data"
# As for the newest Kubernetes: what that needs more, older ones ignore.
"$helm" template sandbox "$chart" --namespace sandbox --values "$chart/../manifests.yaml" --kube-version 1.35.0 --output-dir "$work/out" >/dev/null
mkdir -p "$folder"
rm -f "$folder"/*.yaml
for file in "$work"/out/sandbox/templates/*.yaml; do
    {
        echo "# Made by make manifests from deploy/helm/sandbox; not to be edited."
        sed -e '/^# Source: /d' -e 's/[[:space:]]*$//' "$file"
    } >"$folder/${file##*/}"
done
