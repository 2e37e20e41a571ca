//go:build linux

package probe

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func processProbes() map[string]probe {
	return map[string]probe{
		"alive":          func([]string) verdict { return held("alive") },
		"wait":           wait,
		"host-processes": hostProcesses,
		"kill-all":       killAll,
		"forge":          forge,
		"priorities":     priorities,
	}
}

// wait says "ready" and does nothing until its standard input ends. It is
// the victim of other attempts.
func wait([]string) verdict {
	os.Stdout.WriteString("ready\n")
	for {
		if n, err := os.Stdin.Read(make([]byte, 64)); n == 0 || err != nil {
			return held("undisturbed")
		}
	}
}

// pids lists the processes that can be seen.
func pids() []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, e.Name())
		}
	}
	return out
}

// hostProcesses looks for processes that cannot be the sandbox's own: kernel
// threads, and those of other users.
func hostProcesses([]string) verdict {
	all := pids()
	if len(all) == 0 {
		return skip("/proc lists no processes")
	}
	me := strconv.Itoa(os.Getuid())
	var foreign []string
	for _, pid := range all {
		name, uid := statusField(pid, "Name"), strings.Fields(statusField(pid, "Uid"))
		switch {
		case name == "kthreadd":
			foreign = append(foreign, pid+" kernel thread")
		case len(uid) > 0 && uid[0] != me:
			foreign = append(foreign, pid+" "+strconv.QuoteToASCII(name)+" of uid "+uid[0])
		}
	}
	if len(foreign) > 0 {
		return broke("seen: ", summarise(foreign))
	}
	return held("the first process is ", strconv.QuoteToASCII(statusField("1", "Name")), ", ", itoa(len(all)), " in all, one user")
}

// killAll sends SIGKILL to every process that it may signal. Whether the
// sandbox lives is seen from outside.
func killAll([]string) verdict {
	for range 20 {
		if err := unix.Kill(-1, unix.SIGKILL); err != nil {
			return held("kill(-1): ", reason(err))
		}
	}
	return held("kill(-1, SIGKILL) was sent 20 times")
}

// forge writes the word args[0] into the output of every other process and
// looks for it in their environments. Whether it arrives is seen from
// outside; what was readable is reported.
func forge(args []string) verdict {
	if len(args) != 1 {
		return skip("needs a word")
	}
	self := strconv.Itoa(os.Getpid())
	var tries []try
	for _, pid := range pids() {
		if pid == self || pid == "1" {
			continue
		}
		for _, fd := range []string{"1", "2"} {
			tries = append(tries, try{"output of " + pid, func() error {
				f, err := os.OpenFile("/proc/"+pid+"/fd/"+fd, os.O_WRONLY|unix.O_NONBLOCK, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = f.WriteString(args[0] + "\n")
				return err
			}})
		}
		tries = append(tries,
			try{"environment of " + pid, func() error { return readable("/proc/" + pid + "/environ") }},
			try{"memory of " + pid, func() error { return openable("/proc/"+pid+"/mem", unix.O_RDWR) }})
	}
	if len(tries) == 0 {
		return skip("there is no other process")
	}
	return each(tries...)
}

// priorities tries to take more of the host's processors or memory than the
// limits say.
func priorities([]string) verdict {
	return each(
		try{"real-time scheduling", func() error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0)
		}},
		try{"nice -20", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		try{"oom_score_adj -1000", func() error {
			f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteString("-1000")
			return err
		}},
		try{"more open files than the hard limit", func() error {
			var now unix.Rlimit
			if err := prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
				return err
			}
			if now.Max == unix.RLIM_INFINITY {
				return nil
			}
			return prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: now.Max + 1, Max: now.Max + 1}, nil)
		}},
	)
}
