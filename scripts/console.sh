#!/bin/sh
# Builds the page of the web console from server/console/web into a folder, with the
# packages that scripts/clients.sh has installed: types are checked, and then it is
# bundled. The result is the same wherever it is built.
#
#   scripts/console.sh PACKAGES FOLDER
set -eu

usage="usage: scripts/console.sh PACKAGES FOLDER"
packages=$(cd "${1:?$usage}" && pwd)
mkdir -p "${2:?$usage}"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/../server/console/web"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R . "$work/web"
ln -s "$packages/node_modules" "$work/web/node_modules"
node=$(echo "$packages"/node_modules/node-linux-*/bin/node)
cd "$work/web"
"$node" node_modules/typescript/bin/tsc -p .
"$node" node_modules/vite/bin/vite.js build --logLevel warn --emptyOutDir --outDir "$work/dist"
rm -rf "${folder:?}"/*
cp -R "$work/dist/." "$folder/"
