# cleanup ROOT DIR NAME TEMP: remove the temporary file of a write that was
# killed, where the write would have put it.
root "$1"
enter "$2"
resolve "$3"
rm -f "./$4"
