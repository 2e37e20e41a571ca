package kubernetes

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A shape is what the options of a Spec say about its pod.
type shape struct {
	guestImage      string // reference of the image that holds the guest alone
	guestVolume     bool   // the image is mounted as a volume rather than copied
	workspace       string // "emptyDir" or "pvc"
	workspaceSize   int64  // bytes
	storageClass    string // of a pvc; empty is the cluster's default
	pullPolicy      string
	pullSecrets     []string
	nodeSelector    map[string]string
	seccompProfile  string // path of a profile below the kubelet's folder; empty is RuntimeDefault
	userNamespace   bool   // hostUsers: false
	requestPercent  int64  // of the limits
	trustNetworking bool   // the policy of the network is not tried out

	way     wayTaken // wayAuto, wayExec or wayTLS; wayAuto only where wayFrom says who connects
	wayAuto bool     // what was asked for is wayAuto
	wayPort int64    // of the guest in the pod; used unless way is wayExec
	wayFrom waySource
}

// A wayTaken is a word for how guests are reached.
type wayTaken string

const (
	wayAuto wayTaken = "auto" // wayTLS where it works, else wayExec
	wayExec wayTaken = "exec" // a stream through the API server
	wayTLS  wayTaken = "tls"  // the port of the guest
)

// A waySource is what may connect to the ports of guests: pods of a namespace with
// labels, and blocks of addresses. Where both are empty no policy of ours lets
// anything in.
type waySource struct {
	namespace string // empty is that of the sandboxes
	labels    map[string]string
	cidrs     []string
}

// Keys of the options.
const (
	optGuestImage     = "guestImage"
	optGuestFrom      = "guestFrom"
	optWorkspace      = "workspace"
	optWorkspaceSize  = "workspaceSize"
	optStorageClass   = "storageClass"
	optPullPolicy     = "imagePullPolicy"
	optPullSecrets    = "imagePullSecrets"
	optNodeSelector   = "nodeSelector"
	optSeccomp        = "seccompProfile"
	optUserNamespace  = "userNamespace"
	optRequestPercent = "requestPercent"
	optNetworkPolicy  = "networkPolicy"
	optWay            = "way"
	optWayPort        = "wayPort"
	optWayNamespace   = "wayFromNamespace"
	optWayLabels      = "wayFromLabels"
	optWayCIDRs       = "wayFromCIDRs"
)

const (
	defaultWorkspaceSize  = 4 << 30
	defaultRequestPercent = 25
	defaultWayPort        = 7443
)

// CheckOptions implements [provider.OptionChecker].
func (p *Provider) CheckOptions(options map[string]any) error {
	_, err := shapeOf(options)
	return err
}

// shapeOf reads the options of a Spec. Each error is one of
// [provider.OptionError]. A guest image is not required: what needs one asks for
// it by [shape.needGuest].
func shapeOf(options map[string]any) (shape, error) {
	out := shape{workspace: "emptyDir", workspaceSize: defaultWorkspaceSize, pullPolicy: "IfNotPresent", requestPercent: defaultRequestPercent, wayPort: defaultWayPort}
	r := reader{options: options}
	r.text(optGuestImage, &out.guestImage)
	var from, userNamespace, policy string
	way := string(wayAuto)
	r.word(optGuestFrom, &from, "initContainer", "imageVolume")
	r.word(optWorkspace, &out.workspace, "emptyDir", "pvc")
	r.bytes(optWorkspaceSize, &out.workspaceSize)
	r.text(optStorageClass, &out.storageClass)
	r.word(optPullPolicy, &out.pullPolicy, "IfNotPresent", "Always", "Never")
	r.texts(optPullSecrets, &out.pullSecrets)
	r.pairs(optNodeSelector, &out.nodeSelector)
	r.text(optSeccomp, &out.seccompProfile)
	r.word(optUserNamespace, &userNamespace, "host", "pod")
	r.number(optRequestPercent, &out.requestPercent, 1, 100)
	r.word(optNetworkPolicy, &policy, "verify", "trust")
	r.word(optWay, &way, string(wayAuto), string(wayExec), string(wayTLS))
	r.number(optWayPort, &out.wayPort, 1024, 65535)
	r.text(optWayNamespace, &out.wayFrom.namespace)
	r.pairs(optWayLabels, &out.wayFrom.labels)
	r.texts(optWayCIDRs, &out.wayFrom.cidrs)
	out.way, out.wayAuto = wayTaken(way), way == string(wayAuto)
	out.guestVolume, out.userNamespace, out.trustNetworking = from == "imageVolume", userNamespace == "pod", policy == "trust"
	if r.err == nil && out.seccompProfile != "" && !localProfile.MatchString(out.seccompProfile) {
		r.fail(optSeccomp, "it is no path below the folder of profiles of the kubelet", "name it as profiles/sandbox.json, without .. and not absolute")
	}
	if r.err == nil && out.storageClass != "" && out.workspace != "pvc" {
		r.fail(optStorageClass, "only a workspace of the kind pvc has a storage class", "set workspace to pvc, or leave the class out")
	}
	for _, cidr := range out.wayFrom.cidrs {
		if p, err := netip.ParsePrefix(cidr); r.err == nil && (err != nil || p != p.Masked()) {
			r.fail(optWayCIDRs, fmt.Sprintf("%q is no block of addresses", cidr), "write it like 192.0.2.0/24")
		}
	}
	if r.err == nil && out.wayFrom.namespace != "" && len(out.wayFrom.labels) == 0 {
		r.fail(optWayNamespace, "no labels say which pods of the namespace may connect", "set wayFromLabels to labels of the pods of this program")
	}
	if out.wayAuto && len(out.wayFrom.labels)+len(out.wayFrom.cidrs) == 0 {
		out.way = wayExec // our own policy closes the port, and each try would take the whole time for one
	}
	return out, r.done()
}

// localProfile matches a relative path without "..".
var localProfile = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// needGuest returns an error unless the image of the guest is known.
func (s shape) needGuest() error {
	if s.guestImage != "" {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "create", Field: "kubernetes.guestImage", Message: "no image is named that holds the guest",
		Hint: "build one from the file sandbox-guest alone, push it, and name it by digest; see docs/kubernetes.md"}
}

// A reader takes options one by one and keeps the first error.
type reader struct {
	options map[string]any
	known   []string
	err     error
}

func (r *reader) fail(key, message, hint string) {
	if r.err == nil {
		r.err = provider.OptionError(key, message, hint)
	}
}

func (r *reader) take(key string) (any, bool) {
	r.known = append(r.known, key)
	v, ok := r.options[key]
	return v, ok
}

func (r *reader) text(key string, to *string) {
	if v, ok := r.take(key); ok {
		s, is := v.(string)
		if !is || s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			r.fail(key, fmt.Sprintf("%v is no text without spaces", v), "")
			return
		}
		*to = s
	}
}

func (r *reader) word(key string, to *string, words ...string) {
	had := r.err
	r.text(key, to)
	if _, set := r.options[key]; set && r.err == had && !slices.Contains(words, *to) {
		r.fail(key, fmt.Sprintf("%q is unknown", *to), "use one of "+strings.Join(words, ", "))
	}
}

func (r *reader) number(key string, to *int64, least, most int64) {
	v, ok := r.take(key)
	if !ok {
		return
	}
	var n int64
	switch x := v.(type) {
	case int64:
		n = x
	case int:
		n = int64(x)
	case float64:
		n = int64(x)
		if float64(n) != x {
			n = least - 1
		}
	default:
		n = least - 1
	}
	if n < least || n > most {
		r.fail(key, fmt.Sprintf("%v is out of range", v), fmt.Sprintf("use a number from %d to %d", least, most))
		return
	}
	*to = n
}

// bytes takes a number of bytes, or a quantity of Kubernetes such as 10Gi.
func (r *reader) bytes(key string, to *int64) {
	const least, most = 1 << 20, 1 << 50
	if s, is := r.options[key].(string); is {
		r.known = append(r.known, key)
		q, err := resource.ParseQuantity(s)
		if err != nil || q.Value() < least || q.Value() > most {
			r.fail(key, fmt.Sprintf("%q is no size", s), "use a number of bytes, or a quantity such as 10Gi")
			return
		}
		*to = q.Value()
		return
	}
	r.number(key, to, least, most)
}

func (r *reader) texts(key string, to *[]string) {
	v, ok := r.take(key)
	if !ok {
		return
	}
	switch list := v.(type) {
	case []string:
		*to = slices.Clone(list)
	case []any:
		for _, x := range list {
			s, is := x.(string)
			if !is || s == "" {
				r.fail(key, fmt.Sprintf("%v is no text", x), "")
				return
			}
			*to = append(*to, s)
		}
	default:
		r.fail(key, "it is no list of texts", "")
	}
}

func (r *reader) pairs(key string, to *map[string]string) {
	v, ok := r.take(key)
	if !ok {
		return
	}
	out := map[string]string{}
	switch m := v.(type) {
	case map[string]string:
		for k, x := range m {
			out[k] = x
		}
	case map[string]any:
		for k, x := range m {
			s, is := x.(string)
			if !is {
				r.fail(key, fmt.Sprintf("the value of %s is no text", k), "")
				return
			}
			out[k] = s
		}
	default:
		r.fail(key, "it is no object of texts", "")
		return
	}
	*to = out
}

// done returns the first error; an option that was not taken is one.
func (r *reader) done() error {
	for key := range r.options {
		if !slices.Contains(r.known, key) {
			r.fail(key, "the provider kubernetes has no such option", "use one of "+strings.Join(r.known, ", "))
		}
	}
	return r.err
}
