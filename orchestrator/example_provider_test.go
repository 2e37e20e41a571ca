//go:build linux && !sandbox_front

package orchestrator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// daytona makes the provider "daytona", whose machines are bubblewrap processes.
func daytona(d orchestrator.Deps) (sandbox.Provider, error) {
	return provider.NewWithin(daytonaOptions(d)), nil
}

func daytonaOptions(d orchestrator.Deps) provider.WithinOptions {
	return provider.WithinOptions{
		Name: "daytona", Start: startMachine, CheckOptions: checkTarget, World: d.World,
		Holds: []provider.Setting{
			provider.HoldsNetwork, provider.HoldsUser, provider.HoldsCapDrop, provider.HoldsReadOnly,
			provider.HoldsTmpfs, provider.HoldsBinds, provider.HoldsWorkspace,
		},
	}
}

// checkTarget takes the option "target", the region of a machine.
func checkTarget(options map[string]any) error {
	for key, value := range options {
		switch {
		case key != "target":
			return provider.OptionError(key, "daytona has no such option", "it has target")
		case value != "eu" && value != "us":
			return provider.OptionError(key, fmt.Sprintf("%v is no target", value), "use eu or us")
		}
	}
	return nil
}

// startMachine starts a machine that shows what s says and no more, with the
// guest as its first process.
func startMachine(ctx context.Context, s sandbox.Spec) (provider.Machine, error) {
	o := launch.Order{Bwrap: "/usr/bin/bwrap", Guest: sandbox.GuestDir + "/bin/sandbox-guest"}
	source := func(path string) string { return path }
	if os.Geteuid() == 0 { // what is inside must not be root
		o.Down = &launch.Down{UID: s.UID, GID: s.GID}
		source = func(path string) string {
			o.Down.Sources = append(o.Down.Sources, path)
			return launch.Staged(len(o.Down.Sources) - 1)
		}
	}
	o.Args = []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL",
		"--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--uid", strconv.Itoa(s.UID), "--gid", strconv.Itoa(s.GID),
		"--hostname", fmt.Sprint("daytona-", s.Options["target"]), "--proc", "/proc", "--dev", "/dev",
		"--ro-bind", source("/usr"), "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
	}
	for _, t := range s.Tmpfs {
		o.Args = append(o.Args, "--perms", fmt.Sprintf("%04o", t.Mode), "--size", strconv.FormatInt(t.Size, 10), "--tmpfs", t.Target)
	}
	for _, m := range s.Mounts {
		how := map[bool]string{false: "--bind", true: "--ro-bind"}[m.ReadOnly]
		o.Args = append(o.Args, how, source(m.Source), m.Target)
	}
	o.Args = append(o.Args, "--remount-ro", "/")
	m, err := launch.Start(ctx, o)
	if err != nil { // m is a nil pointer then, and must not become a Machine
		return nil, err
	}
	return m, nil
}

// A program with a provider of its own, which the settings name.
func Example_provider() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	settings := filepath.Join(dir, "sandbox.json")
	text := `{"agents": {"defaults": {"sandbox": {"provider": "daytona", "providerOptions": {"target": "eu"}}}}}`
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	h, err := orchestrator.Open(orchestrator.Options{
		ConfigFile: settings, StateDir: filepath.Join(dir, "state"),
		Providers: []orchestrator.Registration{{Name: "daytona", New: daytona}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	m, err := h.Manager()
	if err != nil {
		fmt.Println(err)
		return
	}
	who := config.Who{Agent: "main", Session: "chat-42"}
	r, err := m.Capture(context.Background(), manager.Request{Who: who, Command: sandbox.Command{Args: []string{"uname", "-n"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", r.Stdout)
	list, err := m.List(context.Background(), manager.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range list.Containers {
		fmt.Println(row.Session, row.Provider, row.Status)
	}
	// Output:
	// daytona-eu
	// chat-42 daytona running
}
