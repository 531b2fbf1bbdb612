// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
)

// A recording leaves the cluster: a bug report can have one. So redaction is an allow-list, like that of the page (see package changes):
//
//   - Numbers, truth values, times and quantities are recorded.
//   - A text is recorded if its field is named below, or belongs to a struct that a controller makes for recordings: the record.go of the
//     controller chooses each of these fields.
//   - Others choose the keys of maps, so the texts of a map are recorded only for keys of the operator.
//   - Bytes, messages of others and managedFields are left out.
//
// A token replaces each other text, so that a decision that compares two texts stays the same. A token is a digest with a key. The process
// makes the key for its first token, and writes it nowhere, so a guess of a text cannot be checked. The tokens of two processes differ.

// omitted are fields that are left out.
var omitted = []string{"managedFields", "message"}

// lastApplied is an annotation with all of an object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// shownOfPods are the fields of k8s.io/api/core/v1 whose texts are recorded.
var shownOfPods = sets.New(
	"kind", "apiVersion", "name", "namespace", "uid", "type", "status", "reason", "phase", "podIP", "hostIP", "ip", "nodeName", "image",
	"protocol", "restartPolicy", "storageClassName", "volumeName", "key", "fieldPath", "resource", "clusterIP", "accessModes", "optional",
)

// shown are the fields of all other API types whose texts are recorded.
var shown = sets.New(
	// Metadata, conditions and references.
	"kind", "apiVersion", "name", "namespace", "uid", "resourceVersion", "finalizers", "type", "status", "reason", "key",
	// ApiExampleA
	"foo", "first_name", "last_name",
	// Application and its children
	"image", "className", "host", "path", "secretName", "ingressClassName", "pathType", "hosts", "clusterIP",
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

// shownKeys are the keys of maps whose texts are recorded, beside those of the operator's domains.
var shownKeys = sets.New("app", "kubernetes.io/ingress.class", "cluster-node-timeout")

// domains are those of the operator's labels, annotations and tags.
var domains = sets.New("glassback.dev", "app.kubernetes.io", "groupa.k8s.zhuang.com", "app.aiops.org", "batch.wzj.kubebuilder.io",
	"bytewang123-redis.wzj.kubebuilder.io", "alibabacloud.zhouzhengxi.com")

// directives is an annotation of the operator with values of spec.config, which may be secret.
const directives = "bytewang123-redis.wzj.kubebuilder.io/directives"

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

// isToken matches a token.
var isToken = regexp.MustCompile(`^redacted-[0-9a-f]{16}$`).MatchString

var tokenKey = sync.OnceValue(func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // crypto/rand documents that it never fails.
	return key
})

// token returns what is recorded in place of a text.
func token(text string) string {
	key := tokenKey()
	return "redacted-" + digest(string(key[:])+text)
}

// keepToken returns a text of a replayed plan: an observed token unchanged, and "redacted" for a text that only this program has made.
func keepToken(text string) string {
	if isToken(text) {
		return text
	}
	return "redacted"
}

// Digest returns a digest without a key, for a text that follows from what the record holds: it only makes the record smaller.
func Digest(text string) string { return "sha256:" + digest(text) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
