// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/options"
)

// manager returns the Deployment that is shipped, and its only container.
func manager(t *testing.T) (*appsv1.Deployment, *corev1.Container) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	readManifest(t, "manager/deployment.yaml", deployment)
	if n := len(deployment.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("the Pod has %d containers", n)
	}
	return deployment, &deployment.Spec.Template.Spec.Containers[0]
}

func TestTheManagersArgumentsAreOnesThatTheOperatorTakes(t *testing.T) {
	_, container := manager(t)
	o, err := options.Parse(container.Args, io.Discard)
	must.Succeed(t, err)
	if !o.Lease.Elect || !o.Webhooks || !o.MetricsSecure {
		t.Error("two replicas without leader election, no webhooks, or metrics without authentication")
	}
	for name, address := range map[string]string{
		"webhook": net.JoinHostPort("", strconv.Itoa(o.WebhookPort)), "metrics": o.MetricsAddress, "probes": o.ProbeAddress,
	} {
		found := false
		for _, port := range container.Ports {
			found = found || port.Name == name && address == net.JoinHostPort("", strconv.Itoa(int(port.ContainerPort)))
		}
		if !found {
			t.Errorf("%s are served at %s, and the container's ports are %v", name, address, container.Ports)
		}
	}
}

// The kubelet kills what has not ended after the grace period: a sync in the middle, or a webhook that is being called.
func TestTheGracePeriodIsLongerThanTheOperatorTakesToEnd(t *testing.T) {
	const shutdown = 10 * time.Second // of package webhook
	deployment, _ := manager(t)
	grace := time.Duration(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if longest := drainPatience + releasePatience + lingerInCluster + shutdown; grace < longest+longest/4 {
		t.Errorf("it is %s, and the operator may take %s", grace, longest)
	}
}

func TestTheContainerKnowsItsPod(t *testing.T) {
	_, container := manager(t)
	want := map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
	for _, env := range container.Env {
		if env.ValueFrom != nil && env.ValueFrom.FieldRef != nil && env.ValueFrom.FieldRef.FieldPath == want[env.Name] {
			delete(want, env.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("its environment has no %v", want)
	}
}

// What the Makefile stamps, the Dockerfile stamps too, and it stamps what there is.
func TestTheDockerfileStampsTheVersion(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	must.Succeed(t, err)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	must.Succeed(t, err)
	for _, name := range []string{"version", "commit", "date"} {
		arg := strings.ToUpper(name)
		for _, want := range []string{"-X $APP." + name + "=$" + arg, "ARG " + arg + "="} {
			if !strings.Contains(string(dockerfile), want) {
				t.Errorf("the Dockerfile has no %q", want)
			}
		}
		for _, want := range []string{"-X $(APP)." + name + "=$(" + arg + ")", "--build-arg " + arg + "="} {
			if !strings.Contains(string(makefile), want) {
				t.Errorf("the Makefile has no %q", want)
			}
		}
	}
}

func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "artifacts", name))
	must.Succeed(t, err)
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
}
