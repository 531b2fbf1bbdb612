// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/provisioner"
	"github.com/glassback/glassback/hack/devcluster/state"
	"github.com/glassback/glassback/pkg/must"
)

func TestReservedPortsAreNotGivenAgain(t *testing.T) {
	var mine, others reservation
	defer mine.release()
	defer others.release()
	port, err := mine.any()
	must.Succeed(t, err)
	if port < firstPort || port > lastPort {
		t.Errorf("port %d is outside of %d to %d", port, firstPort, lastPort)
	}
	if err := others.exactly(port); !errors.Is(err, errPortTaken) {
		t.Errorf("reserved twice: %v", err)
	}
	listener, err := net.Listen("tcp4", loopback(port)) // as the component does
	if err != nil {
		t.Fatalf("whoever reserved it cannot listen: %v", err)
	}
	mine.release()
	if err := others.exactly(port); !errors.Is(err, errPortTaken) {
		t.Errorf("a port in use is reserved: %v", err)
	}
	listener.Close()
	if err := others.exactly(port); err != nil {
		t.Errorf("after its release: %v", err)
	}
}

// A supervisor removes its directory when nothing refers to it any more.
func TestTheLockLastsAsLongAsTheProcess(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, New(state.Spec{Dir: dir}, "kubectl", func(string) {}).takeLock(t.Context()))
	liveness, err := state.Dir(dir).Liveness()
	must.Succeed(t, err)
	defer liveness.Close()
	for range 10 {
		runtime.GC() // Cleanups of what is collected run after it.
		time.Sleep(time.Millisecond)
		if ended, err := liveness.Ended(); err != nil || ended {
			t.Fatalf("the cluster counts as ended: %t, error %v", ended, err)
		}
	}
}

func TestArgumentsStayOnLoopback(t *testing.T) {
	spec := state.Spec{Dir: "/d", Node: state.NodeSimulated, IPv6: true}
	ports := map[string]int{}
	all, _ := state.Components(spec.Node)
	for i, key := range portKeys(all) {
		ports[key] = 1000 + i
	}
	config := configuration{Spec: spec, Ports: ports}
	for _, component := range all {
		list, err := config.arguments(component)
		must.Succeed(t, err)
		args := strings.Join(list, " ")
		if !strings.Contains(args, "127.0.0.1") {
			t.Errorf("%s is not told where to listen: %s", component, args)
		}
		if strings.Contains(args, "0.0.0.0") || strings.Contains(args, "::") || strings.Contains(args, ":0 ") {
			t.Errorf("%s listens elsewhere: %s", component, args)
		}
	}
	if got, err := config.arguments("unknown"); err == nil {
		t.Errorf("arguments of an unknown component: %v", got)
	}
}

// TestFilesOfANodeAreOfTheirTypes decodes what the components would decode leniently: an unknown field would have no effect.
func TestFilesOfANodeAreOfTheirTypes(t *testing.T) {
	config := configuration{Spec: state.Spec{Dir: t.TempDir(), Node: state.NodeReal}, Plugins: "/cni", CgroupRoot: "/own"}
	must.Succeed(t, config.writeNodeFiles())
	kubelet, proxy := &kubeletconfig.KubeletConfiguration{}, &proxyconfig.KubeProxyConfiguration{}
	network := map[string]any{}
	for file, object := range map[string]any{"kubelet.yaml": kubelet, "kube-proxy.yaml": proxy, "cni/10-devcluster.conflist": &network} {
		data, err := os.ReadFile(state.Dir(config.Spec.Dir).Path("node", "etc", file))
		must.Succeed(t, err)
		if err := yaml.UnmarshalStrict(data, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if kubelet.ClusterDomain != state.Domain || proxy.Mode != "nftables" {
		t.Errorf("the kubelet has %+v, kube-proxy %+v", kubelet, proxy)
	}
}

// TestObjectsOfANewClusterAreOfTheirTypes decodes the manifests as the API server does.
func TestObjectsOfANewClusterAreOfTheirTypes(t *testing.T) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for node, want := range map[string]int{state.NodeSimulated: 4, state.NodeReal: 8} {
		config := configuration{Spec: state.Spec{Dir: "/d", Node: node, Nodes: 2}}
		text, err := config.render("config/manifests/" + node + ".yaml")
		must.Succeed(t, err)
		if node == state.NodeReal {
			text += "---\n" + provisioner.Manifest
		}
		documents := strings.Split(text, "\n---\n")
		if len(documents) != want {
			t.Errorf("%s: %d objects, want %d", node, len(documents), want)
		}
		for _, document := range documents {
			object, kind, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Errorf("%s: %v:\n%s", node, err, document)
				continue
			}
			if node, ok := object.(*corev1.Node); ok && !node.Status.Allocatable.Pods().Equal(resource.MustParse("100000")) {
				t.Errorf("%s has room for %s Pods", kind, node.Status.Allocatable.Pods())
			}
		}
	}
}

func TestComponentsDoNotInheritTheEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "/foreign/path")
	t.Setenv("ETCD_DATA_DIR", "/foreign/path")
	t.Setenv("GOGC", "50")
	env := environment("/d")
	for _, v := range env {
		if strings.Contains(v, "foreign") {
			t.Errorf("passed on: %s", v)
		}
	}
	if !slices.Contains(env, "GOGC=50") || !slices.Contains(env, "HOME=/d/tmp") {
		t.Errorf("missing in %v", env)
	}
}
