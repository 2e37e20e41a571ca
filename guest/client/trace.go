package client

import (
	"path"
	"strings"
)

// The guest has no network and no clock that the host trusts, so the host makes
// the span of a program from the guest's messages, by the host's clock: the span
// begins with the message that the program runs, and ends with the message of its
// exit, which the guest sends when the last process of its tree is gone.
const (
	spanProcess = "sandbox.process"
	eventOutput = "first output"
)

// trace ends the span of the program. It is called by the reader.
func (p *process) trace() {
	p.span.String("process.executable.name", executable(p.cmd.Args))
	if p.pid > 0 {
		p.span.Int("process.vpid", int64(p.pid))
	}
	switch {
	case p.err != nil:
		p.span.Fail(p.err)
	default:
		p.span.Int("process.exit.code", int64(p.exit.Code))
		p.span.String("sandbox.exit.signal", p.exit.Signal)
		if p.exit.Limit != nil {
			p.span.String("sandbox.exit.limit", p.exit.Limit.Limit)
		}
		p.span.Int("sandbox.cpu_us", (p.exit.Usage.User + p.exit.Usage.System).Microseconds())
		p.span.Int("sandbox.max_rss", p.exit.Usage.MaxRSS)
	}
	p.span.End()
}

// maxExecutable is the longest name of a program that a span has, in bytes.
const maxExecutable = 32

// executable returns the name of the program without its folder. A name that is
// long, or has characters that names of programs seldom have, is left out: an
// agent may have put a whole command line there.
func executable(args []string) string {
	if len(args) == 0 {
		return ""
	}
	name := path.Base(args[0])
	if len(name) > maxExecutable || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-[") != "" {
		return ""
	}
	return name
}
