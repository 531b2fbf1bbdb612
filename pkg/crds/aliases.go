// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

// Aliases returns the singular and short names that kubectl accepts for each kind.
func Aliases() map[string][]string {
	all := map[string][]string{
		"Pod": {"po"}, "ConfigMap": {"cm"}, "Deployment": {"deploy"}, "Service": {"svc"}, "Ingress": {"ing"},
		"HorizontalPodAutoscaler": {"hpa"}, "PodDisruptionBudget": {"pdb"}, "PersistentVolumeClaim": {"pvc"},
		"NetworkPolicy": {"netpol"},
	}
	for _, d := range Parse() {
		all[d.Spec.Names.Kind] = append([]string{d.Spec.Names.Singular}, d.Spec.Names.ShortNames...)
	}
	return all
}
