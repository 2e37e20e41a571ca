package attack

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// word returns a word that cannot be guessed.
func word() string { return "canary-" + rand.Text() }

// canary makes a file on the host that everybody may read and lets the probe
// look for it.
func canary(ctx context.Context, r *rig) finding {
	dir, err := os.MkdirTemp(r.opts.CanaryDir, "sandbox-canary-")
	if err != nil {
		return finding{Unproven, "no file could be made on the host: " + err.Error()}
	}
	defer os.RemoveAll(dir)
	path, text := filepath.Join(dir, "secret"), word()
	if err := makeReadable(dir, path, text); err != nil {
		return finding{Unproven, "no file could be made on the host: " + err.Error()}
	}
	return r.probe(ctx, "canary", path, text)
}

// makeReadable writes the file so that permissions alone would not hide it.
func makeReadable(dir, path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// environment compares the environment inside with our own. Values that the
// settings give and those that every system has are no leak.
func environment(ctx context.Context, r *rig) finding {
	f := r.probe(ctx, "environment")
	if f.outcome != Contained {
		return f
	}
	leaked, total := leaks(strings.Split(f.seen, "\x1f"), os.Environ(), r.spec.Env)
	if len(leaked) > 0 {
		return finding{Escaped, "variables of the host: " + strings.Join(leaked, ", ")}
	}
	return finding{Contained, "none of " + plural(total, "variable") + " is the host's"}
}

// leaks returns the names of variables inside that have the value of the
// host's, or carry a value of the host's under another name.
func leaks(inside, host []string, given map[string]string) (names []string, total int) {
	const telling = 12 // shorter values are alike by chance
	values := map[string]bool{}
	for _, e := range host {
		if _, v, _ := strings.Cut(e, "="); len(v) >= telling && !commonplace(v) {
			values[v] = true
		}
	}
	for _, e := range inside {
		name, value, ok := strings.Cut(e, "=")
		if !ok {
			continue
		}
		total++
		if v, ours := given[name]; ours && v == value {
			continue
		}
		if commonplace(value) {
			continue
		}
		if values[value] || (len(value) >= 4 && slices.Contains(host, e) && name != "LANG" && name != "TERM" && name != "HOME" && name != "SHELL") {
			names = append(names, name)
		}
	}
	return names, total
}

// commonplace reports whether a value is the same on every system.
func commonplace(value string) bool {
	switch value {
	case "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "/usr/local/bin:/usr/bin:/bin", "/workspace", "/home/sandbox", "xterm-256color":
		return true
	}
	return false
}

// forge starts a command and lets the probe write into its output.
func forge(ctx context.Context, r *rig) finding {
	victim, err := r.start(ctx, r.sb, "wait")
	if err != nil {
		return finding{Unproven, "the victim could not be started: " + err.Error()}
	}
	if err := victim.ready(ctx); err != nil {
		victim.finish(ctx)
		return finding{Unproven, "the victim did not start: " + err.Error()}
	}
	text := word()
	f := r.probe(ctx, "forge", text)
	end := victim.finish(ctx)
	if strings.Contains(victim.out.String(), text) {
		f = finding{Escaped, "false output arrived as that of another command"}
	}
	if f.outcome == Contained && end.seen != "undisturbed" {
		f = finding{Escaped, f.seen + "; but the other command was disturbed: " + end.seen}
	}
	if f.outcome == Escaped && r.gvisor {
		return finding{Skipped, f.seen + " — under gVisor nothing keeps the commands of one sandbox apart"}
	}
	return f
}

// falseGuest puts another socket in the place of the guest's and looks whom
// a new connection reaches.
func falseGuest(ctx context.Context, r *rig) finding {
	p, err := r.start(ctx, r.sb, "replace-socket")
	if err != nil {
		return finding{Unproven, "the probe could not be started: " + err.Error()}
	}
	if err := p.ready(ctx); err != nil {
		p.finish(ctx)
		return finding{Unproven, "the probe did not start: " + err.Error()}
	}
	if r.opts.Reopen == nil {
		return p.finish(ctx)
	}
	sb, err := r.opts.Reopen(ctx)
	if err != nil {
		p.finish(ctx)
		return finding{Escaped, "with a false socket in place the guest cannot be reached: " + err.Error()}
	}
	defer sb.Close()
	reached := r.answers(ctx, sb)
	f := p.finish(ctx)
	if reached != nil {
		return finding{Escaped, f.seen + "; a new connection did not reach the real guest: " + reached.Error()}
	}
	if f.outcome == Contained {
		f.seen += "; a new connection reached the real guest"
	}
	return f
}
