package server

import "strings"

// boxes returns attempts on a sandbox of tenant B by its name, with every route
// below it.
func boxes() []attempt {
	gone, no := []int{404}, []int{403}
	const box, spare = "/v1/sandboxes/{box}", "/v1/sandboxes/{spare}"
	events := []string{"Accept", "text/event-stream"}
	out := []attempt{
		{name: "tell of it", ask: ask{path: box}, want: gone},
		{name: "list it in a tenant's name", ask: ask{path: "/v1/sandboxes", header: []string{"Sandbox-Tenant", victim}}, want: no},
		{name: "list all tenants", ask: ask{path: "/v1/sandboxes?all=true"}, want: no, right: ask{as: "admin"}},
		{name: "what it costs", ask: ask{path: box + "/usage"}, want: gone},
		{name: "run a line", ask: ask{method: "POST", path: box + "/exec", body: `{"line":"cat secret.txt"}`}, want: gone},
		{name: "run a program", ask: ask{method: "POST", path: box + "/exec", body: `{"args":["cat","secret.txt"]}`}, want: gone},
		{name: "run a line as a stream", ask: ask{method: "POST", path: box + "/exec", body: `{"line":"cat secret.txt"}`, header: events}, want: gone},
		{name: "run with a session of the same name", ask: ask{as: "a-child", method: "POST", path: box + "/exec", body: `{"line":"cat secret.txt"}`}, want: gone, right: ask{as: "b-session"}},
		{name: "run with another session of B", ask: ask{as: "b-other", method: "POST", path: box + "/exec", body: `{"line":"cat secret.txt"}`}, want: gone},
		{name: "list its tools", ask: ask{path: box + "/tools"}, want: gone},
		{name: "call a tool", ask: ask{method: "POST", path: box + "/tools/read", body: `{"path":"secret.txt"}`}, want: gone},
		{name: "list its shells", ask: ask{path: box + "/shells"}, want: gone},
		{name: "open a shell", ask: ask{method: "POST", path: box + "/shells", body: `{}`}, want: gone},
		{name: "run in its shell", ask: ask{method: "POST", path: box + "/shells/{shell}/run", body: `{"line":"echo $STATE"}`}, want: gone},
		{name: "run in its shell by one's own sandbox", ask: ask{method: "POST", path: "/v1/sandboxes/{mine}/shells/{shell}/run", body: `{"line":"echo $STATE"}`}, want: gone, right: ask{path: box + "/shells/{shell}/run"}},
		{name: "run in its main shell", ask: ask{method: "POST", path: box + "/shells/main/run", body: `{"line":"id"}`}, want: gone},
		{name: "list its terminals", ask: ask{path: box + "/terminals"}, want: gone},
		{name: "list its processes", ask: ask{path: box + "/processes"}, want: gone},
		{name: "start a process", ask: ask{method: "POST", path: spare + "/processes", body: `{"line":"true"}`}, want: gone, then: processEnds},
		{name: "stream a command", ask: ask{method: "POST", path: box + "/exec/stream", body: `{"line":"cat secret.txt"}`}, want: gone},
		{name: "look at its process", ask: ask{path: box + "/processes/{terminal}"}, want: gone},
		{name: "follow its process", ask: ask{path: box + "/processes/{terminal}/stream", header: []string{"Last-Event-ID", "{terminal}.0"}}, want: gone, right: ask{path: box + "/processes/{terminal}"}},
		{name: "follow its process by one's own sandbox", ask: ask{method: "POST", path: "/v1/sandboxes/{mine}/exec/stream", header: []string{"Last-Event-ID", "{terminal}.0"}}, want: gone, right: ask{method: "GET", path: box + "/processes/{terminal}"}},
		{name: "write to its process", ask: ask{method: "POST", path: box + "/processes/{terminal}/stdin", body: `{"data":"exit\n"}`}, want: gone, right: ask{method: "GET", path: box + "/processes/{terminal}", body: "-"}},
		{name: "end its process", ask: ask{method: "DELETE", path: box + "/processes/{terminal}"}, want: gone, right: ask{method: "GET", path: box + "/processes/{terminal}"}},
		{name: "end its process by one's own sandbox", ask: ask{method: "DELETE", path: "/v1/sandboxes/{mine}/processes/{terminal}"}, want: gone, right: ask{method: "GET", path: box + "/processes/{terminal}"}},
		{name: "signal its process", ask: ask{method: "POST", path: box + "/processes/{terminal}/signal", body: `{"signal":"KILL"}`}, want: gone, right: ask{method: "GET", path: box + "/processes/{terminal}", body: "-"}},
		{name: "resize its process", ask: ask{method: "POST", path: box + "/processes/{terminal}/resize", body: `{"rows":1,"cols":1}`}, want: gone},
		{name: "list its changes", ask: ask{path: box + "/watch?path=/workspace", header: events}, want: gone},
		{name: "read a file", ask: ask{path: box + "/files/workspace/secret.txt"}, want: gone},
		{name: "read a part of a file", ask: ask{path: box + "/files/workspace/secret.txt", header: []string{"Range", "bytes=0-3"}}, want: gone},
		{name: "ask whether a file is there", ask: ask{method: "HEAD", path: box + "/files/workspace/secret.txt"}, want: gone},
		{name: "list a folder", ask: ask{path: box + "/files/workspace?list=true"}, want: gone},
		{name: "look at a file", ask: ask{path: box + "/files/workspace/secret.txt?stat=true"}, want: gone},
		{name: "pack it", ask: ask{path: box + "/archive?path=/workspace"}, want: gone},
		{name: "find files", ask: ask{method: "POST", path: box + "/files:glob", body: `{"pattern":"*.txt"}`}, want: gone},
		{name: "make a folder", ask: ask{method: "POST", path: spare + "/files:mkdir", body: `{"path":"/workspace/made"}`}, want: gone},
		{name: "write a file", ask: ask{method: "PUT", path: spare + "/files/workspace/new.txt", body: "x", header: []string{"Content-Type", "application/octet-stream"}}, want: gone},
		{name: "move a file", ask: ask{method: "POST", path: spare + "/files:move", body: `{"from":"/workspace/new.txt","to":"/workspace/moved.txt"}`}, want: gone},
		{name: "remove a file", ask: ask{method: "DELETE", path: spare + "/files/workspace/moved.txt"}, want: gone},
		{name: "list its browsers", ask: ask{path: box + "/browser"}, want: gone},
		{name: "freeze it", ask: ask{method: "POST", path: spare + "/pause"}, want: gone},
		{name: "thaw it", ask: ask{method: "POST", path: spare + "/resume"}, want: gone},
		{name: "keep it for long", ask: ask{method: "POST", path: spare + "/extend", body: `{"ttlSeconds":36000}`}, want: gone},
		{name: "have it expire", ask: ask{method: "POST", path: spare + "/extend", body: `{"ttlSeconds":1000}`}, want: gone},
		{name: "make it anew", ask: ask{method: "POST", path: spare + "/recreate", body: `{"force":true}`}, want: gone},
		{name: "remove it", ask: ask{method: "DELETE", path: spare + "?force=true&workspace=true"}, want: gone},
		{name: "explain it", ask: ask{method: "POST", path: "/v1/explain", body: `{"tenant":"` + victim + `","session":"` + sessionB + `"}`}, want: []int{403, 422}, right: ask{as: "admin", body: `{}`}, okay: []int{200, 422}},
		{name: "prune all", ask: ask{method: "POST", path: "/v1/prune", body: `{}`}, want: []int{403, 422}, right: ask{as: "admin"}, okay: []int{200, 422}},
		{name: "its figures", ask: ask{path: "/metrics"}, want: no, right: ask{as: "admin"}},
		{name: "stage media from the host", ask: ask{method: "POST", path: "/v1/sandboxes/{mine}/media", body: `{"refs":["/etc/hostname"]}`}, want: []int{403, 404, 422}, right: ask{as: "b", path: box + "/files/workspace/secret.txt", method: "GET", body: "-"}},
		{name: "stage media into it", ask: ask{method: "POST", path: box + "/media", body: `{"refs":["/etc/hostname"]}`}, want: gone, right: ask{as: "b"}, okay: []int{403, 404, 422}},
	}
	for i := range out {
		if out[i].as == "" {
			out[i].as = "a"
		}
	}
	return out
}

// processEnds waits for the end of the process that B has started in the spare
// sandbox: a sandbox in which something runs is not frozen.
func processEnds(w *world, _ said) {
	w.until("the process ends", func() bool {
		got, _ := w.does(ask{as: "b", path: "/v1/sandboxes/{spare}/processes"})
		return got.status == 200 && !strings.Contains(got.body, `"running"`)
	})
}

// paths returns attempts to reach files of tenant B or of the host by the
// spelling of a path. The controls use the plain path.
func paths() []attempt {
	const own, box = "/v1/sandboxes/{mine}", "/v1/sandboxes/{box}"
	const file = own + "/files/"
	to := func(name, path string, want ...int) attempt {
		return attempt{name: name, ask: ask{as: "a", path: path}, want: want, right: ask{as: "a", path: own + "/files/workspace/secret.txt"}}
	}
	name := func(name, path string) attempt {
		a := to(name, path, 404, 422)
		a.right = ask{as: "a", path: own}
		return a
	}
	return []attempt{
		name("up from one's own to it", own+"/../{box}"),
		name("up with escapes", own+"/%2e%2e/{box}"),
		name("up with an escaped slash", "/v1/sandboxes/{mine}%2f..%2f{box}"),
		name("up with escapes of escapes", "/v1/sandboxes/{mine}%252f..%252f{box}"),
		name("up with a backslash", "/v1/sandboxes/{mine}%5c..%5c{box}"),
		name("a name that ends early", "/v1/sandboxes/{box}%00"),
		name("a name with a new line", "/v1/sandboxes/{box}%0a"),
		name("a name in capitals", "/v1/sandboxes/{BOX}"),
		name("a name with a dot behind it", "/v1/sandboxes/{box}."),
		name("a name with a space behind it", "/v1/sandboxes/{box}%20"),
		name("a name with a parameter of its own", "/v1/sandboxes/{box};x=1"),
		name("a name with dots that look so", "/v1/sandboxes/%ef%bc%8e%ef%bc%8e"),
		name("an overlong dot", "/v1/sandboxes/%c0%ae%c0%ae"),
		name("a name that is too long", "/v1/sandboxes/"+long(4000)),
		name("all names", "/v1/sandboxes/*"),
		name("a name with the tenant before it", "/v1/sandboxes/"+victim+"%2f{box}"),
		name("two slashes", "/v1//sandboxes/{box}"),
		name("below a mount", "/mcp/../v1/sandboxes/{box}"),
		name("below the usage", "/v1/usage/../sandboxes/{box}"),
		to("a file above", file+"../../secret.txt", 403, 404, 422),
		to("a file above with escapes", file+"%2e%2e/%2e%2e/etc/passwd", 403, 404, 422),
		to("a file above with escaped slashes", file+"..%2f..%2f..%2fetc%2fpasswd", 403, 404, 422),
		to("a file above with escapes of escapes", file+"%252e%252e%252fetc%252fpasswd", 403, 404, 422),
		to("a file with a zero", file+"workspace/secret.txt%00.png", 404, 422),
		to("a file with a backslash", file+"..%5c..%5csecret.txt", 403, 404, 422),
		to("a file by dots that look so", file+"%ef%bc%8e%ef%bc%8e/secret.txt", 403, 404, 422),
		to("a file by an overlong slash", file+"..%c0%af..%c0%afetc/passwd", 404, 422),
		to("a file that is too long", file+long(5000), 404, 422),
		to("the folder of the host", file+"var/lib/sandbox/tokens", 403, 404, 422),
		to("the disk of the host", file+"/proc/1/root/etc/shadow", 403, 404, 422),
		to("an archive from above", own+"/archive?path=../..", 403, 404, 422),
		to("a watch above", own+"/watch?path=../..", 403, 404, 422),
		{name: "move a file out", ask: ask{as: "a", method: "POST", path: own + "/files:move", body: `{"from":"secret.txt","to":"../../../tmp/x/y"}`}, want: []int{403, 404, 422}, right: ask{as: "b", path: box + "/files/workspace/secret.txt", method: "GET", body: "-"}},
		{name: "find files above", ask: ask{as: "a", method: "POST", path: own + "/files:glob", body: `{"pattern":"../../**/secret.txt"}`}, want: []int{403, 404, 422}, right: ask{as: "a", body: `{"pattern":"*.txt"}`}},
	}
}
