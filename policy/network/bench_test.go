package network_test

import (
	"fmt"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// hundred are a hundred rules of every kind, most of them names.
func hundred() network.Options {
	var o network.Options
	for i := range 40 {
		o.Allowed = append(o.Allowed, fmt.Sprintf("host%d.example", i))
	}
	for i := range 10 {
		o.Allowed = append(o.Allowed, fmt.Sprintf("*.wide%d.example", i), fmt.Sprintf("10.%d.0.0/16:5432", i), fmt.Sprintf("GET,HEAD http://files%d.example/pub", i))
	}
	for i := range 20 {
		o.Denied = append(o.Denied, fmt.Sprintf("bad%d.example", i))
	}
	for i := range 10 {
		o.Denied = append(o.Denied, fmt.Sprintf("*.bad%d.example", i))
	}
	return o
}

func BenchmarkJudge(b *testing.B) {
	p := compiled(b, hundred())
	for _, target := range []string{"host39.example:443", "a.wide9.example:443", "10.9.2.3:5432", "other.example:443", "bad19.example:443", "8.8.8.8:443"} {
		h, port, err := network.ParseTarget(target)
		if err != nil {
			b.Fatal(err)
		}
		want := p.Judge(h, port).Verdict
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Judge(h, port).Verdict != want {
					b.Fatal(target)
				}
			}
		})
	}
}

func BenchmarkJudgeRequest(b *testing.B) {
	p := compiled(b, hundred())
	for _, target := range []string{"files9.example:80", "host39.example:80"} {
		h, port, err := network.ParseTarget(target)
		if err != nil {
			b.Fatal(err)
		}
		r := network.Request{Host: h, Port: port, Protocol: network.HTTP, Method: "GET", Path: "/pub/some/longer/path/to/a/file.tar.gz?token=abc"}
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.JudgeRequest(r).Verdict != allow {
					b.Fatal(target)
				}
			}
		})
	}
}

func BenchmarkParseTarget(b *testing.B) {
	for b.Loop() {
		if _, _, err := network.ParseTarget("a.sub.example.com:443"); err != nil {
			b.Fatal(err)
		}
	}
}
