// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/must"
)

var update = flag.Bool("update", false, "write the golden files")

// own are the operator's kinds, recorded are the other types of the API that records have, and watched those that caches and plans have.
var (
	own      = []any{&groupav1.ApiExampleA{}, &appv1.Application{}, &mcjv1.MyCronJob{}, &redisv1.RedisCluster{}, &ecsv1alpha1.ECSInstance{}}
	recorded = []any{
		&batchv1.Job{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{},
		&corev1ac.ConfigMapApplyConfiguration{}, &corev1ac.ServiceApplyConfiguration{}, &appsv1ac.DeploymentApplyConfiguration{},
		&networkingv1ac.IngressApplyConfiguration{},
	}
	watched = []any{
		&batchv1.Job{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{},
		&appsv1.Deployment{}, &networkingv1.Ingress{}, &networkingv1.NetworkPolicy{}, &autoscalingv2.HorizontalPodAutoscaler{},
		&policyv1.PodDisruptionBudget{},
	}
)

// fill returns a value of the type of example, whose fields are all set, down to a depth. text makes its texts.
func fill(example any, text func() string) any {
	value := reflect.New(reflect.TypeOf(example).Elem())
	fillValue(value.Elem(), 14, text)
	return value.Interface()
}

func fillValue(v reflect.Value, depth int, text func() string) {
	switch special := v.Addr().Interface().(type) {
	case *metav1.Time:
		*special = metav1.Unix(1_600_000_000, 0)
		return
	case *metav1.MicroTime:
		*special = metav1.NewMicroTime(time.Unix(1_600_000_000, 0))
		return
	case *resource.Quantity:
		*special = resource.MustParse("1Gi")
		return
	case *intstr.IntOrString:
		*special = intstr.FromInt32(7)
		return
	case *metav1.FieldsV1, *[]byte: // They are left out.
		return
	}
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(5)
	case reflect.String:
		v.SetString(text())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), depth-1, text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0), depth-1, text)
	case reflect.Map:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(key, depth-1, text)
		fillValue(element, depth-1, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case field.Anonymous: // Its fields are those of v.
				fillValue(v.Field(i), depth, text)
			case field.IsExported():
				fillValue(v.Field(i), depth-1, text)
			}
		}
	}
}

// word matches a text of words.
var word = regexp.MustCompile(`text-[0-9]+`)

// words returns a function that returns another word at each call.
func words() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("text-%d", n) }
}

// annotated returns the value of fill with annotations of the operator, of kubectl and of others.
func annotated(example any) any {
	value := fill(example, words())
	if meta, ok := value.(metav1.Object); ok {
		meta.SetAnnotations(map[string]string{
			"glassback.dev/paused": "text-own", "example.com/a": "text-of-another",
			"kubectl.kubernetes.io/last-applied-configuration": "text-last-applied",
			"bytewang123-redis.wzj.kubebuilder.io/directives":  "text-directives",
		})
	}
	return value
}

// apart returns copies of a filled value that have one field each, down to a depth.
func apart(v reflect.Value, depth int) []reflect.Value {
	var all []reflect.Value
	_, marshals := reflect.TypeAssert[json.Marshaler](v.Addr())
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		for _, part := range apart(v.Elem(), depth) {
			all = append(all, part.Addr())
		}
	case v.Kind() == reflect.Struct && !marshals && depth > 0:
		for i := range v.NumField() {
			for _, part := range apart(v.Field(i), depth-1) {
				one := reflect.New(v.Type()).Elem()
				one.Field(i).Set(part)
				all = append(all, one)
			}
		}
	default:
		one := reflect.New(v.Type()).Elem()
		one.Set(v)
		all = append(all, one)
	}
	return all
}

func nameOf(example any) string { return strings.TrimPrefix(fmt.Sprintf("%T", example), "*") }

// TestWhatRecordingsShow fills each text of each type with another word, and compares the paths of those that are recorded with a golden
// file.
func TestWhatRecordingsShow(t *testing.T) {
	shown := map[string]bool{}
	for _, example := range slices.Concat(own, recorded) {
		var decoded any
		must.Succeed(t, json.Unmarshal(Encode(annotated(example)), &decoded))
		collect(nameOf(example), decoded, shown)
	}
	checkGolden(t, "testdata/recorded.txt", shown)
}

func collect(path string, value any, shown map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if strings.HasPrefix(key, "text-") {
				key = "*"
			}
			collect(path+"."+key, child, shown)
		}
	case []any:
		for _, child := range value {
			collect(path, child, shown)
		}
	case string:
		if strings.Contains(value, "text") && !strings.HasPrefix(path, "v1.Job.spec.") { // Records have Jobs without spec.
			shown[path] = true
		}
	}
}

// TestWhatThePageShows adds each field of each type, and compares the paths of those whose texts are shown with a golden file.
func TestWhatThePageShows(t *testing.T) {
	shown := map[string]bool{}
	for _, example := range slices.Concat(own, watched) {
		for _, part := range apart(reflect.ValueOf(annotated(example)).Elem(), 5) {
			for _, change := range Between(example, part.Addr().Interface()) {
				if strings.Contains(change.New, "text-") {
					shown[nameOf(example)+"."+change.Path] = true
				}
			}
		}
	}
	checkGolden(t, "testdata/page.txt", shown)
}

// TestWhatPlansHide adds each field of each type, and compares the paths of those whose values glassback plan hides with a golden file.
func TestWhatPlansHide(t *testing.T) {
	hidden := map[string]bool{}
	for _, example := range slices.Concat(own, watched) {
		all, err := Diff(nil, annotated(example))
		must.Succeed(t, err)
		for _, field := range all {
			if field.Hidden {
				hidden[nameOf(example)+"."+word.ReplaceAllString(field.Path, "*")] = true
			}
		}
	}
	checkGolden(t, "testdata/hidden.txt", hidden)
}

func checkGolden(t *testing.T, golden string, paths map[string]bool) {
	t.Helper()
	got := strings.Join(slices.Sorted(maps.Keys(paths)), "\n") + "\n"
	if *update {
		must.Succeed(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got {
		t.Errorf("error %v. Other values are shown than in %s: if that is right, run this test with -update. The paths are\n%s", err, golden, got)
	}
}
