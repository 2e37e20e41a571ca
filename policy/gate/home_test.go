package gate_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// TestPrivateHome holds that a home which only the sandbox has is not judged as
// the home of a person, and that one which holds something of the host is.
func TestPrivateHome(t *testing.T) {
	const (
		plain    = `"commands": {"autoAllowIfSandboxed": false}`
		bound    = `"commands": {"autoAllowIfSandboxed": false}, "docker": {"dangerouslyAllowReservedTargets": true, "binds": ["/data/ssh:/home/sandbox/.ssh:ro"]}`
		excluded = `"commands": {"autoAllowIfSandboxed": false, "excluded": ["rm:*"]}`
		own      = `"commands": {"autoAllowIfSandboxed": false}, "filesystem": {"denyWrite": ["~/.keep"]}`
	)
	tests := []struct {
		settings, home, line string
		want                 policy.Verdict
	}{
		{plain, "", "rm -rf ~/.cache", policy.Allow},
		{plain, "", "mkdir -p ~/.ssh", policy.Allow},
		{plain, "", "mkdir -p ~/.s*", policy.Allow},
		{plain, "", "echo 'export A=1' >> ~/.bashrc", policy.Allow},
		{plain, "/home/ann", "echo 'export A=1' >> ~/.bashrc", policy.Allow},
		{plain, "/home/ann", "mkdir -p ~/.ssh", policy.Allow},
		{plain, "", "rm -rf ~", policy.Deny},
		{plain, "/home/ann", "mkdir -p /home/ann/.ssh", policy.Deny},
		{plain, "/home/ann", "echo x >> /home/ann/.bashrc", policy.Deny},
		{plain, "", "echo x >> /home/ann/.bashrc", policy.Deny},
		{plain, "", "echo x >> /root/.bashrc", policy.Deny},
		{plain, "", "cat ~/../ann/.ssh/id_rsa", policy.Ask},
		{plain, "/home/sandbox", "echo x >> ~/.bashrc", policy.Deny},
		{plain, "", "cat .env", policy.Deny},
		{plain, "/home/ann", "cat ~/.bashrc ~/.gitconfig ~/.docker/config.json ~/.vscode/settings.json ~/.idea/x", policy.Allow},
		{plain, "/home/ann", "git config --global user.name x && git commit -m x", policy.Allow},
		{plain, "/home/ann", "cat /home/ann/.bashrc", policy.Ask},
		{plain, "/home/ann", "cat /home/ann/.gitconfig", policy.Ask},
		{plain, "/home/ann", "cat /home/ann/.docker/config.json", policy.Deny},
		{plain, "/home/ann", "cat /home/ann/.idea/x", policy.Ask},
		{plain, "", "cat /root/.profile", policy.Ask},
		{plain, "/home/sandbox", "cat ~/.gitconfig", policy.Ask},
		{excluded, "", "cat ~/.bashrc", policy.Ask},
		{bound, "", "echo x >> ~/.ssh/authorized_keys", policy.Deny},
		{excluded, "", "rm -rf ~/.ssh", policy.Deny},
		{`"mode": "off"`, "", "mkdir ~/.ssh", policy.Deny},
		{own, "", "touch ~/.keep", policy.Deny},
		{`"commands": {"autoAllowIfSandboxed": false}, "filesystem": {"denyWrite": ["~/.ssh"]}`, "", "mkdir ~/.ssh", policy.Deny},
	}
	for _, tt := range tests {
		s, err := config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {`+tt.settings+`}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := config.Resolve(s, config.Who{Agent: "main", Session: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gate.New(res, config.Inside{Home: tt.home})
		if err != nil {
			t.Fatal(err)
		}
		if j := g.Judge(gate.Call{Line: tt.line}); j.Verdict != tt.want {
			t.Errorf("%s with home %q, %s: %s, want %s: %+v", tt.line, tt.home, tt.settings, j.Verdict, tt.want, j.Reasons)
		}
	}
}
