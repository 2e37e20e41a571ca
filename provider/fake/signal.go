package fake

import "runtime"

// signalNumber returns the number of a signal by its name without prefix, and
// false for a name that there is not.
func signalNumber(name string) (int, bool) {
	switch name {
	case "HUP":
		return 1, true
	case "INT":
		return 2, true
	case "QUIT":
		return 3, true
	case "ABRT":
		return 6, true
	case "KILL":
		return 9, true
	case "USR1":
		return 10, true
	case "SEGV":
		return 11, true
	case "USR2":
		return 12, true
	case "PIPE":
		return 13, true
	case "ALRM":
		return 14, true
	case "TERM":
		return 15, true
	case "CHLD":
		return 17, true
	case "CONT":
		return 18, true
	case "STOP":
		return 19, true
	case "XCPU":
		return 24, true
	case "XFSZ":
		return 25, true
	case "WINCH":
		return 28, true
	}
	return 0, false
}

// harmless reports whether a process that does not care survives the signal.
func harmless(name string) bool {
	return name == "CHLD" || name == "CONT" || name == "WINCH" || name == "STOP"
}

// endLocked ends p by a signal unless one has already.
func (p *Proc) endLocked(signal string) {
	if p.signal == "" {
		p.signal = signal
		p.end()
	}
}

// deliverLocked is what the kernel does with a signal.
func (p *Proc) deliverLocked(signal string) {
	switch {
	case signal == "KILL":
		p.endLocked(signal)
	case p.ignored[signal]:
	case p.traps[signal] != nil:
		select {
		case p.traps[signal] <- signal:
		default: // pending already
		}
	case harmless(signal):
	default:
		p.endLocked(signal)
	}
}

// Await waits for a signal that was trapped before and returns its name.
func (p *Proc) Await(trapped <-chan string) string {
	select {
	case s := <-trapped:
		p.checkpoint()
		return s
	case <-p.dead:
		runtime.Goexit()
	}
	return ""
}

// Trap makes the process survive the named signals; they arrive on the channel.
func (p *Proc) Trap(signals ...string) <-chan string {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan string, 1)
	for _, s := range signals {
		p.traps[s] = ch
		delete(p.ignored, s)
	}
	return ch
}

// Ignore makes the process and its later children deaf to the named signals.
// KILL cannot be ignored.
func (p *Proc) Ignore(signals ...string) {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range signals {
		p.ignored[s] = true
		delete(p.traps, s)
	}
}

// Default gives the named signals their usual effect again.
func (p *Proc) Default(signals ...string) {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range signals {
		delete(p.ignored, s)
		delete(p.traps, s)
	}
}

// Raise sends the process a signal of its own; it returns if it survives.
func (p *Proc) Raise(signal string) {
	e := p.engine()
	e.mu.Lock()
	p.deliverLocked(signal)
	e.mu.Unlock()
	p.checkpoint()
}

// Signal sends a signal to another process of the sandbox by its id, and
// reports whether there is one.
func (p *Proc) Signal(pid int, signal string) bool {
	e := p.engine()
	e.mu.Lock()
	found := false
	for q := range p.tree.handle.boot.procs {
		if q.pid == pid {
			found = true
			if signal != "" {
				q.deliverLocked(signal)
			}
		}
	}
	e.mu.Unlock()
	p.checkpoint()
	return found
}

// signalName returns the name of a signal by its number, "EXIT" for 0, or
// nothing.
func signalName(number int) string {
	if number == 0 {
		return "EXIT"
	}
	for _, name := range []string{
		"HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT", "STOP", "WINCH",
	} {
		if n, _ := signalNumber(name); n == number {
			return name
		}
	}
	return ""
}
