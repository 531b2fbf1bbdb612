// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permissions lists the permissions that the operator needs, and asks the API server whether it has them.
package permissions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Permission is the right to use some verbs on a resource. artifacts/rbac grants the ones that the operator needs; a test compares.
type Permission struct {
	Group, Resource, Subresource string
	Name                         string // of the only object that it is about; empty for all
	Verbs                        []string
}

// String returns the resource without the verbs, such as "pods/eviction" or "leases.coordination.k8s.io glassback".
func (p Permission) String() string {
	name := p.Resource
	if p.Subresource != "" {
		name += "/" + p.Subresource
	}
	if p.Group != "" {
		name += "." + p.Group
	}
	if p.Name != "" {
		name += " " + p.Name
	}
	return name
}

// Require returns an error that names all permissions that this account lacks in the first of the namespaces where it lacks one.
func Require(ctx context.Context, kube kubernetes.Interface, namespaces []string, needed []Permission) error {
	for _, ns := range namespaces {
		where := "in namespace " + ns
		if ns == metav1.NamespaceAll {
			where = "in all namespaces (or restrict it with --namespace)"
		}
		if err := RequireIn(ctx, kube, ns, needed, where+": apply artifacts/rbac, or use an account that may"); err != nil {
			return err
		}
	}
	return nil
}

// RequireIn returns an error that names all permissions that this account lacks in a namespace, or in all of them and the cluster. The
// error ends with where, which says where they are missing and what to do.
func RequireIn(ctx context.Context, kube kubernetes.Interface, namespace string, needed []Permission, where string) error {
	var missing []string
	for _, w := range Merge(WantedBy("", namespace, needed)) {
		verbs, err := Own(kube).Missing(ctx, namespace, w.Permission)
		if err != nil {
			return err
		}
		if len(verbs) > 0 {
			missing = append(missing, strings.Join(verbs, ",")+" "+w.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("this account is not allowed to %s %s", strings.Join(missing, "; "), where)
	}
	return nil
}

// Access asks the API server whether an account is allowed to do something.
type Access func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)

// Own returns the Access of the account that this process uses.
func Own(kube kubernetes.Interface) Access {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}
		answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
}

// OfServiceAccount returns the Access of a ServiceAccount. Few accounts are allowed to ask for it.
func OfServiceAccount(kube kubernetes.Interface, account types.NamespacedName) Access {
	return func(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: what,
			User:               ServiceAccountUser(account),
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
		}}
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
}

// ServiceAccountUser returns the name of the user that the API server takes a ServiceAccount for.
func ServiceAccountUser(account types.NamespacedName) string {
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name
}

// Missing returns the verbs of p that are not allowed in a namespace. It asks for all of them at the same time.
func (a Access) Missing(ctx context.Context, namespace string, p Permission) ([]string, error) {
	allowed, failed := make([]bool, len(p.Verbs)), make([]error, len(p.Verbs))
	var asking sync.WaitGroup
	for i, verb := range p.Verbs {
		asking.Go(func() {
			allowed[i], failed[i] = a(ctx, &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: p.Group, Resource: p.Resource, Subresource: p.Subresource, Name: p.Name,
			})
		})
	}
	asking.Wait()
	var missing []string
	for i, verb := range p.Verbs {
		if failed[i] != nil {
			return nil, fmt.Errorf("ask for the permission to %s %s: %w", verb, p, failed[i])
		}
		if !allowed[i] {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

// Wanted is a permission in a namespace, with the parts of the operator that want it.
type Wanted struct {
	Permission

	Namespace string // empty for all namespaces, and for resources that are in none
	By        []string
}

// WantedBy returns the permissions that one part of the operator needs in a namespace.
func WantedBy(part, namespace string, needed []Permission) []Wanted {
	var all []Wanted
	for _, p := range needed {
		all = append(all, Wanted{p, namespace, []string{part}})
	}
	return all
}

// Merge returns all that is wanted, with one entry for each namespace, resource and name.
func Merge(all []Wanted) []Wanted {
	var merged []Wanted
	for _, w := range all {
		i := slices.IndexFunc(merged, func(m Wanted) bool { return m.Namespace == w.Namespace && m.String() == w.String() })
		if i < 0 {
			i = len(merged)
			merged = append(merged, Wanted{w.Permission, w.Namespace, nil})
			merged[i].Verbs = nil
		}
		merged[i].Verbs = append(merged[i].Verbs, w.Verbs...)
		merged[i].By = append(merged[i].By, w.By...)
	}
	for i := range merged {
		slices.Sort(merged[i].Verbs)
		merged[i].Verbs = slices.Compact(merged[i].Verbs)
	}
	return merged
}
