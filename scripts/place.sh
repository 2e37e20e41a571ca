#!/bin/sh
# place.sh FROM TO NAME... copies programs that were linked in FROM to TO, each
# in one step, unless they are there.
#
# The linker writes a program page by page, and the kernel keeps its pages
# singly, which makes the program slower to start and to end for as long as
# they stay in memory. Written in large pieces, as by whoever installs it, it
# lies in large ones.
set -eu
from=$1 to=$2
shift 2
for name; do
	cmp -s "$from/$name" "$to/$name" && continue
	if [ "$(uname)" = Linux ]; then
		dd if="$from/$name" of="$to/.$name.new" bs=4M status=none
	else
		cp "$from/$name" "$to/.$name.new"
	fi
	chmod 755 "$to/.$name.new"
	mv -f "$to/.$name.new" "$to/$name"
done
