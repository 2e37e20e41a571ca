# read ROOT DIR NAME OFFSET LIMIT: "ok" and a newline, then the bytes. The
# check after opening looks at what was opened, whatever has been swapped
# since the checks before it.
root "$1"
enter "$2"
resolve "$3"
[ ! -d "./$B" ] || exit $E_ISDIR
looks=$LOOKS
until [ -f "./$B" ] && [ -r "./$B" ]; do
	[ -e "./$B" ] || exit $E_NOENT
	looks=$((looks - 1))
	[ $looks = 0 ] || continue
	[ -f "./$B" ] || exit $E_IRREGULAR
	exit $E_ACCES
done
looks=$LOOKS
while :; do
	exec 3<"./$B"
	opened=$(readlink /proc/self/fd/3 2>/dev/null && echo .) || break
	opened=${opened%??}
	# What was replaced meanwhile has lost its name; the new one has it.
	[ -n "$plain" ] && [ $looks -gt 0 ] && [ "$opened" = "${H%/}/$B (deleted)" ] || break
	looks=$((looks - 1))
done
if [ -n "$opened" ]; then # else there is no /proc
	case $opened in
	"${R%/}"/*) ;;
	*) exit $E_ESCAPE ;;
	esac
	[ -f /proc/self/fd/3 ] || exit $E_IRREGULAR
	[ -z "$plain" ] || [ "$opened" = "${H%/}/$B" ] || exit $E_LINK
else
	[ -z "$plain" ] || exit $E_UNSUPPORTED
fi
echo ok
[ "$4" = 0 ] || dd bs=1 skip="$4" count=0 <&3 2>/dev/null || exit $E_UTILITY
if [ "$5" -lt 0 ]; then
	cat <&3 || exit $E_UTILITY
else
	head -c "$5" <&3 || exit $E_UTILITY
fi
