// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// kind is one of Glassback's kinds, with a command for the user to try, and its effect.
type kind struct {
	schema.GroupVersionKind
	command, effect string

	// onlyReal is set if the examples cannot become Ready without containers. On a simulated node the operator does not run their
	// controller, and the demo does not follow them.
	onlyReal bool
}

// kinds are the kinds of Glassback, in the order of the table.
var kinds = []*kind{
	{
		GroupVersionKind: groupav1.SchemeGroupVersion.WithKind("ApiExampleA"),
		command:          "kubectl delete cm apiexamplea-sample-greeting", effect: "the operator creates it again",
	},
	{
		GroupVersionKind: appv1.SchemeGroupVersion.WithKind("Application"),
		command:          "kubectl set image deploy/application-sample app=other", effect: "the operator reverts it",
	},
	{
		GroupVersionKind: mcjv1.SchemeGroupVersion.WithKind("MyCronJob"),
		command:          "kubectl annotate mcj " + sampleCronJob + " glassback.dev/run-now=1", effect: "the operator creates one more Job",
	},
	{
		GroupVersionKind: redisv1.SchemeGroupVersion.WithKind("RedisCluster"),
		command:          "kubectl exec rediscluster-sample-0 -- redis-cli -c set k v", effect: "-c follows the redirect to the node of k",
		onlyReal: true,
	},
	{
		GroupVersionKind: ecsv1alpha1.SchemeGroupVersion.WithKind("ECSInstance"),
		command:          `kubectl patch ecsinstances.alibabacloud ecsinstance-sample --type merge -p '{"spec":{"powerState":"Stopped"}}'`,
		effect:           "the operator stops the instance",
	},
}

// kindsOn returns the kinds that the demo follows on a real or a simulated node.
func kindsOn(real bool) []*kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool { return k.onlyReal && !real })
}

// skipped returns the kinds that the demo does not follow on a real or a simulated node.
func skipped(real bool) []*kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool { return !k.onlyReal || real })
}

// controllersOn returns the value of --controllers for a real or a simulated node. Pods on a simulated node have fictitious addresses. The
// operator must not connect to them, since other machines may have the same addresses.
func controllersOn(real bool) string {
	controllers := []string{"*"}
	for _, k := range skipped(real) {
		controllers = append(controllers, "-"+strings.ToLower(k.Kind))
	}
	return strings.Join(controllers, ",")
}

// withoutImage is an example whose image the demo's node does not have.
const withoutImage = "rediscluster-exporter.yaml"

// exampleFiles returns the files of artifacts/examples with one example of each kind that the demo follows, and the other files of these
// kinds, but withoutImage.
func exampleFiles(real bool) (first, later []string, err error) {
	for _, k := range kindsOn(real) {
		name := filepath.Join(artifacts, "examples", strings.ToLower(k.Kind))
		first = append(first, name+".yaml")
		others, err := filepath.Glob(name + "-*.yaml")
		if err != nil {
			return nil, nil, fmt.Errorf("list the examples of %s: %w", k.Kind, err)
		}
		later = append(later, slices.DeleteFunc(others, func(file string) bool { return filepath.Base(file) == withoutImage })...)
	}
	return first, later, nil
}
