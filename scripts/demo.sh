#!/usr/bin/env bash
# Runs a small untrusted program in a sandbox and shows what it did and what
# it could not do. What the program claims is printed; what counts is what the
# host sees: whether its secrets turned up, its files changed, which network
# and which rights the processes really had, how many there were.
#
# Exit status 0 only when everything was contained and the work was done
# right. Nothing is left behind.
set -u -o pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
sandbox=${SANDBOX:-$here/../bin/sandbox}
if [ ! -x "$sandbox" ]; then
	echo "demo: $sandbox is missing; run: make build" >&2
	exit 2
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-demo.XXXXXX") || exit 2
pids_limit=64

# run_sandbox hides the state of the demo from that of the user.
run_sandbox() {
	local command=$1
	shift
	"$sandbox" "$command" --state-dir "$dir/state" --config "$dir/sandbox.json" --session demo "$@"
}

# run_network runs with the settings that name the mirror, in a session of its own.
run_network() {
	local command=$1
	shift
	"$sandbox" "$command" --state-dir "$dir/state" --config "$dir/network.json" --session demo-network "$@"
}

mirrors=()
clean_up() {
	[ "${#mirrors[@]}" -eq 0 ] || kill "${mirrors[@]}" 2>/dev/null
	mirrors=()
	if [ -d "$dir/state" ]; then
		"$sandbox" recreate --state-dir "$dir/state" --config "$dir/sandbox.json" --all --force >/dev/null 2>"$dir/cleanup.log" ||
			cat "$dir/cleanup.log" >&2
	fi
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# What the program is after. Everybody on this host may read the secret and
# write the victim, so that it is the wall that keeps them, not their mode.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
chmod 755 "$dir"
echo "secret-$token" >"$dir/secret"
echo "untouched" >"$dir/victim"
mkdir "$dir/open"
chmod 666 "$dir/victim"
chmod 777 "$dir/open"
cat >"$dir/sandbox.json" <<EOF
{
  // The built-in defaults, with a smaller machine.
  "agents": { "defaults": { "sandbox": { "docker": { "pidsLimit": $pids_limit, "memory": "512m" } } } }
}
EOF

# plain makes what the program says safe to print.
plain() { LC_ALL=C tr -cd '[:print:]\n' | cut -c1-"${1:-60}"; }

# claim prints what the program said about an attempt.
claim() { awk -F '\t' -v n="$1" '$1 == n { print $2; exit }' "$dir/out" | plain 58; }

# processes lists those of the sandbox by its control group.
processes() { grep -l -- "$id" /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3; }

failed=0
row() { # verdict, attempt, what the program saw, what the host saw
	[ "$1" = contained ] || [ "$1" = done ] || failed=1
	printf '%-10s %-14s %-58s %s\n' "$1" "$2" "$3" "$4"
}
judge() { # attempt, condition (0 is good), what the host saw
	local verdict=contained seen=$3
	[ "$2" -eq 0 ] || verdict=ESCAPED seen="not this: $3"
	row "$verdict" "$1" "$(claim "$1")" "$seen"
}

echo "An untrusted program runs in a sandbox …"
SANDBOX_DEMO_SECRET="secret-$token" run_sandbox run -i -- \
	python3 - "$dir/secret" "$dir/victim" "$dir/open" <"$here/demo/untrusted.py" >"$dir/out" 2>"$dir/err"
status=$?
if [ "$status" -ne 0 ]; then
	echo "demo: the program ended with status $status:" >&2
	plain 200 <"$dir/err" >&2
	exit 1
fi

listing=$(run_sandbox list -o json) || exit 1
field() { printf '%s\n' "$listing" | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" | head -n1; }
id=$(field id)
workspace=$(field workspace)
if [ -z "$id" ] || [ -z "$(processes)" ]; then
	echo "demo: the sandbox is not listed, or its processes cannot be seen" >&2
	exit 1
fi

echo
row "OUTCOME" "ATTEMPT" "THE PROGRAM SAYS" "THE HOST SAW"
failed=0

# The work: the answer is known, and the file lies in the workspace.
if [ "$(cat "$workspace/result.txt" 2>/dev/null)" = "primes below 200000: 17984" ]; then
	row "done" "compute" "$(claim compute)" "the right answer in the workspace"
else
	row WRONG "compute" "$(claim compute)" "no file with the right answer in the workspace"
fi

# Secrets: nothing of them in anything that the program wrote.
grep -rqs -- "$token" "$workspace" "$dir/out" "$dir/err"
[ $? -eq 1 ]
judge credentials $? "its secret nowhere in what the program wrote"
[ -s "$workspace/loot.txt" ] && ! grep -qs -- "$token" "$workspace/loot.txt"
judge environment $? "none of its variables among the loot"
! grep -qs 'sock' "$workspace/loot.txt"
judge "engine socket" $? "no connection to the engine"

# The network as the kernel has it for the sandbox's first process.
first=$(processes | sort -n | head -n1)
others=$(sed -n 's/^ *\([^:]*\):.*/\1/p' "/proc/$first/net/dev" 2>/dev/null | grep -cv '^lo$')
[ -r "/proc/$first/net/dev" ] && [ "$others" -eq 0 ]
judge network $? "no interface but lo in its network"

[ "$(cat "$dir/victim")" = untouched ] && [ -z "$(ls -A "$dir/open")" ]
judge "write outside" $? "its own files as they were"

# The fork bomb, with an eye on how many there are and what they may.
run_sandbox run -i --timeout 6s -- python3 - <"$here/demo/forkbomb.py" >"$dir/bomb" 2>&1 &
bomb=$!
most=0
rights=1
while kill -0 "$bomb" 2>/dev/null; do
	list=$(processes)
	n=$(printf '%s\n' "$list" | grep -c .)
	[ "$n" -gt "$most" ] && most=$n
	if [ "$n" -gt 8 ] && [ "$rights" -eq 1 ]; then
		rights=0
		for pid in $list; do
			[ -r "/proc/$pid/status" ] || continue
			awk '/^Uid:/ && ($2 == 0 || $3 == 0) { bad = 1 }
				/^CapEff:|^CapPrm:|^CapBnd:/ && $2 !~ /^0+$/ { bad = 1 }
				/^NoNewPrivs:/ && $2 != 1 { bad = 1 }
				/^Seccomp:/ && $2 != 2 { bad = 1 }
				END { exit bad }' "/proc/$pid/status" 2>/dev/null || { [ -d "/proc/$pid" ] && rights=2; }
		done
	fi
	sleep 0.2
done
wait "$bomb"
bomb_status=$?
judge privileges "$rights" "no root, no capability, filtered calls in every process"

after=$(run_sandbox run -- echo alive 2>/dev/null)
left=$(processes | grep -c .)
[ "$bomb_status" -eq 124 ] && [ "$most" -gt 8 ] && [ "$most" -le "$pids_limit" ] && [ "$left" -le 8 ] && [ "$after" = alive ]
verdict=$?
printf 'fork bomb\tforked until the time limit ended it (status %s)\n' "$bomb_status" >>"$dir/out"
judge "fork bomb" "$verdict" "at most $most of $pids_limit processes, $left left, sandbox ${after:-dead}"

# The only way out: one mirror is allowed, and nothing else is. Two servers of
# this machine take the part of the internet, so that nothing outside is asked.
echo
echo "A sandbox without network is allowed one mirror of packages …"
go build -o "$dir/mirror" "$here/../internal/testenv/mirror.go" || exit 1
exec 3< <(exec "$dir/mirror" 127.0.0.2:0 2>"$dir/allowed.log")
mirrors+=($!)
exec 4< <(exec "$dir/mirror" 127.0.0.3:0 2>"$dir/other.log")
mirrors+=($!)
if ! read -r -t 20 mirror package <&3 || ! read -r -t 20 other _ <&4; then
	echo "demo: the mirrors did not start:" >&2
	cat "$dir/allowed.log" "$dir/other.log" >&2
	exit 1
fi
cat >"$dir/network.json" <<EOF
{
  // No network, and one way out of it.
  "agents": { "defaults": { "sandbox": { "network": { "allowedDomains": ["http://$mirror"] } } } }
}
EOF

# network runs a line inside and keeps what it says.
network() { run_network run -- sh -c "$1" >"$dir/out" 2>"$dir/err"; }
said() { cat "$dir/out" "$dir/err" | plain 200 | grep -m1 -o -- "$1" | cut -c1-58; }

network "curl -sSf -o $package http://$mirror/$package && PYTHONPATH=$package python3 -c 'import greeting; print(greeting.hello())'"
if [ "$(cat "$dir/out")" = "greetings from the mirror" ] && [ "$(cat "$dir/allowed.log")" = "GET \"/$package\"" ]; then
	row "done" "package" "$(said '.*')" "one request for the package at the mirror"
else
	row FAILED "package" "$(said '.*')" "not just one request for the package at the mirror"
fi

network "curl -sSv https://example.com/"
refused=$?
rule=$(said 'Blocked by sandbox: .*')
[ "$refused" -ne 0 ] && [ -n "$rule" ]
verdict=$?
printf 'other host\t%s\n' "${rule:-not refused}" >"$dir/out"
judge "other host" "$verdict" "its program failed with status $refused"

network "curl -sSi http://$other/$package"
rule=$(said 'Blocked by sandbox: .*')
[ -n "$rule" ] && ! [ -s "$dir/other.log" ]
verdict=$?
printf 'other server\t%s\n' "${rule:-not refused}" >"$dir/out"
judge "other server" "$verdict" "no request at its other server"

network "sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev; curl -sS --noproxy '*' http://$other/"
[ "$(cat "$dir/out")" = lo ] && ! [ -s "$dir/other.log" ]
verdict=$?
printf 'past the proxy\t%s\n' "$(said 'curl: .*')" >"$dir/out"
judge "past the proxy" "$verdict" "no interface but lo, no request at its other server"

# Nothing is left behind.
clean_up
trap - EXIT
[ -z "$(processes)" ] && [ ! -e "$dir" ]
gone=$?
echo
if [ "$gone" -ne 0 ]; then
	echo "demo: the sandbox was not removed" >&2
	exit 1
fi
if [ "$failed" -ne 0 ]; then
	echo "Not everything was contained, or the work was not done right." >&2
	exit 1
fi
echo "The work was done, everything else was contained, and nothing is left behind."
