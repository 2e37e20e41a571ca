// Netpol enforces the network policies of a cluster on one node, with the
// controller of kube-router for policies and none of its others, which would
// need gobgp and IPVS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	if err := enforce(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "netpol:", err)
		os.Exit(1)
	}
}

// enforce keeps the firewall of this node as the policies say, until SIGTERM.
func enforce(args []string) error {
	flags := flag.NewFlagSet("netpol", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` that says how to reach the API server")
	node := flags.String("node", "", "`name` of this node")
	services := flags.String("services", "", "`range` of the addresses of services")
	klog.InitFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}

	config := options.NewKubeRouterConfig()
	config.HostnameOverride = *node
	config.ClusterIPCIDRs = []string{*services}
	config.EnableIPv4 = true

	access, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", *kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, namespaces.HasSynced, policies.HasSynced) {
		return errors.New("the API server did not list pods, namespaces and policies")
	}

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return fmt.Errorf("use iptables and ipset: %w", err)
	}
	var setsMutex sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &setsMutex, tables, sets)
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}

	// The controller reports that it is alive; a process of its own that ends
	// when it fails needs no more.
	beats := make(chan *healthcheck.ControllerHeartbeat)
	go func() {
		for range beats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}
