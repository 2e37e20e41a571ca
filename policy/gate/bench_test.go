package gate_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// BenchmarkNew is what a start of the program pays.
func BenchmarkNew(b *testing.B) {
	res, err := config.Resolve(nil, config.Who{Agent: "main", Session: "s"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := gate.New(res, config.Inside{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJudge is what a command pays.
func BenchmarkJudge(b *testing.B) {
	res, err := config.Resolve(nil, config.Who{Agent: "main", Session: "s"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	g, err := gate.New(res, config.Inside{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		g.Judge(gate.Call{Line: "cd src && go test ./... 2>&1 | tail -20"})
	}
}
