#!/bin/sh
# Runs fuzz targets one after the other, each for FUZZTIME, and fails at the
# end if one of them found something. What was found lies in the package's
# testdata/fuzz folder and is a test from then on.
#
#	scripts/fuzz.sh [PACKAGE…]      default: ./...
#	FUZZTIME=10m FUZZ=Judge scripts/fuzz.sh ./policy/...
set -u
GO=${GO:-go}
FUZZTIME=${FUZZTIME:-1m}
FUZZ=${FUZZ:-.}
PARALLEL=${PARALLEL:-2}
[ $# -gt 0 ] || set -- ./...
failed=""
for dir in $($GO list -f '{{.Dir}}' "$@"); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing\.F).*/\1/p' "$dir"/*_test.go 2>/dev/null | grep -e "$FUZZ"); do
		echo "= $target in ${dir#"$PWD"/}, for $FUZZTIME"
		if ! (cd "$dir" && $GO test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" -parallel "$PARALLEL" .); then
			failed="$failed ${dir#"$PWD"/}:$target"
		fi
	done
done
if [ -n "$failed" ]; then
	echo "fuzz: found something:$failed" >&2
	exit 1
fi
echo "fuzz: nothing found"
