package config

import (
	"slices"
	"time"
)

// KubernetesProvider is the name of the provider that the settings of kubernetes are
// of.
const KubernetesProvider = "kubernetes"

// KubernetesSettings say in which cluster sandboxes of the provider kubernetes run,
// and how their pods are made. They hold for all agents.
type KubernetesSettings struct {
	Kubeconfig *string `json:"kubeconfig,omitempty" doc:"Host file with the credentials of the cluster; ~ and $VAR are replaced. Default the service account of the pod that the program runs in, $KUBECONFIG, or ~/.kube/config."`
	Context    *string `json:"context,omitempty" doc:"Context of the kubeconfig; default its current one."`
	Namespace  *string `json:"namespace,omitempty" doc:"Namespace of all sandboxes, which has to exist; default that of the context."`

	TenantNamespaces *bool `json:"tenantNamespaces,omitempty" doc:"Whether the pods of each tenant are in a namespace of their own, which is made on first use with a ResourceQuota of the limits of the tenant. Programs with and without it share no sandboxes. Default false."`

	Fleet *string   `json:"fleet,omitempty" doc:"Name that keeps programs of one namespace apart: those with the same name, which is empty by default, serve the same sandboxes."`
	Lease *Duration `json:"lease,omitempty" doc:"How long a program that serves the namespace may be silent until others take over what it holds, 3s to 1m; default 20s. It stops by itself after two thirds."`

	GuestImage *string `json:"guestImage,omitempty" doc:"Image that holds the file /sandbox-guest, named by digest. There is no default."`
	GuestFrom  *string `json:"guestFrom,omitempty" enum:"initContainer,imageVolume" doc:"How the guest comes into a pod: copied by the init container, or from the image mounted as a volume, which needs Kubernetes 1.35 or the feature gate ImageVolume. Default initContainer."`

	Workspace     *string `json:"workspace,omitempty" enum:"emptyDir,pvc" doc:"Volume of the workspace, which ends with the pod: emptyDir (a folder of the node) or pvc (a volume of the storage class, as an ephemeral volume). Default emptyDir."`
	WorkspaceSize *Size   `json:"workspaceSize,omitempty" min:"1048576" doc:"Bytes of the workspace; default 4g. A pod that exceeds the size of an emptyDir is evicted."`
	StorageClass  *string `json:"storageClass,omitempty" doc:"Storage class of a workspace of the kind pvc; default the cluster's."`

	ImagePullPolicy  *string           `json:"imagePullPolicy,omitempty" enum:"IfNotPresent,Always,Never" doc:"When nodes pull images; default IfNotPresent."`
	ImagePullSecrets []string          `json:"imagePullSecrets,omitempty" doc:"Secrets of the namespace with credentials of registries."`
	NodeSelector     map[string]string `json:"nodeSelector,omitempty" merge:"key" doc:"Labels that the nodes of sandboxes have."`
	SeccompProfile   *string           `json:"seccompProfile,omitempty" doc:"Profile of each node, by its path below the kubelet's folder seccomp; default the default profile of the runtime."`
	UserNamespace    *string           `json:"userNamespace,omitempty" enum:"host,pod" doc:"pod gives each pod a user namespace of its own (hostUsers: false) and fails where the cluster has none; default host."`
	RequestPercent   *int64            `json:"requestPercent,omitempty" min:"1" max:"100" doc:"How much of docker.memory and docker.cpus the scheduler sets aside, in percent; default 25."`
	NetworkPolicy    *string           `json:"networkPolicy,omitempty" enum:"verify,trust" doc:"verify has a sandbox without network try a connection, and refuses it where one is made; trust does not, for clusters where pods have no network by other means. Default verify."`

	Way              *string           `json:"way,omitempty" enum:"auto,exec,tls" doc:"How the guest in a pod is reached: tls (its port on the pod's address, with certificates on both sides, and an error where that is not reached), exec (a stream through the API server), or auto (tls where wayFromLabels or wayFromCIDRs let this program in and it works, else exec). Default auto."`
	WayPort          *int64            `json:"wayPort,omitempty" min:"1024" max:"65535" doc:"TCP port of the guest in its pod; default 7443. No command can listen there."`
	WayFromLabels    map[string]string `json:"wayFromLabels,omitempty" merge:"key" doc:"Labels of the pods of this program, which a network policy lets in at that port; default none."`
	WayFromNamespace *string           `json:"wayFromNamespace,omitempty" doc:"Namespace of these pods; default that of the sandboxes."`
	WayFromCIDRs     []string          `json:"wayFromCIDRs,omitempty" doc:"Blocks of addresses that the policy lets in, such as 192.0.2.0/24, where this program runs outside of the cluster; default none."`
}

// Options returns the settings of the pod as the options of the provider.
func (k *KubernetesSettings) Options() map[string]any {
	out := map[string]any{}
	if k == nil {
		return out
	}
	for name, v := range map[string]*string{
		"guestImage": k.GuestImage, "guestFrom": k.GuestFrom, "workspace": k.Workspace, "storageClass": k.StorageClass,
		"imagePullPolicy": k.ImagePullPolicy, "seccompProfile": k.SeccompProfile, "userNamespace": k.UserNamespace, "networkPolicy": k.NetworkPolicy,
		"way": k.Way, "wayFromNamespace": k.WayFromNamespace,
	} {
		if v != nil {
			out[name] = *v
		}
	}
	if k.WorkspaceSize != nil {
		out["workspaceSize"] = int64(*k.WorkspaceSize)
	}
	if k.RequestPercent != nil {
		out["requestPercent"] = *k.RequestPercent
	}
	if k.WayPort != nil {
		out["wayPort"] = *k.WayPort
	}
	for key, texts := range map[string][]string{"imagePullSecrets": k.ImagePullSecrets, "wayFromCIDRs": k.WayFromCIDRs} {
		if len(texts) > 0 {
			list := make([]any, len(texts))
			for i, text := range texts {
				list[i] = text
			}
			out[key] = list
		}
	}
	for key, pairs := range map[string]map[string]string{"nodeSelector": k.NodeSelector, "wayFromLabels": k.WayFromLabels} {
		if len(pairs) > 0 {
			labels := map[string]any{}
			for name, v := range pairs {
				labels[name] = v
			}
			out[key] = labels
		}
	}
	return out
}

// podOptions gives a sandbox of the provider kubernetes the settings of its pod as
// its options. Options of a layer are refused: the same would be said in two places.
func (p *problems) podOptions(s *Settings, r *Resolved) {
	if r.Provider != KubernetesProvider {
		return
	}
	if len(r.ProviderOptions) > 0 {
		p.badly(r.field("providerOptions"), "write them as kubernetes, beside agents", "the provider kubernetes has its options in the settings kubernetes")
		return
	}
	var k *KubernetesSettings
	if s != nil {
		k = s.Kubernetes
	}
	if options := k.Options(); len(options) > 0 {
		r.ProviderOptions, r.OptionsFor = options, KubernetesProvider
	}
}

// UsesKubernetes reports whether the settings name a cluster, or the provider
// kubernetes for some agent.
func UsesKubernetes(s *Settings) bool {
	return s != nil && s.Kubernetes != nil || slices.Contains(Providers(s), KubernetesProvider)
}

// kubernetes refuses what no pod can have.
func (p *problems) kubernetes(k *KubernetesSettings) {
	if k == nil {
		return
	}
	if d := k.Lease; d != nil && (time.Duration(*d) < 3*time.Second || time.Duration(*d) > time.Minute) {
		p.badly("kubernetes.lease", "write it like 20s", "a lease takes 3s to 1m")
	}
	if k.TenantNamespaces != nil && *k.TenantNamespaces {
		if len(k.ImagePullSecrets) > 0 {
			p.badly("kubernetes.imagePullSecrets", "give the nodes the credentials of the registry", "with tenantNamespaces no Secret is copied to the namespaces of tenants")
		}
		if len(k.WayFromLabels) > 0 && k.WayFromNamespace == nil {
			p.badly("kubernetes.wayFromNamespace", "set it to the namespace of the pods of this program", "with tenantNamespaces the pods that connect are in another namespace than the sandboxes")
		}
	}
	if k.StorageClass != nil && value(k.Workspace) != "pvc" {
		p.badly("kubernetes.storageClass", "set kubernetes.workspace to pvc", "only a workspace of the kind pvc has a storage class")
	}
	if k.GuestImage != nil && !isImage(*k.GuestImage) {
		p.badly("kubernetes.guestImage", "write it like registry.example.com/sandbox-guest@sha256:DIGEST", "%q is no image", *k.GuestImage)
	}
}
