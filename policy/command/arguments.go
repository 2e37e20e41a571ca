package command

import (
	"strings"
)

// A grammar says how a program reads its arguments, as far as the checks have
// to know. The zero grammar is GNU's: single letters that can be joined, long
// options with two dashes, options and operands in any order.
type grammar struct {
	short string // letters that take a value
	long  string // long options that take the next word as value, separated by blanks
	words bool   // options are words behind one dash, as of find
	first bool   // no option follows the first operand; what follows belongs to a script
	old   bool   // the first word may be letters without dash, as of tar
}

// grammars lists the programs whose grammar is not the zero one, by base name
// without trailing version.
func grammars() map[string]grammar {
	script := func(short, long string) grammar { return grammar{short: short, long: long, first: true} }
	words := grammar{words: true}
	return map[string]grammar{
		"python": script("cmWXQ", ""), "pypy": script("cmWXQ", ""),
		"perl": script("eEIMmFx", ""), "ruby": script("eIrCEK", ""), "lua": script("el", ""), "luajit": script("elj", ""),
		"node": script("epr", "--eval --print --require --import --loader --env-file"), "nodejs": script("epr", "--eval --print --require --import --loader"),
		"bun": script("e", "--eval --preload"), "deno": {first: true}, "php": script("rfdcBRFEz", ""), "tclsh": {first: true},
		"Rscript": script("e", ""), "ssh": script("oFiJlpLRDbcEeIkmOQSwW", ""), "osascript": script("e", ""),
		"git": {short: "Cc", long: "--git-dir --work-tree --namespace --exec-path --config-env", first: true},
		"awk": script("Ffv", "--file --assign --field-separator --include --load --source"), "gawk": script("Ffveil", "--file --assign --field-separator --include --load --source"),
		"mawk": script("FfvW", ""), "nawk": script("Ffv", ""), "original-awk": script("Ffv", ""),
		"sed": {short: "efl", long: "--expression --file --line-length"}, "gsed": {short: "efl", long: "--expression --file --line-length"},
		"grep":  {short: "efmABCdD", long: "--regexp --file --include --exclude --exclude-dir --exclude-from --max-count --color --context --after-context --before-context"},
		"egrep": {short: "efmABC"}, "fgrep": {short: "efmABC"}, "zgrep": {short: "efmABC"},
		"rg":   {short: "efgtTmABCjMEr", long: "--regexp --file --glob --iglob --type --type-not --pre --pre-glob --max-count --context --replace --sort --max-depth --hostname-bin"},
		"sort": {short: "kotST", long: "--key --output --field-separator --buffer-size --temporary-directory --compress-program --files0-from"},
		"tar":  {short: "fCTXIbgFHKLNVP", long: "--file --directory --files-from --exclude-from --use-compress-program --to-command --checkpoint-action --rsh-command --info-script --new-volume-script --transform", old: true},
		"find": words, "java": words, "gdb": {words: true}, "openssl": words, "dd": {}, "terraform": words, "gcc": {short: "oIDLlxBT"},
		"curl": {short: "oXHdFuAebcmTKxrwCEPUYyz", long: "--output --request --header --data --data-raw --data-binary --data-urlencode --form --user --user-agent --cookie --cookie-jar --config --upload-file --proxy --write-out --max-time --connect-timeout --output-dir"},
		"wget": {short: "OoaPiUeTtQ", long: "--output-document --output-file --append-output --directory-prefix --input-file --header --user-agent --execute --post-file --post-data --body-file"},
		"jq":   {short: "f", long: "--from-file --rawfile --slurpfile", first: false},
		"tail": {short: "ncs"}, "head": {short: "nc"}, "cut": {short: "dfbc"}, "chmod": {long: "--reference"}, "chown": {long: "--reference --from"},
		"kill": {}, "docker": {short: "Hc", long: "--host --context --config --log-level", first: true}, "podman": {long: "--url --connection", first: true},
		"kubectl": {short: "ncsf"}, "npm": {long: "--prefix --workspace", short: "w"}, "make": {short: "CfIojlWO", long: "--directory --file --makefile --eval"},
		"rsync": {short: "efTMB", long: "--rsh --rsync-path --filter --exclude --include --exclude-from --include-from --files-from --log-file --password-file"},
		"vim":   {short: "cSsuiTwW", long: "--cmd"}, "nvim": {short: "cSsuil", long: "--cmd"}, "vi": {short: "cStw"}, "ex": {short: "cStw"}, "view": {short: "cSsu"}, "emacs": {long: "--eval --load --funcall --script", short: "lfu"},
		"cp": {short: "tS", long: "--target-directory --suffix"}, "mv": {short: "tS", long: "--target-directory --suffix"}, "ln": {short: "tS", long: "--target-directory --suffix"},
		"install": {short: "tSmog", long: "--target-directory --suffix --mode --owner --group"}, "truncate": {short: "sr", long: "--size --reference"},
		"touch": {short: "drt", long: "--date --reference --time"}, "mkdir": {short: "mZ", long: "--mode"}, "shred": {short: "ns", long: "--iterations --size --random-source"},
		"strace": {short: "oeEuPabISsX", first: true}, "ltrace": {short: "oeuplnsa", first: true}, "man": {short: "PHLMmrCsSRETp", long: "--pager --html --preprocessor"},
		"xterm": {words: true}, "crontab": {short: "u"}, "at": {short: "fqtd"}, "unzip": {short: "dPx"}, "split": {short: "abCln", long: "--filter --bytes --lines --suffix-length"},
		"ssh-keygen": {short: "fCNPbtOIVnDmzw"}, "chattr": {short: "vp"},
		"mount": {short: "otLUO"}, "nc": {short: "cegGiIlmMopPqQrsTVwWxX"}, "ncat": {short: "cegGiIlmMopPqQrsTVwWxX", long: "--exec --sh-exec --lua-exec"}, "netcat": {short: "cegGiIlmMopPqQrsTVwWxX"},
		"sqlite3": {words: true}, "psql": {short: "cdfhoOpUvLPRT", long: "--command --file --output"}, "mysql": {short: "euhPDS", long: "--execute --user --host --init-command"},
		"gpg": {short: "or", long: "--output --homedir --recipient"}, "zip": {short: "btTUOnix", long: "--unzip-command"}, "base64": {short: "w"}, "tee": {}, "expect": {short: "cf"},
		"tcpdump": {short: "zwrWGCFc"}, "ed": {short: "p"}, "less": {short: "kopPtTxyzbhj"}, "socat": {}, "screen": {short: "cSXpeh"}, "tmux": {short: "cfLS"},
		"ip": {}, "npx": {short: "cp", long: "--call --package", first: true}, "pip": {short: "r", long: "--requirement --index-url --extra-index-url --target"},
		"scp": {short: "oFiJlPScD"}, "sftp": {short: "oFiJlPSbBcDRs"}, "go": {words: true, first: false}, "chgrp": {long: "--reference"},
	}
}

// arguments are the words behind a program, split into options and operands.
type arguments struct {
	letters  [2]uint64 // single letters that were given
	options  []option  // long ones, words behind one dash, and letters with a value
	operands []lineWord
	all      []lineWord
	open     bool // more follow, or an unknown word could be an option
}

type option struct {
	name  string // "-e", "--eval", "-exec"
	value lineWord
	given bool // the option has a value
	span  lineWord
}

// letter reports whether the option of one letter was given.
func (a *arguments) letter(c byte) bool { return c < 128 && a.letters[c>>6]&(1<<(c&63)) != 0 }

// parse tells options and operands apart.
func (g grammar) parse(words []lineWord, open bool) arguments {
	a := arguments{all: words, open: open}
	for i := 0; i < len(words); i++ {
		w := words[i]
		v := w.Value
		if !w.Static {
			v = w.Prefix
		}
		switch {
		case v == "--" && w.Static:
			a.operands = append(a.operands, words[i+1:]...)
			return a
		case len(v) < 2 || v[0] != '-':
			if g.old && i == 0 && w.Static {
				g.cluster(&a, v, w, words[i+1:])
				continue
			}
			if g.first {
				a.operands = append(a.operands, words[i:]...)
				return a
			}
			a.operands = append(a.operands, w)
		case v[1] == '-', g.words:
			i += g.wordOption(&a, v, w, words[i+1:])
		default:
			i += g.cluster(&a, v[1:], w, words[i+1:])
		}
	}
	return a
}

// wordOption takes in an option that is a word and returns how many of the
// words behind it are its value.
func (g grammar) wordOption(a *arguments, v string, w lineWord, rest []lineWord) int {
	o := option{name: v, span: w}
	if name, value, ok := strings.Cut(v, "="); ok {
		o.name, o.given = name, true
		o.value = w
		o.value.Value, o.value.Prefix = value, value
		a.options = append(a.options, o)
		return 0
	}
	takes := 0
	if len(rest) > 0 {
		if g.words || hasWord(g.long, v) {
			o.value, o.given = rest[0], true
		}
		if hasWord(g.long, v) {
			takes = 1
		}
	}
	a.options = append(a.options, o)
	return takes
}

// cluster takes in joined letters and returns how many of the words behind
// them are the value of one.
func (g grammar) cluster(a *arguments, letters string, w lineWord, rest []lineWord) int {
	for i := range len(letters) {
		c := letters[i]
		if c >= 128 {
			return 0
		}
		a.letters[c>>6] |= 1 << (c & 63)
		if strings.IndexByte(g.short, c) < 0 {
			continue
		}
		o := option{name: "-" + letters[i:i+1], given: true, value: w, span: w}
		if i+1 < len(letters) {
			o.value.Value, o.value.Prefix = letters[i+1:], letters[i+1:]
			a.options = append(a.options, o)
			return 0
		}
		o.given = len(rest) > 0
		if o.given {
			o.value = rest[0]
		}
		a.options = append(a.options, o)
		return 1
	}
	return 0
}

func hasWord(list, w string) bool {
	for f := range strings.FieldsSeq(list) {
		if f == w {
			return true
		}
	}
	return false
}

// given returns the first word that gives one of the options, which are
// separated by blanks: -c is a letter, alone or joined to others; --long may
// be cut short as GNU programs permit, and -long is a word of its own.
func (a *arguments) given(options string) (option, bool) {
	for name := range strings.FieldsSeq(options) {
		if len(name) == 2 && name[1] != '-' && a.letter(name[1]) {
			for _, o := range a.options {
				if o.name == name {
					return o, true
				}
			}
			return option{name: name}, true
		}
		for _, o := range a.options {
			if o.name == name || len(o.name) > 3 && strings.HasPrefix(o.name, "--") && strings.HasPrefix(name, o.name) {
				return o, true
			}
		}
	}
	return option{}, false
}
