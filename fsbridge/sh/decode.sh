# decode: the arguments came as escapes of printf %b, because they are not
# valid UTF-8. The dot keeps newlines at the end.
n=$#
while [ "$n" -gt 0 ]; do
	a=$(printf '%b.' "$1") || exit $E_UTILITY
	shift
	set -- "$@" "${a%.}"
	n=$((n - 1))
done
