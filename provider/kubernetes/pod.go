package kubernetes

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bulkhead-dev/sandbox"
)

const (
	containerName = "sandbox"
	prepareName   = "prepare"
	networkNone   = "none"
	networkOpen   = "bridge" // the pod's own network, without a policy of ours

	guestVolume    = "guest"
	identityVolume = "identity"

	content = "content" // folder of a volume that the sandbox sees, made by the init container

	// guestSize bounds the volume that the guest is copied to.
	guestSize = 32 << 20

	// spare is what the container may write beside its volumes: logs of the guest.
	spare = 64 << 20
)

// Plan translates s into the pod that is asked for. It is pure: hash and now go
// into the annotations. The environment of s is no part of the pod: the guest gives
// it to each command, so that no reader of the pod sees its values.
func Plan(s sandbox.Spec, hash string, now time.Time) (*corev1.Pod, error) {
	sh, err := shapeOf(s.Options)
	if err != nil {
		return nil, err
	}
	if err := sh.needGuest(); err != nil {
		return nil, err
	}
	b := &builder{s: s, sh: sh}
	b.guest()
	b.identity()
	for _, m := range s.Mounts {
		b.mount(m)
	}
	for i, t := range s.Tmpfs {
		b.memory("memory-"+strconv.Itoa(i), t.Target, t.Size, t.Mode)
	}
	if s.Resources.ShmSize > 0 {
		b.memory("shm", "/dev/shm", s.Resources.ShmSize, 0o1777)
	}
	no, yes, grace := false, true, int64(1)
	uid, gid := int64(s.UID), int64(s.GID)
	always := corev1.FSGroupChangeOnRootMismatch
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labelsOf(s, sh), Annotations: annotationsOf(s, hash, now)},
		Spec: corev1.PodSpec{
			Hostname:                      sandbox.Hostname,
			HostAliases:                   hostAliases(s),
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			ShareProcessNamespace:         &no,
			NodeSelector:                  maps.Clone(sh.nodeSelector),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &gid, FSGroup: &gid, FSGroupChangePolicy: &always,
				SeccompProfile: b.seccomp(),
			},
			InitContainers: []corev1.Container{b.prepare()},
			Containers:     []corev1.Container{b.main()},
			Volumes:        b.volumes,
		},
	}
	if s.Runtime != "" {
		pod.Spec.RuntimeClassName = &s.Runtime
	}
	if sh.userNamespace {
		pod.Spec.HostUsers = &no
	}
	for _, name := range sh.pullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	pod.Spec.DNSPolicy, pod.Spec.DNSConfig = dns(s)
	return pod, nil
}

// A builder collects the volumes of a pod.
type builder struct {
	s       sandbox.Spec
	sh      shape
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount // of the container with the guest
	before  []corev1.VolumeMount // of the init container
	folders []string             // arguments of the init container
	disk    int64                // bytes of emptyDirs that are no memory
}

// guest adds the volume of the guest.
func (b *builder) guest() {
	v := corev1.Volume{Name: guestVolume}
	if b.sh.guestVolume {
		v.Image = &corev1.ImageVolumeSource{Reference: b.sh.guestImage, PullPolicy: corev1.PullPolicy(b.sh.pullPolicy)}
	} else {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: quantity(guestSize)}
		b.disk += guestSize
		b.before = append(b.before, corev1.VolumeMount{Name: guestVolume, MountPath: "/guest"})
		b.folders = append(b.folders, "--to=/guest")
	}
	b.volumes = append(b.volumes, v)
	b.mounts = append(b.mounts, corev1.VolumeMount{Name: guestVolume, MountPath: sandbox.GuestDir + "/bin", ReadOnly: true})
}

// identity adds minimal files of users and groups. They come from annotations of
// the pod, so that no further object of the cluster is needed.
func (b *builder) identity() {
	mode := int32(0o444)
	item := func(file, annotation string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: file, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotation + "']"}}
	}
	b.volumes = append(b.volumes, corev1.Volume{Name: identityVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		DefaultMode: &mode, Items: []corev1.DownwardAPIVolumeFile{item("passwd", annotationPasswd), item("group", annotationGroup)},
	}}})
	for _, file := range []string{"passwd", "group"} {
		b.mounts = append(b.mounts, corev1.VolumeMount{Name: identityVolume, MountPath: "/etc/" + file, SubPath: file, ReadOnly: true})
	}
}

// mount adds what stands for a mount of the Spec. Sources are folders of the host
// of the caller, which no pod sees; checkSpec refuses the mounts that need theirs.
func (b *builder) mount(m sandbox.Mount) {
	switch m.Role {
	case sandbox.RoleWorkspace:
		v := corev1.Volume{Name: "workspace"}
		if b.sh.workspace == "pvc" {
			v.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(b.s, b.sh)},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *quantity(b.sh.workspaceSize)}},
					VolumeMode:  new(corev1.PersistentVolumeFilesystem),
				},
			}}
			if b.sh.storageClass != "" {
				v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName = &b.sh.storageClass
			}
		} else {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{SizeLimit: quantity(b.sh.workspaceSize)}
			b.disk += b.sh.workspaceSize
		}
		b.volume(v, m.Target, 0o700)
	case sandbox.RoleTrust:
		b.disk += trustSize
		b.volume(corev1.Volume{Name: trustVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: quantity(trustSize)}}}, m.Target, 0o700)
	case sandbox.RoleHome:
		b.disk += m.Size
		b.volume(corev1.Volume{Name: "home", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: quantity(m.Size)}}}, m.Target, 0o700)
	}
}

// memory adds a folder in memory.
func (b *builder) memory(name, target string, size int64, mode uint32) {
	b.volume(corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: quantity(size)},
	}}, target, mode)
}

// volume mounts a folder of v that belongs to the user of the sandbox. The volume
// itself belongs to root, with a mode that the kubelet chooses.
func (b *builder) volume(v corev1.Volume, target string, mode uint32) {
	place := "/volumes/" + v.Name
	b.volumes = append(b.volumes, v)
	b.before = append(b.before, corev1.VolumeMount{Name: v.Name, MountPath: place})
	b.mounts = append(b.mounts, corev1.VolumeMount{Name: v.Name, MountPath: path.Clean(target), SubPath: content})
	b.folders = append(b.folders, fmt.Sprintf("--dir=%04o:%s/%s", mode, place, content))
}

// prepare is the init container, which makes the folders of the sandbox.
func (b *builder) prepare() corev1.Container {
	c := b.hardened(prepareName, b.sh.guestImage)
	c.Command = append([]string{"/sandbox-guest", "install"}, b.folders...)
	c.VolumeMounts = b.before
	c.SecurityContext.ReadOnlyRootFilesystem = new(true)
	c.Resources = corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: *quantity(64 << 20), corev1.ResourceCPU: *resource.NewMilliQuantity(500, resource.DecimalSI),
			corev1.ResourceEphemeralStorage: *quantity(spare)}, // a quota of it needs one of each container
		Requests: corev1.ResourceList{corev1.ResourceMemory: *quantity(8 << 20), corev1.ResourceCPU: *resource.NewMilliQuantity(10, resource.DecimalSI)},
	}
	return c
}

// main is the container with the guest as its first process.
func (b *builder) main() corev1.Container {
	c := b.hardened(containerName, b.s.ImageID)
	c.Command = append([]string{sandbox.GuestDir + "/bin/sandbox-guest", "init", "--unset=KUBERNETES_"}, append(nofile(b.s), b.port()...)...)
	c.VolumeMounts = b.mounts
	r := b.s.Resources
	c.Resources.Limits = corev1.ResourceList{
		corev1.ResourceMemory: *quantity(r.Memory), corev1.ResourceCPU: *resource.NewMilliQuantity(max(1, r.NanoCPUs/1e6), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *quantity(b.disk + spare),
	}
	c.Resources.Requests = corev1.ResourceList{
		corev1.ResourceMemory:           *quantity(b.part(r.Memory)),
		corev1.ResourceCPU:              *resource.NewMilliQuantity(max(1, b.part(r.NanoCPUs/1e6)), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *quantity(spare),
	}
	return c
}

// port is the argument of the guest for its TCP port.
func (b *builder) port() []string {
	if b.sh.way == wayExec {
		return nil
	}
	return []string{"--port=" + strconv.FormatInt(b.sh.wayPort, 10)}
}

// part is the share of a limit that is requested.
func (b *builder) part(limit int64) int64 { return limit / 100 * b.sh.requestPercent }

// hardened returns a container with nothing but its hardening.
func (b *builder) hardened(name, image string) corev1.Container {
	no, yes := false, true
	uid, gid := int64(b.s.UID), int64(b.s.GID)
	sc := &corev1.SecurityContext{
		Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: new(b.s.ReadOnlyRoot),
		RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &gid,
		Capabilities: &corev1.Capabilities{}, SeccompProfile: b.seccomp(),
	}
	for _, c := range b.s.Security.CapDrop {
		sc.Capabilities.Drop = append(sc.Capabilities.Drop, corev1.Capability(c))
	}
	if name := b.s.Security.AppArmor; name != "" {
		sc.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullPolicy(b.sh.pullPolicy), WorkingDir: "/", SecurityContext: sc,
		// The kubelet mounts a file of the node there that anyone inside may
		// write, and no limit counts it. Images usually close /root to users.
		TerminationMessagePath: "/root/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// seccomp is the profile of all containers.
func (b *builder) seccomp() *corev1.SeccompProfile {
	if b.sh.seccompProfile == "" {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &b.sh.seccompProfile}
}

// nofile is the argument of the guest for the soft limit of open files.
func nofile(s sandbox.Spec) []string {
	for _, u := range s.Resources.Ulimits {
		if u.Name == "nofile" && u.Soft > 0 {
			return []string{"--nofile=" + strconv.FormatInt(u.Soft, 10)}
		}
	}
	return nil
}

// hostAliases are the lines of /etc/hosts beside those of the kubelet.
func hostAliases(s sandbox.Spec) []corev1.HostAlias {
	names := map[string][]string{}
	for _, line := range s.ExtraHosts {
		if name, address, ok := strings.Cut(line, ":"); ok {
			names[address] = append(names[address], name)
		}
	}
	var out []corev1.HostAlias
	for _, address := range slices.Sorted(maps.Keys(names)) {
		out = append(out, corev1.HostAlias{IP: address, Hostnames: names[address]})
	}
	return out
}

// dns returns how names are looked up. Without a network, none is: the address is
// one at which nothing listens.
func dns(s sandbox.Spec) (corev1.DNSPolicy, *corev1.PodDNSConfig) {
	switch {
	case len(s.DNS) > 0:
		return corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: slices.Clone(s.DNS)}
	case s.Network == networkNone:
		return corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
	return corev1.DNSClusterFirst, nil
}

// passwd is the content of /etc/passwd.
func passwd(s sandbox.Spec) string {
	return fmt.Sprintf("root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:%d:%d:sandbox:%s:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", s.UID, s.GID, sandbox.HomeDir)
}

// group is the content of /etc/group.
func group(s sandbox.Spec) string {
	return fmt.Sprintf("root:x:0:\nsandbox:x:%d:\nnogroup:x:65534:\n", s.GID)
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
