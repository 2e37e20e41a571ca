package mcp

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// A client that is not of the server's user receives nothing of the host, in any
// part of an error.
func TestPrivateTextsAreNotReported(t *testing.T) {
	const private = "/var/lib/state-of-the-host"
	s := New(Options{Private: []string{private}})
	for name, e := range map[string]sandbox.Error{
		"message": {Message: "open " + private + "/x"}, "field": {Field: private}, "resource": {Resource: private + "/x"}, "hint": {Hint: "look at " + private},
		"cause": {Message: "it is down", Err: errors.New(private)}, "other cause": {Message: "it is down", Err: errors.New("dial unix /run/engine.sock")},
	} {
		t.Run(name, func(t *testing.T) {
			e.Code = sandbox.CodeUnavailable
			r := s.failed(&e)
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			reported := string(data) + s.protocolError(&e).Error()
			if strings.Contains(reported, private) || strings.Contains(reported, "engine.sock") {
				t.Errorf("the client is told %s", reported)
			}
			if !r.IsError || !strings.Contains(reported, string(e.Code)) {
				t.Errorf("the client does not hear what went wrong: %s", reported)
			}
			if own := New(Options{}).problem(&e); strings.Contains(own.Message, "for a reason that only") {
				t.Errorf("the user of the program is told %+v", own)
			}
		})
	}
}
