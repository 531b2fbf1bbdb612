// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	keepTimeout = 30 * time.Second // limit for all of keep
	requestTime = 10 * time.Second // limit for each request without a context
	keptBytes   = 4 << 20          // kept from the end of each log
	shownEvents = 20               // number of events in the test's own log
)

// keptKinds are the resources whose objects are kept, in addition to all resources of Glassback.
var keptKinds = []string{
	"configmaps", "deployments", "endpointslices", "ingresses", "jobs", "networkpolicies", "persistentvolumeclaims", "poddisruptionbudgets",
	"pods", "replicasets", "services", "statefulsets",
}

// glassbackCategory is the category of all resources of Glassback.
const glassbackCategory = "glassback"

// keeper writes the state of a failed test to files.
type keeper struct {
	*node
	dir     string
	failed  []error
	written int
}

// keep writes the state of a failed test to dir, and logs the last events. It logs its own errors instead of returning them, since the
// test has failed already.
func (n *node) keep(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	k := &keeper{node: n, dir: dir}
	k.componentLogs() // These come first: they exist even if the API server does not answer.
	events := k.events(ctx)
	k.describe(ctx)
	k.containerLogs(ctx)
	k.objects(ctx)
	t.Logf("namespace %s: %d files of objects, events and logs are in %s (go test -artifacts keeps them); the last events:\n%s",
		n.ns, k.written, dir, strings.Join(events[max(0, len(events)-shownEvents):], "\n"))
	if err := errors.Join(k.failed...); err != nil {
		t.Logf("some of the state could not be kept: %v", err)
	}
}

// save writes a file, or records the error.
func (k *keeper) save(name string, data []byte, err error) {
	if err == nil && len(data) > 0 {
		if err = os.WriteFile(filepath.Join(k.dir, name), data, 0o644); err == nil {
			k.written++
		}
	}
	if err != nil {
		k.failed = append(k.failed, fmt.Errorf("%s: %w", name, err))
	}
}

func (k *keeper) componentLogs() {
	logs, err := filepath.Glob(filepath.Join(filepath.Dir(k.LogFile("any")), "*.log"))
	if len(logs) == 0 {
		k.save("logs of components", nil, cmp.Or(err, os.ErrNotExist))
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		k.save("component-"+filepath.Base(log), data[max(0, len(data)-keptBytes):], err)
	}
}

// events saves the events of the namespace, one line for each, and returns these lines.
func (k *keeper) events(ctx context.Context) []string {
	list, err := k.kube.CoreV1().Events(k.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		k.save("events.txt", nil, err)
		return []string{"the events could not be read"}
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return earlier(&a, &b) })
	lines := make([]string, 0, len(list.Items))
	for _, e := range list.Items {
		lines = append(lines, eventLine(&e))
	}
	k.save("events.txt", []byte(strings.Join(lines, "\n")), nil)
	return lines
}

// earlier compares the times of two events. Most events have their time in seconds only. Within a second, the resourceVersion gives the
// order.
func earlier(a, b *corev1.Event) int {
	return cmp.Or(last(a).Truncate(time.Second).Compare(last(b).Truncate(time.Second)),
		cmp.Compare(len(a.ResourceVersion), len(b.ResourceVersion)), strings.Compare(a.ResourceVersion, b.ResourceVersion))
}

// last returns the time of an event's last occurrence. The client that sent the event decides which field has it.
func last(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	return cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
}

func eventLine(e *corev1.Event) string {
	count := e.Count
	if e.Series != nil {
		count = e.Series.Count
	}
	return fmt.Sprintf("%s %dx %s %s %s/%s: %s", last(e).UTC().Format(time.TimeOnly), max(count, 1), e.Type, e.Reason,
		e.InvolvedObject.Kind, e.InvolvedObject.Name, strings.TrimSpace(e.Message))
}

// describe saves the output of kubectl describe.
func (k *keeper) describe(ctx context.Context) {
	var out, complaints bytes.Buffer
	cmd := k.Command(ctx, "kubectl", "describe", "pods,persistentvolumeclaims,nodes", "--namespace", k.ns)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaints.String())
	}
	k.save("describe.txt", out.Bytes(), nil)
	k.save("describe.txt", nil, err)
}

// containerLogs keeps the log of every container. If a container was restarted, containerLogs also keeps the log of the previous one.
func (k *keeper) containerLogs(ctx context.Context) {
	pods, err := k.kube.CoreV1().Pods(k.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		k.save("logs of containers", nil, err)
		return
	}
	for _, pod := range pods.Items {
		s := pod.Status
		for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
			if c.State.Waiting == nil {
				k.containerLog(ctx, pod.Name, c.Name, false)
			}
			if c.LastTerminationState.Terminated != nil {
				k.containerLog(ctx, pod.Name, c.Name, true)
			}
		}
	}
}

func (k *keeper) containerLog(ctx context.Context, pod, container string, previous bool) {
	options := &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true, LimitBytes: ptr.To[int64](keptBytes)}
	data, err := k.kube.CoreV1().Pods(k.ns).GetLogs(pod, options).DoRaw(ctx)
	name := "pod-" + pod + "-" + container
	if previous {
		name += "-previous"
	}
	k.save(name+".log", data, err)
}

// objects keeps the objects of the namespace as YAML, a file for each kind.
func (k *keeper) objects(ctx context.Context) {
	config := rest.CopyConfig(k.config)
	config.Timeout = requestTime // Discovery accepts no context.
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		k.save("objects", nil, err)
		return
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		k.save("objects", nil, err)
		return
	}
	lists, err := finder.ServerPreferredNamespacedResources()
	k.save("objects", nil, err) // After an error, discovery still returns the lists of some groups.
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if !slices.Contains(keptKinds, resource.Name) && !slices.Contains(resource.Categories, glassbackCategory) {
				continue
			}
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				k.save(resource.Name, nil, err)
				continue
			}
			k.kind(ctx, client, gv.WithResource(resource.Name))
		}
	}
}

func (k *keeper) kind(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) {
	file := resource.GroupResource().String() + ".yaml"
	list, err := client.Resource(resource).Namespace(k.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		k.save(file, nil, err)
		return
	}
	var all [][]byte
	for _, item := range list.Items {
		item.SetManagedFields(nil)
		data, err := yaml.Marshal(item.Object)
		if err != nil {
			k.save(file, nil, err)
			return
		}
		all = append(all, data)
	}
	k.save(file, bytes.Join(all, []byte("---\n")), nil)
}
