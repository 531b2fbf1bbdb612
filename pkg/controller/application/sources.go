// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package application

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/app/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/loop"
)

const (
	// maxSources is how many ConfigMaps and Secrets the operator polls for one Application.
	maxSources = 32

	// annotationSources is an annotation of the Pods of an Application with restartOn: a sum of the versions of its sources. The operator
	// reads no data of them. So a change of their labels counts, too, and nobody can learn from the sum what is in a Secret.
	annotationSources = v1.GroupName + "/sources"
)

// sources is what one sync knows of the ConfigMaps and Secrets of restartOn. The zero value is that of an Application without restartOn.
type sources struct {
	Sum     string         `json:"sum,omitempty"`     // of their versions, for annotationSources
	Pending bool           `json:"-"`                 // A source was not polled yet: the Poller adds the key when it was.
	Problem *child.Problem `json:"problem,omitempty"` // why Sum is that of the Deployment
}

// sourcesOf returns the sources of restartOn that the Pods name in their variables and volumes, each once, in a fixed order, and at most
// one more than maxSources. Pods do not start without those that are required.
func sourcesOf(app *v1.Application) (all []loop.Source, required map[loop.Source]bool) {
	required = map[loop.Source]bool{}
	add := func(on v1.RestartSource, kind string, name *string, optional *bool) {
		s := loop.Source{Kind: kind, ObjectName: cache.NewObjectName(app.Namespace, ptr.Deref(name, ""))}
		if s.Name == "" || len(all) > maxSources || !slices.Contains(app.Spec.RestartOn, on) {
			return
		}
		required[s] = required[s] || !ptr.Deref(optional, false)
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	configMap := func(name *string, optional *bool) { add(v1.RestartOnConfigMaps, "ConfigMap", name, optional) }
	secret := func(name *string, optional *bool) { add(v1.RestartOnSecrets, "Secret", name, optional) }
	pod := template(app, "").Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, e := range c.Env {
			if from := ptr.Deref(e.ValueFrom, corev1ac.EnvVarSourceApplyConfiguration{}); from.ConfigMapKeyRef != nil {
				configMap(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
			} else if from.SecretKeyRef != nil {
				secret(from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
			}
		}
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				configMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
			} else if from.SecretRef != nil {
				secret(from.SecretRef.Name, from.SecretRef.Optional)
			}
		}
	}
	for _, v := range pod.Volumes {
		if v.ConfigMap != nil {
			configMap(v.ConfigMap.Name, v.ConfigMap.Optional)
		} else if v.Secret != nil {
			secret(v.Secret.SecretName, v.Secret.Optional)
		}
		for _, from := range ptr.Deref(v.Projected, corev1ac.ProjectedVolumeSourceApplyConfiguration{}).Sources {
			if from.ConfigMap != nil {
				configMap(from.ConfigMap.Name, from.ConfigMap.Optional)
			} else if from.Secret != nil {
				secret(from.Secret.Name, from.Secret.Optional)
			}
		}
	}
	slices.SortFunc(all, func(a, b loop.Source) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return all, required
}

// pollSources polls the sources of an Application from now on, and returns what is known of them. The Pods of d, its Deployment, keep their
// sum if a source cannot be read, and while one does not exist without which Pods do not start. d may be nil.
func (c *Controller) pollSources(app *v1.Application, d *appsv1.Deployment) sources {
	if len(app.Spec.RestartOn) == 0 {
		c.poller.Use(cache.MetaObjectToName(app), 0)
		return sources{}
	}
	all, required := sourcesOf(app)
	keep := func(format string, args ...any) sources {
		return sources{Sum: sumOf(d), Problem: &child.Problem{Reason: reasonSources, Message: "spec.restartOn: " + fmt.Sprintf(format, args...)}}
	}
	if len(all) > maxSources {
		c.poller.Use(cache.MetaObjectToName(app), 0)
		return keep("the Pods name more than %d ConfigMaps and Secrets: name fewer, or remove it", maxSources)
	}
	c.poller.Use(cache.MetaObjectToName(app), app.Generation, all...)
	sum := sha256.New()
	pending, missing := false, false
	for _, s := range all {
		version, known, err := c.poller.Version(s)
		if err != nil {
			return keep("the operator cannot read %s %s, and retries: %s", s.Kind, s.Name,
				cmp.Or(string(apierrors.ReasonForError(err)), "no answer"))
		}
		pending, missing = pending || !known, missing || required[s] && version == (loop.Version{})
		fmt.Fprintf(sum, "%s %s %s %s\n", s.Kind, s.Name, version.UID, version.ResourceVersion)
	}
	now := hex.EncodeToString(sum.Sum(nil))[:16]
	if was := sumOf(d); missing && was != "" {
		now = was
	}
	return sources{Sum: now, Pending: pending}
}

// sumOf returns the sum that the Pods of a Deployment have; "" if they have none, or if d is nil.
func sumOf(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return d.Spec.Template.Annotations[annotationSources]
}
