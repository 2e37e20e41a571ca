//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// gateOf is the gate of a program whose settings say nothing.
func gateOf() (*gate.Gate, error) {
	res, err := config.Resolve(nil, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return nil, err
	}
	return gate.New(res, config.Inside{})
}

// decide judges a line as an agent would write it.
func (s *Session) decide(context.Context) (operation, error) {
	g, err := gateOf()
	if err != nil {
		return operation{}, err
	}
	const line = "cd src && go test ./... 2>&1 | tail -20"
	take := func(context.Context) ([]time.Duration, error) {
		begun := time.Now()
		j := g.Judge(gate.Call{Line: line})
		took := time.Since(begun)
		if j.Verdict == policy.Deny || len(j.Commands) != 3 {
			return nil, wrong("%q was judged as %+v", line, j)
		}
		return []time.Duration{took}, nil
	}
	return operation{rounds: 50, ways: []way{{name: WayHost, turn: 20, take: take}}}, nil
}

// decideLong judges lines of 64 KiB that were made to be costly, each in turn.
func (s *Session) decideLong(context.Context) (operation, error) {
	g, err := gateOf()
	if err != nil {
		return operation{}, err
	}
	lines := longLines()
	next := 0
	take := func(context.Context) ([]time.Duration, error) {
		line := lines[next%len(lines)]
		next++
		begun := time.Now()
		j := g.Judge(gate.Call{Line: line})
		took := time.Since(begun)
		if len(j.Commands) == 0 && j.Verdict != policy.Deny {
			return nil, wrong("a line that begins with %q was judged as %+v", line[:20], j)
		}
		return []time.Duration{took}, nil
	}
	return operation{rounds: 20, ways: []way{{name: WayHost, turn: len(lines), take: take}}}, nil
}

// longLines are lines of 64 KiB at most.
func longLines() []string {
	const most = 64 << 10
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (most-len(head)-len(tail))/len(part)) + tail
	}
	depth := func(open, inner, close string) string {
		n := (most - len(inner)) / (len(open) + len(close))
		return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
	}
	var files strings.Builder
	for i := 0; files.Len() < most-100; i++ {
		fmt.Fprintf(&files, " ../src/%d/file-%d.go", i%7, i)
	}
	return []string{
		fill("echo", " a", ""),
		fill("echo '", "x", "'"),
		fill("", "echo a; ", "true"),
		fill("", "cat a | ", "cat"),
		fill("echo ", "'a'\"b\"$c", ""),
		fill("echo ", "\"$(date)\" ", ""),
		fill("cat <<E\n", "a line of text\n", "E\n"),
		fill("bash -c '", "ls -l ; ", "true'"),
		"rm -f" + files.String(),
		depth("$(", "true", ")"),
		depth("(", "true", ")"),
		depth("{ ", "true", "; }"),
	}
}
