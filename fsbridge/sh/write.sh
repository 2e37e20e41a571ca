# write ROOT DIR NAME TEMP PERM TRAILER EXCLUSIVE DURABLE: the input, which
# ends with TRAILER, becomes the content of NAME in one step. Without the
# trailer the sender has died, and nothing is changed. The temporary file is
# written, cut, synced and given its mode through the open descriptor.
tmp=
pid=
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null
	[ -z "$tmp" ] || rm -f "./$tmp"
}
trap cleanup EXIT
trap 'exit 143' HUP INT TERM

root "$1"
[ -z "$single" ] || exit $E_UNSUPPORTED
enter "$2" make
B=$3
perm=$5
if [ "$7" = 1 ]; then
	gone "$B" || exit $E_EXIST
else
	resolve "$B"
	[ ! -d "./$B" ] || exit $E_ISDIR
	looks=$LOOKS
	while [ -e "./$B" ]; do
		looks=$((looks - 1))
		if [ -f "./$B" ] && mode=$(stat -c %a "./$B"); then
			perm=$mode
			break
		elif [ $looks = 0 ]; then
			[ ! -f "./$B" ] || exit $E_UTILITY
			exit $E_IRREGULAR
		fi
	done
	case $perm in
	'' | *[!0-7]*) exit $E_UTILITY ;;
	esac
	while [ ${#perm} -gt 3 ]; do perm=${perm#?}; done
fi

exec 5<&0
umask 077
set -C
exec 4>"./$4"
set +C
tmp=$4
looks=$LOOKS
while [ -e "./$B" ] && [ ! -w "./$B" ]; do
	looks=$((looks - 1))
	[ $looks -gt 0 ] || exit $E_ACCES
done
T=/proc/self/fd/4
[ -f $T ] || T=./$tmp

cat <&5 >&4 &
pid=$!
wait "$pid"
status=$?
pid=
[ $status = 0 ] || exit $E_UTILITY
size=$(wc -c <$T) || exit $E_UTILITY
size=$((size - ${#6}))
[ $size -ge 0 ] && [ "$(tail -c ${#6} <$T)" = "$6" ] || exit $E_TRUNCATED
dd if=/dev/null of=$T bs=1 seek=$size count=0 2>/dev/null || exit $E_UTILITY
chmod "$perm" $T || exit $E_UTILITY
if [ "$8" = 1 ] && [ -r $T ]; then
	sync $T || exit $E_UTILITY
elif [ "$8" = 1 ]; then
	# Small versions of sync need to read.
	chmod u+r $T && sync $T && chmod "$perm" $T || exit $E_UTILITY
fi

if [ "$7" = 1 ]; then
	claim "./$tmp" "./$B"
else
	replace "./$tmp" "./$B"
fi
[ "$8" = 0 ] || sync . || :
exit 0
