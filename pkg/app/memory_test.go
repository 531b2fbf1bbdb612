// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/pkg/apis/glassback"
	"github.com/glassback/glassback/pkg/must"
)

// storedChildren are the children of an Application, as an API server sends them.
var storedChildren = map[string]string{
	"Deployment": `
metadata: {name: NAME, namespace: default, uid: 5b1c0b4e-5a3c-4d8f-9a53-0d8c9f2b7e11, resourceVersion: "4711", generation: 1,
  creationTimestamp: "2022-01-09T13:50:00Z", annotations: {deployment.kubernetes.io/revision: "1"},
  labels: {app.glassback.dev/application: NAME, app.kubernetes.io/name: NAME, app.kubernetes.io/managed-by: glassback},
  ownerReferences: [{apiVersion: app.glassback.dev/v1, kind: Application, name: NAME, uid: 0f6d9a3c-6e0f-4f0e-8a39-5f3f7ad3e0c2,
    controller: true, blockOwnerDeletion: true}]}
spec:
  replicas: 1
  revisionHistoryLimit: 10
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app.glassback.dev/application: NAME}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata: {labels: {app.glassback.dev/application: NAME, app.kubernetes.io/name: NAME, app.kubernetes.io/managed-by: glassback}}
    spec:
      containers: [{name: app, image: "nginx:1.29", imagePullPolicy: IfNotPresent, resources: {},
        ports: [{name: http, containerPort: 8080, protocol: TCP}],
        terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      terminationGracePeriodSeconds: 30
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [
  {type: Available, status: "True", reason: MinimumReplicasAvailable, message: Deployment has minimum availability.,
    lastUpdateTime: "2022-01-09T13:50:00Z", lastTransitionTime: "2022-01-09T13:50:00Z"},
  {type: Progressing, status: "True", reason: NewReplicaSetAvailable, message: ReplicaSet has successfully progressed.,
    lastUpdateTime: "2022-01-09T13:50:00Z", lastTransitionTime: "2022-01-09T13:50:00Z"}]}
`,
	"Service": `
metadata: {name: NAME, namespace: default, uid: 6b1c0b4e-5a3c-4d8f-9a53-0d8c9f2b7e11, resourceVersion: "4712",
  creationTimestamp: "2022-01-09T13:50:00Z",
  labels: {app.glassback.dev/application: NAME, app.kubernetes.io/name: NAME, app.kubernetes.io/managed-by: glassback},
  ownerReferences: [{apiVersion: app.glassback.dev/v1, kind: Application, name: NAME, uid: 0f6d9a3c-6e0f-4f0e-8a39-5f3f7ad3e0c2,
    controller: true, blockOwnerDeletion: true}]}
spec: {type: ClusterIP, clusterIP: 10.0.0.17, clusterIPs: [10.0.0.17], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack,
  internalTrafficPolicy: Cluster, sessionAffinity: None, selector: {app.glassback.dev/application: NAME},
  ports: [{name: http, port: 80, protocol: TCP, targetPort: http}]}
status: {loadBalancer: {}}
`,
	"Ingress": `
metadata: {name: NAME, namespace: default, uid: 7b1c0b4e-5a3c-4d8f-9a53-0d8c9f2b7e11, resourceVersion: "4713", generation: 1,
  creationTimestamp: "2022-01-09T13:50:00Z",
  labels: {app.glassback.dev/application: NAME, app.kubernetes.io/name: NAME, app.kubernetes.io/managed-by: glassback},
  ownerReferences: [{apiVersion: app.glassback.dev/v1, kind: Application, name: NAME, uid: 0f6d9a3c-6e0f-4f0e-8a39-5f3f7ad3e0c2,
    controller: true, blockOwnerDeletion: true}]}
spec: {ingressClassName: nginx, rules: [{host: NAME.example.com, http: {paths: [{path: /, pathType: Prefix,
  backend: {service: {name: NAME, port: {number: 80}}}}]}}]}
status: {loadBalancer: {}}
`,
}

// appliedFields is the operator's entry of the managedFields of a Deployment; the other kinds have less.
const appliedFields = `{"f:metadata":{"f:labels":{"f:app.glassback.dev/application":{},"f:app.kubernetes.io/managed-by":{},` +
	`"f:app.kubernetes.io/name":{}},"f:ownerReferences":{"k:{\"uid\":\"0f6d9a3c-6e0f-4f0e-8a39-5f3f7ad3e0c2\"}":{}}},` +
	`"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app.glassback.dev/application":{},` +
	`"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},` +
	`"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},` +
	`"f:name":{},"f:protocol":{}}}}}}}}}`

// BenchmarkMemory measures how much memory the caches hold for the children of one Application, after the transforms.
func BenchmarkMemory(b *testing.B) {
	const count = 2000
	time := metav1.Unix(1641736200, 0)
	for kind, object := range map[string]apiruntime.Object{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "Ingress": &networkingv1.Ingress{},
	} {
		b.Run(kind, func(b *testing.B) {
			var held float64
			for b.Loop() {
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				before := liveHeap()
				for n := range count {
					data := strings.ReplaceAll(storedChildren[kind], "NAME", fmt.Sprintf("sample-%05d", n))
					child := object.DeepCopyObject()
					must.Succeed(b, yaml.Unmarshal([]byte(data), child))
					child.(metav1.Object).SetManagedFields([]metav1.ManagedFieldsEntry{
						{Manager: glassback.Name, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &time,
							FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(appliedFields)},
						{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &time,
							FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(appliedFields), Subresource: "status"},
					})
					must.Succeed(b, store.Add(received(b, child)))
				}
				held += float64(liveHeap()-before) / count
				runtime.KeepAlive(store)
			}
			b.ReportMetric(held/float64(b.N), "heldB/object")
		})
	}
}

// received returns a child as a watch with protobuf brings it, after its transform.
func received(b *testing.B, child apiruntime.Object) any {
	b.Helper()
	data, err := child.(interface{ Marshal() ([]byte, error) }).Marshal()
	must.Succeed(b, err)
	kinds, _, err := scheme.Scheme.ObjectKinds(child)
	must.Succeed(b, err)
	arrived, err := scheme.Scheme.New(kinds[0])
	must.Succeed(b, err)
	must.Succeed(b, arrived.(interface{ Unmarshal([]byte) error }).Unmarshal(data))
	trimmed, err := trimDeployment(arrived)
	must.Succeed(b, err)
	return trimmed
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
