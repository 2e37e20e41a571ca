# What every operation starts with. POSIX sh; nothing from the arguments is
# ever evaluated. Names are used as ./NAME in the folder that was entered,
# so that a leading dash is harmless and a parent that is swapped for a link
# afterwards changes nothing.
#
# Exit statuses that the host understands; anything else is explained by the
# last line of stderr.
E_NOENT=71 E_ESCAPE=72 E_ISDIR=73 E_NOTDIR=74 E_EXIST=75 E_ACCES=76
E_IRREGULAR=77 E_LOOP=78 E_TRUNCATED=79 E_BUSY=80 E_NOROOT=81
E_INVAL=82 E_UNSUPPORTED=83 E_LINK=84 E_UTILITY=90

LC_ALL=C
export LC_ALL
unset CDPATH
umask 022
set -u
single=
# Set where no link may be followed, on the way or at the end. Then the kernel's
# name of every folder that is entered has to be the one that was asked for.
plain=
# How often something that can be another thing a moment later is looked at
# before it counts as a reason to refuse.
LOOKS=8

# root DIR: enter the mount. R is its physical path. A mounted single file
# is served through its folder, which is not served itself.
root() {
	if [ -d "$1" ]; then
		cd -P "$1" 2>/dev/null || exit $E_NOROOT
	else
		[ -f "$1" ] && [ ! -L "$1" ] || exit $E_NOROOT
		cd -P "${1%/*}/" 2>/dev/null || exit $E_NOROOT
		single=${1##*/}
	fi
	here
	R=$H
	case $R in
	/) [ -n "$single" ] || exit $E_NOROOT ;;
	/*) ;;
	*) exit $E_NOROOT ;;
	esac
	[ -z "$plain" ] || [ "${R%/}${single:+/$single}" = "$1" ] || exit $E_LINK
}

# here: H is the folder we are in, asked of the kernel. What the shell holds
# in PWD is not good enough: bash computes it from the path before it goes
# there, and the path may lead elsewhere by then.
here() {
	H=$(readlink /proc/self/cwd 2>/dev/null && echo .) || H=$(env pwd -P && echo .) || exit $E_NOROOT
	H=${H%??}
}

# inside: the folder we are in must belong to the mount. It is asked after
# entering a folder and before doing anything in it. (In the folder of a
# single file, enter and resolve lead nowhere else.)
inside() {
	[ -z "$single" ] || return 0
	here
	case $H/ in
	"$R"/*) ;;
	*) exit $E_ESCAPE ;;
	esac
}

# enter REL [make]: go to the folder REL below the mount, making what is
# missing on the way if asked to.
enter() {
	H=$R
	if [ -n "$1" ]; then
		[ -z "$single" ] || exit $E_NOTDIR
		case $plain/$1/ in
		1/*/../* | 1/../*) walk "$1" "${2-}" ;;
		*) cd -P "./$1" 2>/dev/null || walk "$1" "${2-}" ;;
		esac
	fi
	inside
	case $plain/$1/ in
	/* | 1// | 1/*/../* | 1/../*) ;;
	*) [ "$H" = "$R/$1" ] || exit $E_LINK ;;
	esac
}

# walk REL [make]: enter element by element, to make or to explain. Others
# may make and remove folders meanwhile: what is there now need not be what
# could not be entered just before, so that is tried again.
walk() {
	rest=$1/
	looks=$LOOKS
	while [ -n "$rest" ]; do
		c=${rest%%/*}
		[ -z "$plain" ] || [ ! -L "./$c" ] || exit $E_LINK
		next=$H/$c
		[ "$c" != .. ] || next=${H%/*}
		if cd -P "./$c" 2>/dev/null; then
			rest=${rest#*/}
			looks=$LOOKS
			inside
			[ -z "$plain" ] || [ "$H" = "$next" ] || exit $E_LINK
			continue
		fi
		looks=$((looks - 1))
		if gone "$c"; then
			[ "$2" = make ] && [ $looks -gt 0 ] || exit $E_NOENT
			newdir "./$c"
		elif [ $looks = 0 ]; then
			[ ! -d "./$c" ] || exit $E_ACCES
			[ ! -e "./$c" ] || exit $E_NOTDIR
			exit $E_NOENT
		fi
	done
}

# newdir DIR: make a folder, unless another one was faster.
newdir() {
	why=$(mkdir "$1" 2>&1) && return 0
	case $why in
	*"ile exists") ;;
	*)
		printf '%s\n' "$why" >&2
		exit $E_UTILITY
		;;
	esac
}

# resolve NAME: follow links from NAME, entering folders on the way. Where
# it ends is ./$B in the current folder, which belongs to the mount.
resolve() {
	B=$1
	if [ -n "$single" ]; then
		[ "$B" = . ] || exit $E_NOTDIR
		B=$single
		[ ! -L "./$B" ] || exit $E_ESCAPE
		return 0
	fi
	hops=0
	while [ -L "./$B" ]; do
		[ -z "$plain" ] || exit $E_LINK
		hops=$((hops + 1))
		[ $hops -le 40 ] || exit $E_LOOP
		link=$(readlink "./$B" && echo .) || continue
		link=${link%??}
		case $link in
		/*) ;;
		*) link=./$link ;;
		esac
		case ${link##*/} in
		'' | . | ..)
			cd -P "$link" 2>/dev/null || exit $E_NOENT
			B=.
			;;
		*)
			cd -P "${link%/*}/" 2>/dev/null || exit $E_NOENT
			B=${link##*/}
			;;
		esac
		inside
	done
}

# gone NAME: nothing of that name is there, not even a link.
gone() { [ ! -e "./$1" ] && [ ! -L "./$1" ]; }
