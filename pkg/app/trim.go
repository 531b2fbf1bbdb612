// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/glassback/glassback/pkg/apis/glassback"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/controller/rediscluster"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/scheme"
	"github.com/glassback/glassback/pkg/kinds"
)

// Everybody who may create objects of a built-in kind can give them the labels by which the caches of children select. An object has up to
// 1.5 MB. So the caches keep little of an object whose owner has no controller here. Of the others, they bound the labels, the
// annotations and the data. The specs are as large as those of the custom resources.
const (
	// maxTexts is how many bytes the labels, the annotations and the data of an object may have. Above it, they are cut to what the operator
	// has applied, and what has a key of a group of Glassback.
	maxTexts = 64 << 10
	// maxData is how many bytes of data are kept of a ConfigMap. That of a RedisCluster has 90 kB at most.
	maxData = 160 << 10
)

// trimChild is the transform of the caches of children: it keeps what the controllers read.
func trimChild(obj any) (any, error) {
	object, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil // client-go passes no tombstones.
	}
	controller := metav1.GetControllerOfNoCopy(object)
	claim, isClaim := obj.(*corev1.PersistentVolumeClaim) // It has no controller, so that it outlives its RedisCluster.
	if !isClaim && (controller == nil || !reconciles(controller)) {
		return stranger(object, controller), nil
	}
	object.SetFinalizers(nil)
	own := child.OwnFields(object.GetManagedFields())
	object.SetManagedFields(own)
	object.SetLabels(bounded(object.GetLabels(), maxTexts, own))
	object.SetAnnotations(bounded(object.GetAnnotations(), maxTexts, own))
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		o.BinaryData = nil
		if o.Data = bounded(o.Data, maxTexts, own); sizeOf(o.Data) > maxData {
			o.Data = nil
		}
	case *appsv1.Deployment:
		if maps.Equal(o.Labels, o.Spec.Template.Labels) {
			o.Spec.Template.Labels = o.Labels // They share one map.
		}
	case *batchv1.Job:
		o.Spec.Template, o.ManagedFields = corev1.PodTemplateSpec{}, nil
	case *corev1.PersistentVolumeClaim:
		claim.ManagedFields = nil
	case *corev1.Pod:
		o.ManagedFields = nil
		return rediscluster.TrimPod(o)
	}
	return obj, nil
}

// reconciles returns whether Glassback has a controller for the kind of an owner.
func reconciles(owner *metav1.OwnerReference) bool {
	group, _ := schema.ParseGroupVersion(owner.APIVersion)
	return slices.ContainsFunc(kinds.All, func(d *descriptor.Descriptor) bool { return d.Kind == owner.Kind && d.Group == group.Group })
}

// stranger returns what the controllers read of an object that they do not control: that it has a name which they need, and whose it is.
func stranger(object metav1.Object, controller *metav1.OwnerReference) metav1.Object {
	kept := reflect.New(reflect.TypeOf(object).Elem()).Interface().(metav1.Object) //nolint:forcetypeassert // It has the type of object.
	kept.SetNamespace(object.GetNamespace())
	kept.SetName(object.GetName())
	kept.SetUID(object.GetUID())
	kept.SetResourceVersion(object.GetResourceVersion())
	kept.SetCreationTimestamp(object.GetCreationTimestamp())
	kept.SetDeletionTimestamp(object.GetDeletionTimestamp())
	if texts := bounded(object.GetLabels(), 0, nil); sizeOf(texts) <= 1<<10 {
		kept.SetLabels(texts)
	}
	if texts := bounded(object.GetAnnotations(), 0, nil); sizeOf(texts) <= 1<<10 {
		kept.SetAnnotations(texts)
	}
	if controller != nil && len(controller.APIVersion)+len(controller.Kind)+len(controller.Name)+len(controller.UID) <= 1<<10 {
		kept.SetOwnerReferences([]metav1.OwnerReference{*controller})
	}
	return kept
}

// bounded returns texts if they have at most limit bytes, or else those of them that the operator has applied or reads.
func bounded(texts map[string]string, limit int, own []metav1.ManagedFieldsEntry) map[string]string {
	if sizeOf(texts) <= limit {
		return texts
	}
	applied := map[string]bool{}
	for _, entry := range own {
		if entry.FieldsV1 != nil {
			for _, name := range fieldNames.FindAllSubmatch(entry.FieldsV1.GetRawBytes(), -1) {
				applied[string(name[1])] = true
			}
		}
	}
	var kept map[string]string
	for key, value := range texts {
		if applied[key] || key == redisv1.LabelApp || strings.HasPrefix(key, glassback.Domain+"/") || isOurs(key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// fieldNames are the names of fields in managedFields.
var fieldNames = regexp.MustCompile(`"f:([^"]*)"`)

// isOurs returns whether the key of a label or an annotation is of a group of Glassback.
func isOurs(name string) bool {
	group, _, hasGroup := strings.Cut(name, "/")
	return hasGroup && scheme.Scheme.IsGroupRegistered(group)
}

func sizeOf(texts map[string]string) int {
	size := 0
	for key, value := range texts {
		size += len(key) + len(value)
	}
	return size
}
