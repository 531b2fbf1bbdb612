// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// recorded are the types of the API that records have.
var recorded = []any{
	&groupav1.ApiExampleA{}, &appv1.Application{}, &mcjv1.MyCronJob{}, &redisv1.RedisCluster{}, &ecsv1alpha1.ECSInstance{},
	&batchv1.Job{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{},
	&corev1ac.ConfigMapApplyConfiguration{}, &corev1ac.ServiceApplyConfiguration{}, &appsv1ac.DeploymentApplyConfiguration{},
	&networkingv1ac.IngressApplyConfiguration{},
}

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
			if v.Type().Field(i).IsExported() {
				fillValue(v.Field(i), depth-1, text)
			}
		}
	}
}

// TestEncodeIsJSON compares with encoding/json: apart from texts, and from what is left out, both have the same.
func TestEncodeIsJSON(t *testing.T) {
	for _, example := range recorded {
		n := 0
		filled := fill(example, func() string { n++; return fmt.Sprintf("text <%d> & \"ü\"", n) })
		for _, value := range []any{filled, example} {
			want, err := json.Marshal(value)
			must.Succeed(t, err)
			got := encodeWith(value, func(text string) string { return text })
			if a, b := tree(t, got), tree(t, want); !reflect.DeepEqual(a, b) {
				t.Errorf("%T: got\n%s\nwant\n%s", value, got, want)
			}
		}
	}
}

// tree decodes an object, without what is left out.
func tree(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return prune(value)
}

func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			if slices.Contains(omitted, key) || key == lastApplied || key == "caBundle" {
				delete(value, key)
				continue
			}
			value[key] = prune(child)
		}
	case []any:
		for i := range value {
			value[i] = prune(value[i])
		}
	}
	return value
}

func TestTokens(t *testing.T) {
	type labelled struct {
		Tags map[string]string `json:"tags"`
	}
	var got [2]labelled
	for i := range got {
		text := Encode(labelled{map[string]string{"a": "secret", "b": "secret", "c": "another", "d": "", "glassback.dev/uid": "shown"}})
		if err := json.Unmarshal(text, &got[i]); err != nil || strings.Contains(string(text), "secret") {
			t.Fatalf("error %v, %s", err, text)
		}
	}
	tags := got[0].Tags
	if tags["a"] != tags["b"] || tags["a"] == tags["c"] || tags["d"] != "" || tags["glassback.dev/uid"] != "shown" ||
		!isToken(tags["a"]) || !reflect.DeepEqual(got[0], got[1]) {
		t.Errorf("got %v", got)
	}
	if again := string(EncodeAgain(labelled{map[string]string{"a": tags["a"], "b": "new"}})); again !=
		`{"tags":{"a":"`+tags["a"]+`","b":"redacted"}}` {
		t.Errorf("of tokens: %s", again)
	}
	if Digest("secret") == "sha256:"+strings.TrimPrefix(tags["a"], "redacted-") {
		t.Error("a token has no key")
	}
}

func TestBytesAreLeftOut(t *testing.T) {
	got := Encode(&corev1.Secret{Data: map[string][]byte{"password": []byte("secret")}, StringData: map[string]string{"token": "secret"}})
	if want := `"data":{"password":null},"stringData":{"token":"` + token("secret") + `"}`; !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWall(t *testing.T) {
	now := time.Now()
	earlier := now.Add(-time.Minute)
	stepped := now.Round(0).Add(time.Hour) // The wall clock was set.
	if got := Wall(now, earlier); !got.Equal(earlier) || stepped.Sub(got) != time.Hour+time.Minute {
		t.Errorf("got %v", got)
	}
	if got := Wall(now, time.Time{}); !got.IsZero() {
		t.Errorf("of no time: %v", got)
	}
	if at := time.Unix(1_600_000_000, 5); !Wall(now, at).Equal(at) {
		t.Error("a time of the API changes")
	}
}
