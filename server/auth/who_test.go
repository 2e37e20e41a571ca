package auth

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func TestWho(t *testing.T) {
	admin := Caller{Role: token.Admin}
	tenant := Caller{Role: token.Tenant, Tenant: "acme"}
	agent := Caller{Role: token.Tenant, Tenant: "acme", Agent: "researcher"}
	session := Caller{Role: token.Session, Tenant: "acme", Session: "chat-1"}
	tests := []struct {
		name    string
		caller  Caller
		headers [][2]string
		want    config.Who
		code    sandbox.Code
		field   string
	}{
		{"admin, nothing said", admin, nil, config.Who{Agent: "main", Session: "default"}, "", ""},
		{"admin chooses", admin, [][2]string{{"Sandbox-Tenant", "x"}, {"Sandbox-Agent", "a"}, {"Sandbox-Session", "s 1"}}, config.Who{Tenant: "x", Agent: "a", Session: "s 1"}, "", ""},
		{"tenant, nothing said", tenant, nil, config.Who{Tenant: "acme", Agent: "main", Session: "default"}, "", ""},
		{"tenant says its own name", tenant, [][2]string{{"sandbox-tenant", "acme"}}, config.Who{Tenant: "acme", Agent: "main", Session: "default"}, "", ""},
		{"tenant names another", tenant, [][2]string{{"Sandbox-Tenant", "evil"}}, config.Who{}, sandbox.CodePermissionDeny, TenantHeader},
		{"tenant names none", tenant, [][2]string{{"Sandbox-Tenant", ""}}, config.Who{}, sandbox.CodePermissionDeny, TenantHeader},
		{"tenant in other letters", tenant, [][2]string{{"Sandbox-Tenant", "ACME"}}, config.Who{}, sandbox.CodePermissionDeny, TenantHeader},
		{"tenant twice", tenant, [][2]string{{"Sandbox-Tenant", "acme"}, {"Sandbox-Tenant", "acme"}}, config.Who{}, sandbox.CodeValidation, TenantHeader},
		{"two tenants in one", admin, [][2]string{{"Sandbox-Tenant", "a, b"}}, config.Who{}, sandbox.CodeValidation, "tenant"},
		{"tenant as a path", admin, [][2]string{{"Sandbox-Tenant", "../b"}}, config.Who{}, sandbox.CodeValidation, "tenant"},
		{"agent of a token for one", agent, nil, config.Who{Tenant: "acme", Agent: "researcher", Session: "default"}, "", ""},
		{"another agent", agent, [][2]string{{"Sandbox-Agent", "main"}}, config.Who{}, sandbox.CodePermissionDeny, AgentHeader},
		{"empty agent", tenant, [][2]string{{"Sandbox-Agent", ""}}, config.Who{}, sandbox.CodeValidation, "agent"},
		{"agent twice", tenant, [][2]string{{"Sandbox-Agent", "a"}, {"Sandbox-Agent", "a"}}, config.Who{}, sandbox.CodeValidation, AgentHeader},
		{"session of a token for one", session, nil, config.Who{Tenant: "acme", Agent: "main", Session: "chat-1"}, "", ""},
		{"another session", session, [][2]string{{"Sandbox-Session", "chat-2"}}, config.Who{}, sandbox.CodePermissionDeny, SessionHeader},
		{"session in other letters", session, [][2]string{{"Sandbox-Session", "Chat-1"}}, config.Who{}, sandbox.CodePermissionDeny, SessionHeader},
		{"empty session", tenant, [][2]string{{"Sandbox-Session", ""}}, config.Who{}, sandbox.CodeValidation, "session"},
		{"session with what cannot be seen", tenant, [][2]string{{"Sandbox-Session", "a\u200bb"}}, config.Who{}, sandbox.CodeValidation, "session"},
		{"session that is no UTF-8", tenant, [][2]string{{"Sandbox-Session", "a\xff"}}, config.Who{}, sandbox.CodeValidation, "session"},
		{"session that is too long", tenant, [][2]string{{"Sandbox-Session", strings.Repeat("x", 257)}}, config.Who{}, sandbox.CodeValidation, "session"},
		{"nobody", Caller{}, nil, config.Who{}, sandbox.CodePermissionDeny, SessionHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{}}
			for _, h := range tt.headers {
				r.Header.Add(h[0], h[1])
			}
			got, err := tt.caller.Who(r)
			if tt.code != "" {
				wantCode(t, err, tt.code, tt.field)
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v and %v, want %+v", got, err, tt.want)
			}
		})
	}
}
