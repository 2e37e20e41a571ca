//go:build linux

package probe

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Prefix starts the line that a probe reports with.
const Prefix = "probe: "

// Outcomes as the report line spells them.
const (
	contained = "contained"
	escaped   = "escaped"
	skipped   = "skipped"
)

// maxSeen bounds the text of a report in bytes.
const maxSeen = 2000

// A verdict is what a probe found.
type verdict struct {
	outcome string
	seen    string
}

func held(seen ...string) verdict  { return verdict{contained, strings.Join(seen, "")} }
func broke(seen ...string) verdict { return verdict{escaped, strings.Join(seen, "")} }
func skip(seen ...string) verdict  { return verdict{skipped, strings.Join(seen, "")} }

// A probe is one attempt; args are its own arguments.
type probe func(args []string) verdict

// probes returns the attempts by name.
func probes() map[string]probe {
	all := map[string]probe{}
	for _, part := range []map[string]probe{
		fileProbes(), mountProbes(), namespaceProbes(), guestProbes(), processProbes(),
		networkProbes(), kernelProbes(), kernelFileProbes(), deviceProbes(),
		privilegeProbes(), leakProbes(), exhaustProbes(), fillProbes(), toolProbes(),
	} {
		for name, p := range part {
			all[name] = p
		}
	}
	return all
}

// Names returns the names of all probes, sorted.
func Names() []string {
	var names []string
	for name := range probes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Main runs the probe args[0] with the rest as its arguments, prints its
// report and returns the exit status: 0 when the probe came to an end,
// whatever it found, and 2 for a name that is not known.
func Main(args []string) int {
	if len(args) == 0 {
		os.Stderr.WriteString("sandbox-guest: probe: which one?\n")
		return 2
	}
	p, ok := probes()[args[0]]
	if !ok {
		os.Stderr.WriteString("sandbox-guest: probe: no probe of that name\n")
		return 2
	}
	v := p(args[1:])
	os.Stdout.WriteString(Prefix + v.outcome + " " + oneLine(v.seen) + "\n")
	return 0
}

func oneLine(s string) string {
	if len(s) > maxSeen {
		s = s[:maxSeen] + "…"
	}
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
}

// A try is one way to do the same thing.
type try struct {
	what string
	do   func() error // nil means that it worked
}

// each makes every try and reports the errors, or the first ones that worked.
func each(tries ...try) verdict {
	var answers, worked []string
	for _, t := range tries {
		err := t.do()
		if err == nil {
			worked = append(worked, t.what)
			continue
		}
		answers = append(answers, t.what+": "+reason(err))
	}
	if len(worked) > 0 {
		return broke("worked: ", strings.Join(worked, ", "))
	}
	return held(summarise(answers))
}

// summarise joins answers, and counts those that end in the same reason
// when there are many.
func summarise(answers []string) string {
	const most = 6
	if len(answers) <= most {
		return strings.Join(answers, "; ")
	}
	count := map[string]int{}
	var order []string
	for _, a := range answers {
		_, why, _ := strings.Cut(a, ": ")
		if count[why] == 0 {
			order = append(order, why)
		}
		count[why]++
	}
	var parts []string
	for _, why := range order {
		parts = append(parts, itoa(count[why])+" × "+why)
	}
	return strings.Join(parts, ", ")
}

// reason names an error as errno(3) does where it has such a name.
func reason(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		if name := unix.ErrnoName(no); name != "" {
			return name
		}
	}
	return err.Error()
}

// errnoOf turns the number of a raw system call into an error.
func errnoOf(no unix.Errno) error {
	if no == 0 {
		return nil
	}
	return no
}

// call makes a system call and forgets its result. A descriptor that comes
// back ends with the process.
func call(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, no := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return errnoOf(no)
	}
}
