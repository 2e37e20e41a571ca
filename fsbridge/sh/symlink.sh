# symlink ROOT DIR NAME TARGET
root "$1"
[ -z "$single" ] || exit $E_EXIST
enter "$2"
gone "$3" || exit $E_EXIST
# Without -T the link would go into a folder that another one makes there
# meanwhile. Some small versions of ln lack it.
if ! why=$(ln -sT -- "$4" "./$3" 2>&1); then
	case $why in
	*"ile exists") exit $E_EXIST ;;
	*"option -- "* | *"option: "*)
		gone "$3" || exit $E_EXIST
		ln -s -- "$4" "./$3" || exit $E_UTILITY
		;;
	*)
		printf '%s\n' "$why" >&2
		exit $E_UTILITY
		;;
	esac
fi
