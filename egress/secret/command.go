package secret

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Defaults of [Deps].
const (
	commandTime = 10 * time.Second
	commandRest = 2 * time.Second
)

// passed lists the variables passed to a command: those for finding programs,
// settings and key agents. Others can be set with env(1).
func passed() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
		"DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "SSH_AUTH_SOCK",
	}
}

// run returns the output of the command of h. The command has no input and no
// terminal; its error output is dropped, because it may be part of a secret.
func (v *vault) run(ctx context.Context, h *held) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(v.deps.commandTime, commandTime))
	defer cancel()
	const hint = "run it by hand to see what it says"
	cmd := exec.CommandContext(ctx, h.From.Command[0], h.From.Command[1:]...)
	if err := v.commandBeyondReach(h, cmd.Path); err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Env = "/", []string{}
	for _, name := range passed() {
		if value, ok := v.deps.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = cmp.Or(v.deps.commandRest, commandRest)
	out := &bounded{data: make([]byte, 0, maxSource), full: cancel} // allocated once, so that growing leaves no copies
	cmd.Stdout = out
	err := cmd.Run()
	if err == nil {
		return out.data, nil
	}
	clear(out.data)
	switch {
	case out.over:
		return nil, h.invalid("comes from a command that prints too much", hint)
	case ctx.Err() != nil:
		return nil, h.unread("comes from a command that took too long", hint, ctx.Err())
	case errors.Is(err, exec.ErrWaitDelay):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // some process is still in that group
		return nil, h.unread("comes from a command whose output stayed open after its end", hint, err)
	}
	return nil, h.unread("comes from a command that failed", hint, err)
}

// bounded keeps output up to its capacity, and calls full if there is more.
type bounded struct {
	data []byte
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > cap(b.data)-len(b.data) {
		b.over = true
		b.full()
		return 0, io.ErrShortWrite
	}
	b.data = append(b.data, p...)
	return len(p), nil
}
