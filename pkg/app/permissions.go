/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package app

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// permission is one thing that a controller does. artifacts/rbac/role.yaml
// grants the same; a test compares the two.
type permission struct {
	group, resource, subresource string
	name                         string // of the only object that it is about; empty for all
	verbs                        []string
}

func (p permission) String() string {
	name := p.resource
	if p.subresource != "" {
		name += "/" + p.subresource
	}
	if p.group != "" {
		name += "." + p.group
	}
	if p.name != "" {
		name += " " + p.name
	}
	return name
}

// checkPermissions asks the API server, for each namespace, whether this account
// may do what is needed. It names all that is missing at once.
func checkPermissions(ctx context.Context, kube kubernetes.Interface, namespaces []string, needed []permission) error {
	for _, ns := range namespaces {
		where := "in namespace " + ns
		if ns == metav1.NamespaceAll {
			where = "in all namespaces (or restrict it with --namespace)"
		}
		if err := checkPermissionsIn(ctx, kube, ns, needed, where+": apply artifacts/rbac, or use an account that may"); err != nil {
			return err
		}
	}
	return nil
}

// checkPermissionsIn asks for one namespace, or for all of them and the cluster. remedy
// ends the error about what is missing.
func checkPermissionsIn(ctx context.Context, kube kubernetes.Interface, namespace string, needed []permission, remedy string) error {
	var missing []string
	for _, p := range needed {
		var verbs []string
		for _, verb := range p.verbs {
			allowed, err := may(ctx, kube, namespace, p, verb)
			if err != nil {
				return fmt.Errorf("ask for the permission to %s %s: %w", verb, p, err)
			}
			if !allowed {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			missing = append(missing, strings.Join(verbs, ",")+" "+p.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("this account is not allowed to %s %s", strings.Join(missing, "; "), remedy)
	}
	return nil
}

func may(ctx context.Context, kube kubernetes.Interface, namespace string, p permission, verb string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: p.group, Resource: p.resource, Subresource: p.subresource, Name: p.name,
		},
	}}
	answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
