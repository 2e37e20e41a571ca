package kubernetes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// checkSpec refuses what no sandbox may have, and what pods cannot be given. world
// are the facts of this host for the rules of hardening.
func checkSpec(s sandbox.Spec, world hardening.World) error {
	if problems := validation.IsDNS1123Label(s.Name); len(problems) > 0 {
		return refused(sandbox.CodeValidation, "docker.containerPrefix", s.Name, fmt.Sprintf("%q cannot be the name of a pod: %s", s.Name, problems[0]), "")
	}
	if !instanceID.MatchString(s.Owner.Instance) {
		return refused(sandbox.CodeValidation, "", s.Name, fmt.Sprintf("the instance %q is none", s.Owner.Instance), "")
	}
	if err := hardening.Check(s, world); err != nil {
		return err
	}
	switch {
	case s.Network != networkNone && s.Network != networkOpen:
		return refused(sandbox.CodeUnsupported, "docker.network", s.Name, fmt.Sprintf("pods have no network %q", s.Network), `use "none", or "bridge" for the network that pods have`)
	case len(s.Setup) > 0:
		return refused(sandbox.CodeUnsupported, "docker.setup", s.Name, "images are not built in a cluster", "build an image with these commands, push it, and name it as docker.image")
	case s.GPUs != "":
		return refused(sandbox.CodeUnsupported, "docker.gpus", s.Name, "devices are not requested for pods", "leave the setting out")
	case s.ImageID == "":
		return refused(sandbox.CodeValidation, "docker.image", s.Name, "no image is named", "")
	}
	for _, m := range s.Mounts {
		switch m.Role {
		case sandbox.RoleBind:
			return refused(sandbox.CodeCapabilityBlocked, "docker.binds", m.Source, fmt.Sprintf("%q is refused: a pod would show a folder of its node (hostPath)", m.Source), "copy the files into the sandbox")
		case sandbox.RoleAgent, sandbox.RoleSettings:
			return refused(sandbox.CodeUnsupported, "workspaceAccess", m.Source, "folders of this machine are not brought into pods", "set workspaceAccess to none, and copy the files into the sandbox")
		case sandbox.RoleCache:
			return refused(sandbox.CodeUnsupported, "cache.tools", m.Source, "caches of this machine are not brought into pods", "leave the setting out")
		case sandbox.RoleWorkspace:
			if m.Base != "" {
				return refused(sandbox.CodeUnsupported, "workspaceAccess", m.Base, "folders of this machine are not brought into pods", "set workspaceAccess to none, and copy the files into the sandbox")
			}
		}
	}
	return nil
}

func refused(code sandbox.Code, field, resource, message, hint string) error {
	return &sandbox.Error{Code: code, Op: "create", Field: field, Resource: resource, Message: message, Hint: hint}
}

// checkPod refuses a pod that isolates less than every sandbox does, whoever has
// written it. It is asked about the pod that is sent, the one that the API server
// answers with, and each one that is opened.
func checkPod(p *corev1.Pod) error {
	s := p.Spec
	var found []string
	bad := func(is bool, what string) {
		if is {
			found = append(found, what)
		}
	}
	bad(s.HostNetwork, "hostNetwork")
	bad(s.HostPID, "hostPID")
	bad(s.HostIPC, "hostIPC")
	bad(s.ShareProcessNamespace != nil && *s.ShareProcessNamespace, "shareProcessNamespace")
	bad(s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken, "automountServiceAccountToken")
	bad(s.EnableServiceLinks == nil || *s.EnableServiceLinks, "enableServiceLinks")
	bad(len(s.EphemeralContainers) > 0, "ephemeralContainers")
	for _, v := range s.Volumes {
		is := v.VolumeSource
		bad(is.HostPath != nil, "volumes."+v.Name+".hostPath")
		bad(is.EmptyDir == nil && is.Ephemeral == nil && is.Image == nil && is.DownwardAPI == nil, "volumes."+v.Name)
		bad(is.EmptyDir != nil && is.EmptyDir.SizeLimit == nil, "volumes."+v.Name+".sizeLimit")
	}
	var sysctls []corev1.Sysctl
	var seccomp *corev1.SeccompProfile
	if s.SecurityContext != nil {
		sysctls, seccomp = s.SecurityContext.Sysctls, s.SecurityContext.SeccompProfile
	}
	bad(len(sysctls) > 0, "securityContext.sysctls")
	bad(!filters(seccomp), "securityContext.seccompProfile")
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, what := range weaknesses(c) {
			found = append(found, c.Name+"."+what)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "harden", Resource: p.Name,
		Message: "the pod isolates too little: " + strings.Join(found, ", "), Hint: "find what changes the pods of the namespace (kubectl get mutatingwebhookconfigurations), and exempt the namespace from it"}
}

// weaknesses names what a container has that none may have.
func weaknesses(c corev1.Container) (found []string) {
	bad := func(is bool, what string) {
		if is {
			found = append(found, what)
		}
	}
	sc := c.SecurityContext
	if sc == nil {
		return []string{"securityContext"}
	}
	bad(sc.Privileged != nil && *sc.Privileged, "privileged")
	bad(sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation, "allowPrivilegeEscalation")
	bad(sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot, "runAsNonRoot")
	bad(sc.RunAsUser == nil || *sc.RunAsUser <= 0, "runAsUser")
	bad(sc.RunAsGroup == nil || *sc.RunAsGroup <= 0, "runAsGroup")
	bad(sc.Capabilities != nil && len(sc.Capabilities.Add) > 0, "capabilities.add")
	bad(sc.ProcMount != nil && *sc.ProcMount != corev1.DefaultProcMount, "procMount")
	bad(!filters(sc.SeccompProfile), "seccompProfile")
	bad(sc.AppArmorProfile != nil && sc.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, "appArmorProfile")
	bad(c.Lifecycle != nil, "lifecycle")
	bad(c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil, "probes")
	bad(len(c.VolumeDevices) > 0, "volumeDevices")
	bad(len(c.EnvFrom) > 0, "envFrom")
	for _, port := range c.Ports {
		bad(port.HostPort != 0, "hostPort")
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		q, ok := c.Resources.Limits[name]
		bad(!ok || q.IsZero(), "limits."+string(name))
	}
	return found
}

func filters(p *corev1.SeccompProfile) bool {
	return p != nil && p.Type != corev1.SeccompProfileTypeUnconfined
}

// compare refuses got, the pod that the API server answers with, where it differs
// from the one that was asked for in what isolates it. Defaults of the API server
// and what a cluster adds for its own use (tolerations, priority) are no such
// difference.
func compare(asked, got *corev1.Pod) error {
	var found []string
	same := func(what string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			found = append(found, what)
		}
	}
	a, g := asked.Spec, got.Spec
	same("securityContext", a.SecurityContext, g.SecurityContext)
	same("hostUsers", a.HostUsers, g.HostUsers)
	same("runtimeClassName", a.RuntimeClassName, g.RuntimeClassName)
	same("hostAliases", len(a.HostAliases), len(g.HostAliases))
	same("dnsPolicy", a.DNSPolicy, g.DNSPolicy)
	same("volumes", volumeNames(a.Volumes), volumeNames(g.Volumes))
	for i := range min(len(a.Volumes), len(g.Volumes)) {
		same("volumes."+a.Volumes[i].Name, plainVolume(a.Volumes[i]), plainVolume(g.Volumes[i]))
	}
	for _, l := range []struct {
		what string
		a, g []corev1.Container
	}{{"initContainers", a.InitContainers, g.InitContainers}, {"containers", a.Containers, g.Containers}} {
		if len(l.a) != len(l.g) {
			found = append(found, l.what)
			continue
		}
		for i, c := range l.a {
			d := l.g[i]
			same(c.Name+".name", c.Name, d.Name)
			same(c.Name+".image", c.Image, d.Image)
			same(c.Name+".command", slices.Concat(c.Command, c.Args), slices.Concat(d.Command, d.Args))
			same(c.Name+".env", len(c.Env), len(d.Env))
			same(c.Name+".securityContext", c.SecurityContext, d.SecurityContext)
			same(c.Name+".volumeMounts", c.VolumeMounts, d.VolumeMounts)
			for name, q := range c.Resources.Limits {
				have := d.Resources.Limits[name]
				same(c.Name+".limits."+string(name), q.Value(), have.Value())
			}
		}
	}
	for name, v := range asked.Labels {
		same("labels."+name, v, got.Labels[name])
	}
	for name, v := range asked.Annotations {
		same("annotations."+name, v, got.Annotations[name])
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Resource: asked.Name,
		Message: "the cluster made another pod than the one that was asked for: " + strings.Join(found, ", ") + " differ",
		Hint:    "find what changes the pods of the namespace (kubectl get mutatingwebhookconfigurations), and exempt the namespace from it; hostUsers is taken away by clusters without user namespaces: set kubernetes.userNamespace to host there"}
}

func volumeNames(vs []corev1.Volume) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Name)
	}
	return out
}

// plainVolume is v as text, in which quantities that are equal are written alike.
func plainVolume(v corev1.Volume) string {
	text := v.String()
	if e := v.EmptyDir; e != nil && e.SizeLimit != nil {
		text = fmt.Sprint(v.Name, e.Medium, e.SizeLimit.Value())
	}
	if e := v.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
		spec := e.VolumeClaimTemplate.Spec
		size := spec.Resources.Requests[corev1.ResourceStorage]
		text = fmt.Sprint(v.Name, spec.StorageClassName == nil, spec.AccessModes, size.Value())
	}
	return text
}
