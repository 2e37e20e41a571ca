# replace FROM TO: rename in one step; TO is never entered if it is a folder
# or a link to one. Some small versions of mv lack -T.
replace() {
	if why=$(mv -fT "$1" "$2" 2>&1); then
		tmp=
		return 0
	fi
	case $why in
	*"is a directory")
		# Busybox looks through a link to a folder before it renames.
		[ -L "$2" ] || exit $E_ISDIR
		rm -f "$2" && mv -fT "$1" "$2" || exit $E_UTILITY
		tmp=
		;;
	*"option -- "* | *"option: "*)
		[ ! -d "$2" ] || exit $E_ISDIR
		mv -f "$1" "$2" || exit $E_UTILITY
		tmp=
		;;
	*)
		printf '%s\n' "$why" >&2
		exit $E_UTILITY
		;;
	esac
}

# claim FROM TO: give FROM the new name TO, unless that exists in any form.
# Where the file system has no hard links, the name is taken by an empty
# file first, which a reader may see for a moment.
claim() {
	if why=$(link "$1" "$2" 2>&1); then
		return 0
	fi
	gone "${2#./}" || exit $E_EXIST
	set -C
	: >"$2"
	set +C
	replace "$1" "$2"
}
