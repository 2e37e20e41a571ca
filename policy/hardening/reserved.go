package hardening

// place is a path with the reason why no sandbox may have it.
type place struct{ path, why string }

// hostPlaces are refused as bind sources together with all below and above them.
func hostPlaces() []place {
	return []place{
		{"/etc", "it holds the host's configuration, accounts and keys"},
		{"/proc", "it shows and controls the host's processes"},
		{"/sys", "it controls the host's kernel and devices"},
		{"/dev", "it holds the host's devices"},
		{"/root", "it is the home of the host's root"},
		{"/boot", "it holds the host's kernel"},
		{"/run", "it holds the sockets of the host's services, the engine's among them"},
		{"/var/run", "it holds the sockets of the host's services, the engine's among them"},
		{"/var/lib/docker", "it holds the engine's own data, other containers included"},
		{"/var/lib/containerd", "it holds the engine's own data, other containers included"},
		{"/var/lib/containers", "it holds the engine's own data, other containers included"},
		{"/var/root", "it is the home of the host's root"},
		{"/private/etc", "it holds the host's configuration, accounts and keys"},
		{"/private/var/run", "it holds the sockets of the host's services, the engine's among them"},
		{"/private/var/root", "it is the home of the host's root"},
	}
}

// hostDetails are refused together with all below them. What lies above them
// may be mounted read-only, as programs are.
func hostDetails() []place {
	return []place{
		{"/var/log", "it holds the host's logs, which tell about users and other sandboxes"},
		{"/private/var/log", "it holds the host's logs, which tell about users and other sandboxes"},
		{"/lib/modules", "it holds modules of the host's kernel"},
		{"/usr/lib/modules", "it holds modules of the host's kernel"},
	}
}

// programPlaces are refused as writable sources together with all below and
// above them: the host runs what lies there.
func programPlaces() []place {
	const programs, jobs = "the host's programs lie there", "the host's jobs lie there"
	return []place{
		{"/usr", programs}, {"/bin", programs}, {"/sbin", programs},
		{"/lib", programs}, {"/lib32", programs}, {"/lib64", programs}, {"/libx32", programs},
		{"/System", programs}, {"/Library", programs}, {"/Applications", programs},
		{"/var/spool", jobs}, {"/private/var/spool", jobs},
	}
}

// programParents are refused as writable sources themselves. Below them lies
// what people put there, data among it.
func programParents() []place {
	return []place{
		{"/opt", "programs of the host lie there"},
		{"/var/lib", "the state of the host's services lies there"},
	}
}

// sourceTrees lie among the host's programs and are none.
func sourceTrees() []string { return []string{"/usr/src", "/usr/local/src"} }

// homeParents are folders whose entries are homes. They and their entries
// hold credentials, so they are refused as a whole; folders inside a home pass.
func homeParents() []string { return []string{"/home", "/Users"} }

// credentials are folders and files that hold keys, relative to any home.
// They are refused wherever they appear in a path, since a copy or another
// user's home is no better.
func credentials() []string {
	return []string{
		".ssh", ".aws", ".gnupg", ".config/gcloud", ".azure", ".kube", ".docker",
		".netrc", ".git-credentials", ".config/gh", ".config/op", ".npmrc", ".pypirc",
		".password-store", ".local/share/keyrings", ".terraform.d", ".vault-token", ".pgpass",
	}
}

// engineSockets are the names under which container engines listen.
func engineSockets() []string {
	return []string{
		"docker.sock", "docker.raw.sock", "docker-cli.sock", "containerd.sock", "containerd.sock.ttrpc",
		"podman.sock", "crio.sock", "cri-dockerd.sock", "dockershim.sock", "buildkitd.sock",
	}
}

// engineSocketFolders hold an engine's socket. They and what is above them
// have no break-glass switch.
func engineSocketFolders() []string { return []string{"/run", "/var/run", "/private/var/run"} }

// insidePlaces are refused as targets together with all below and above them.
// fixed ones have no break-glass switch.
func insidePlaces() []struct {
	place
	fixed bool
} {
	return []struct {
		place
		fixed bool
	}{
		{place{"/workspace", "the workspace lies there"}, false},
		{place{"/agent", "the agent's folder lies there"}, false},
		{place{"/.sandbox", "our own guest lies there"}, true},
		{place{"/proc", "the kernel's view of the sandbox lies there"}, true},
		{place{"/sys", "the kernel's view of the sandbox lies there"}, true},
		{place{"/dev", "the devices of the sandbox lie there"}, true},
		{place{"/etc/passwd", "the minimal user database lies there"}, false},
		{place{"/etc/group", "the minimal user database lies there"}, false},
		{place{"/home/sandbox", "the home lies there"}, false},
	}
}
