// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// These are the rules of redaction: what Between shows on the page, what Encode records, and what Diff shows in a plan.
//
// A recording leaves the cluster: a bug report can have one. The page has readers who may not read the objects. So for both there is an
// allow-list:
//
//   - Numbers, truth values, times and quantities are shown.
//   - A text is shown if its field is named below, or belongs to a struct that a controller makes for recordings: the record.go of the
//     controller chooses each of these fields. The page shows short texts only.
//   - Others choose the keys of maps. So the page shows no values of maps, and recordings have their texts only for keys of the operator.
//   - Bytes, messages of others and managedFields are left out.
//   - The page shows no field whose name suggests a secret, and nothing of a Secret.
//
// A plan is for a user who may read the objects. It shows everything but what isSecret hides.

// omitted are fields that are not recorded.
var omitted = []string{"managedFields", "message"}

// The annotations that may have secret values: all of an object, and values of spec.config.
const (
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	directives  = "bytewang123-redis.wzj.kubebuilder.io/directives"
)

// shownOfPods are the fields of k8s.io/api/core/v1 whose texts are shown.
var shownOfPods = sets.New(
	"kind", "apiVersion", "name", "namespace", "uid", "type", "status", "reason", "phase", "podIP", "hostIP", "ip", "nodeName", "image",
	"protocol", "restartPolicy", "storageClassName", "volumeName", "key", "fieldPath", "resource", "clusterIP", "accessModes", "optional",
)

// shown are the fields of all other API types whose texts are shown.
var shown = sets.New(
	// Metadata, conditions and references.
	"kind", "apiVersion", "name", "namespace", "uid", "resourceVersion", "finalizers", "type", "status", "reason", "key",
	// ApiExampleA
	"foo", "first_name", "last_name",
	// Application and its children
	"image", "className", "host", "path", "secretName", "ingressClassName", "pathType", "hosts", "clusterIP", "sectionName", "restartOn",
	// MyCronJob
	"schedule", "timeZone", "concurrencyPolicy", "missedRunPolicy", "lastRunNow",
	// RedisCluster
	"mode", "clients", "nodes", "fingerprint", "backup", "running", "lastBackupNow",
	"addr", "hostname", "storageClassName", "pod", "id", "ip", "role", "master", "link", "slots", "replicas",
	// ECSInstance
	"regionID", "instanceType", "instanceTypeChangePolicy", "imageID", "instanceName", "instanceChargeType", "periodUnit", "zoneID",
	"vSwitchID", "securityGroupIDs", "keyPairName", "category", "performanceLevel", "snapshotID", "powerState", "deletionPolicy",
	"recreatePolicy", "adoptInstanceID", "accountID", "instanceID", "state", "refusedInstanceType", "tagKeys", "parameters",
	"token", // It begins with the UID, and ECS accepts it only with an access key.
)

// shownOnPage are fields whose texts are shown on the page, and are not recorded: no decision reads them.
var shownOnPage = sets.New("greeting", "url", "selector", "endpoint")

// shownKeys are the keys of maps whose texts are recorded, beside those of the operator's domains.
var shownKeys = sets.New("app", "kubernetes.io/ingress.class", "cluster-node-timeout")

// domains are those of the operator's labels, annotations and tags.
var domains = sets.New("glassback.dev", "app.kubernetes.io", "groupa.k8s.zhuang.com", "app.aiops.org", "batch.wzj.kubebuilder.io",
	"bytewang123-redis.wzj.kubebuilder.io", "alibabacloud.zhouzhengxi.com")

func isShownKey(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return shownKeys.Has(key) || (domain != key && domains.Has(domain) && key != directives)
}

// isShown reports whether the text of a field is recorded.
func isShown(t reflect.Type, name string) bool {
	switch path := t.PkgPath(); {
	case strings.HasSuffix(path, "/core/v1"): // The types, and their apply configurations.
		return shownOfPods.Has(name)
	case isAPI(path):
		return shown.Has(name)
	}
	return true
}

// isAPI reports whether a package has types of the API. All others have the structs that controllers make for recordings.
func isAPI(path string) bool {
	return strings.HasPrefix(path, "k8s.io/") || strings.Contains(path, "/pkg/apis/") || strings.Contains(path, "/pkg/generated/")
}

// suggestsSecret reports whether the name of a field suggests a secret.
func suggestsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"password", "secret", "token", "credential", "accesskey", "userdata", "cabundle"},
		func(word string) bool { return strings.Contains(name, word) })
}

// hidesAll reports whether the page shows no value of an object.
func hidesAll(object any) bool {
	_, secret := object.(*corev1.Secret)
	return secret
}

// isSecret reports whether a plan hides the values of a field: the data of a Secret or a ConfigMap, the value of an environment variable,
// an annotation that is never recorded, and a text whose name suggests a secret, unless recordings have it.
func isSecret(path []string, text bool) bool {
	last := len(path) - 1
	switch {
	case last < 0:
		return false
	case slices.Contains([]string{"data", "binaryData", "stringData"}, path[0]):
		return true
	case last >= 1 && path[last-1] == "annotations":
		return path[last] == lastApplied || path[last] == directives
	case last >= 2 && path[last-2] == "env" && path[last] == "value":
		return true
	}
	return text && suggestsSecret(path[last]) && !shown.Has(path[last])
}
