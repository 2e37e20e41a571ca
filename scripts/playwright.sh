#!/bin/sh
# Installs playwright-core into bin/playwright, for the tests that drive a
# browser with a client that nobody here wrote. It is the archive that was
# looked at, or nothing: no script of it is run, and it fetches no browser.
#
#   scripts/playwright.sh
set -eu

cd "$(dirname "$0")/.."
package=playwright-core
version=1.65.1
digest=86a3e9cfb6e548c3f1595768784d728814b35ec2a254e77693e9230af994cb00f618f3b60ddf477dc5a7abd34dd061db3590c5819f497c116bf97e7f04ba34ab
modules=bin/playwright/node_modules

if grep -qs "\"version\": \"$version\"" "$modules/$package/package.json"; then
    exit 0
fi
mkdir -p "$modules"
work=$(mktemp -d "$modules/.new-XXXXXX")
trap 'rm -rf "$work"' EXIT
npm pack --silent --ignore-scripts --pack-destination "$work" "$package@$version" >/dev/null
archive=$work/$package-$version.tgz
echo "$digest  $archive" | sha512sum --check --quiet --strict
tar -xzf "$archive" -C "$work" --no-same-owner
rm -rf "${modules:?}/$package"
mv "$work/package" "$modules/$package"
