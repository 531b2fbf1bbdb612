// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/kinds"
	"github.com/glassback/glassback/pkg/must"
)

const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"

// kindOf returns the kind with a name.
func kindOf(t testing.TB, name string) kind {
	t.Helper()
	for d := range kinds.Custom() {
		if d.Kind == name {
			return kind{d}
		}
	}
	t.Fatalf("the kind %s does not exist", name)
	return kind{}
}

// sample returns the JSON of an object of a kind: rediscluster-sample for RedisCluster.
func sample(t testing.TB, name, spec string) string {
	t.Helper()
	return annotated(t, name, spec, "")
}

// annotated returns a sample with this value of the annotation for deletion protection. With "", it has no annotation.
func annotated(t testing.TB, name, spec, protection string) string {
	t.Helper()
	k := kindOf(t, name)
	annotations := ""
	if protection != "" {
		annotations = fmt.Sprintf(`,"annotations":{"glassback.dev/deletion-protection":%q}`, protection)
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"%s-sample","namespace":"default"%s},"spec":%s}`,
		k.GroupVersion(), name, strings.ToLower(name), annotations, spec)
}

// ask returns the request of an API server about an object of a kind. The API server is about to replace old by object. Without old, it is
// a create. Without object, it is a delete.
func ask(t testing.TB, name, object, old string) *admissionv1.AdmissionRequest {
	t.Helper()
	k := kindOf(t, name)
	gvk := metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	gvr := metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Custom.Plural}
	asked := &admissionv1.AdmissionRequest{
		UID: uid, Kind: gvk, RequestKind: &gvk, Resource: gvr, RequestResource: &gvr,
		Name: strings.ToLower(name) + "-sample", Namespace: "default",
		UserInfo: authenticationv1.UserInfo{Username: "jimmy"}, DryRun: ptr.To(false),
	}
	switch {
	case old == "":
		asked.Operation, asked.Options.Raw = admissionv1.Create, []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)
	case object == "":
		asked.Operation, asked.Options.Raw = admissionv1.Delete, []byte(`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`)
	default:
		asked.Operation, asked.Options.Raw = admissionv1.Update, []byte(`{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}`)
	}
	if object != "" {
		asked.Object.Raw = []byte(object)
	}
	if old != "" {
		asked.OldObject.Raw = []byte(old)
	}
	return asked
}

// scale returns the request of an API server about a change of the sample's scale.
func scale(t testing.TB, object string) *admissionv1.AdmissionRequest {
	t.Helper()
	asked := ask(t, "RedisCluster", object, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":6}}`)
	asked.Kind, asked.SubResource = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, "scale"
	asked.RequestKind, asked.RequestSubResource = &asked.Kind, asked.SubResource
	return asked
}

func body(t testing.TB, asked *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	review := &admissionv1.AdmissionReview{Request: asked}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	text, err := json.Marshal(review)
	must.Succeed(t, err)
	return text
}

func send(h http.Handler, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// understood returns an answer as the API server decodes it.
func understood(t testing.TB, w *httptest.ResponseRecorder, uid string, mutating bool) *webhookrequest.AdmissionResponse {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	review := &admissionv1.AdmissionReview{}
	decoder := stdjson.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(review); err != nil || review.Response == nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	response, err := webhookrequest.VerifyAdmissionResponse(review.Response.UID, mutating, review)
	if err != nil || string(review.Response.UID) != uid || review.Request != nil {
		t.Fatalf("error %v, UID %q, want %q: %s", err, review.Response.UID, uid, w.Body)
	}
	if response.Allowed != (response.Result == nil) {
		t.Fatalf("allowed: %t, with the status %v", response.Allowed, response.Result)
	}
	return response
}

// review sends a request to the path of a kind, and returns the answer.
func review(t testing.TB, h http.Handler, verb, name string, asked *admissionv1.AdmissionRequest) *webhookrequest.AdmissionResponse {
	t.Helper()
	w := send(h, Path(verb, kindOf(t, name).GroupVersionKind), "application/json", bytes.NewReader(body(t, asked)))
	return understood(t, w, uid, verb == "mutate")
}

// kubectl returns the text that kubectl prints for a refusal (checkErr in k8s.io/kubectl/pkg/cmd/util). For an allowed request, it returns
// "".
func kubectl(response *webhookrequest.AdmissionResponse) string {
	if response.Allowed {
		return ""
	}
	status := webhookerrors.ToStatusErr("webhook", response.Result).Status()
	if status.Reason != metav1.StatusReasonInvalid {
		return fmt.Sprintf("Error from server (%s): %s", status.Reason, status.Message)
	}
	text := fmt.Sprintf("The %s %q is invalid: ", status.Details.Kind, status.Details.Name)
	for _, cause := range status.Details.Causes {
		if len(status.Details.Causes) > 1 {
			text += "\n* "
		}
		text += cause.Field + ": " + cause.Message
	}
	return text
}

func TestHandlerAcceptsOnlyAdmissionReviews(t *testing.T) {
	const path = "/validate-bytewang123-redis-wzj-kubebuilder-io-v1-rediscluster"
	good := string(body(t, ask(t, "RedisCluster", sample(t, "RedisCluster", `{"addr":"1.2.3.4:6379"}`), "")))
	altered := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in %s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	padded := func(size int) string { return good + strings.Repeat(" ", size-len(good)) }
	const review = "application/json"
	long := `"` + strings.Repeat("<", maxText+1) + `"`
	manyPath, many := flooding(t, "containers", 100<<10)
	type row struct {
		path, contentType, body string
		status                  int
		says                    string
	}
	posted := func(body string, status int, says string) row {
		return row{path, review, body, status, says}
	}
	for name, test := range map[string]row{
		"a review": posted(good, http.StatusOK, `"allowed":true`),
		"no content type": {
			path, "", good, http.StatusUnsupportedMediaType, `the Content-Type must be application/json, not ""`,
		},
		"a body of the maximal size": posted(padded(maxBody), http.StatusOK, `"allowed":true`),
		"a body of one byte more": posted(padded(maxBody+1), http.StatusInsufficientStorage,
			"the AdmissionReview has 3407873 bytes, and may have 3407872: two objects of 1572864 bytes each, and the fields around them"),
		"too many elements": {manyPath, review, many, http.StatusInsufficientStorage, "they have too many list elements or map entries"},
		"half a review":     posted(good[:len(good)/2], http.StatusBadRequest, "the body is no AdmissionReview: unexpected end of JSON input"),
		"another kind": posted(altered(`"AdmissionReview"`, `"ConversionReview"`), http.StatusBadRequest,
			`not "ConversionReview" of "admission.k8s.io/v1"`),
		"no request": posted(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest,
			"has no request, or its request has no uid"),
		"a request without a UID": posted(altered(uid, ""), http.StatusBadRequest, "has no request, or its request has no uid"),
		"a UID that is too long": posted(altered(uid, strings.Repeat("<", maxText+1)), http.StatusBadRequest,
			"the uid of the request, its operation, its resource or the name of its object has more than 1024 bytes"),
		"a name that is too long": posted(altered(`"name":"rediscluster-sample","namespace":"default","operation"`,
			`"name":`+long+`,"operation"`), http.StatusBadRequest, "has more than 1024 bytes"),
		"an unknown field of a long name": posted(altered(`"spec":{`, `"spec":{`+long+`:"",`), http.StatusOK, `"allowed":true`),
		"a byte that is not UTF-8": posted(altered("1.2.3.4", "\xff"), http.StatusBadRequest,
			"the body is no AdmissionReview: it is not UTF-8"),
		"objects within objects": posted(altered(`"spec":{`, `"spec":{"config":`+strings.Repeat(`{"a":`, 20000)+`1`+
			strings.Repeat("}", 20000)+`,`), http.StatusBadRequest, "exceeded max depth"),
		"another resource is denied": posted(altered(`"resource":"redisclusters"`, `"resource":"pods"`), http.StatusOK,
			"this path is for redisclusters of bytewang123-redis.wzj.kubebuilder.io/v1, but the request is for pods of "),
		"an object that is a list": posted(altered(`"object":{`, `"object":[],"x":{`), http.StatusBadRequest, "cannot unmarshal array"),
		"a null is denied":         posted(altered(`"object":{`, `"object":null,"x":{`), http.StatusOK, `"code":400`),
	} {
		t.Run(name, func(t *testing.T) {
			w := send(NewHandler(fake.NewClientset(), nil), test.path, test.contentType, strings.NewReader(test.body))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("status %d with %q, want %d with %q", w.Code, w.Body, test.status, test.says)
			}
			if w.Code == http.StatusOK {
				understood(t, w, uid, false)
			}
			if strings.Contains(w.Body.String(), "the review panicked") {
				t.Error("the review panicked")
			}
		})
	}
	t.Run("a UID of the maximal length", func(t *testing.T) {
		long := strings.Repeat("<", maxText)
		understood(t, send(NewHandler(fake.NewClientset(), nil), path, review, strings.NewReader(altered(uid, long))), long, false)
	})
}

// TestAnAnswerQuotesOnlyTheBeginning: an answer is short, also if the value that it quotes is long.
func TestAnAnswerQuotesOnlyTheBeginning(t *testing.T) {
	long := strings.Repeat("\x7f", 100<<10) // Go quotes each character as four bytes, and JSON quotes these as five bytes.
	spec := `{"addr":"` + long + `","replicasPerMaster":6,"config":{"tls-protocols":"` + long + `"},"backup":{"schedule":"` + long + `"}}`
	asked := body(t, ask(t, "RedisCluster", sample(t, "RedisCluster", spec), ""))
	w := send(NewHandler(fake.NewClientset(), nil), Path("validate", kindOf(t, "RedisCluster").GroupVersionKind), "application/json",
		bytes.NewReader(asked))
	if got := understood(t, w, uid, false); got.Allowed || len(got.Result.Details.Causes) != 5 || w.Body.Len() > maxAnswer {
		t.Errorf("%d bytes, want five errors: %.300s", w.Body.Len(), w.Body)
	}
}

const (
	cronJob = `{"schedule":"%s","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"b"}],` +
		`"restartPolicy":"Never"}}}}}`
	storage  = "spec.storage: without it a Pod's data is gone with the Pod"
	replicas = "spec.replicasPerMaster: with 0 no replica takes over the slots of a master that fails"
)

func TestValidate(t *testing.T) {
	const badAddr = `The RedisCluster "rediscluster-sample" is invalid: spec.addr: Invalid value: %q: invalid ip port, ip:port`
	type row struct {
		kind, spec, old string // old is "" for a create
		want            string // output of kubectl; "" if the request is allowed
		warnings        []string
	}
	h := NewHandler(fake.NewClientset(), nil)
	for name, test := range map[string]row{
		"a RedisCluster": {"RedisCluster", `{"addr":"192.168.1.10:6379","storage":{"size":"1Gi"}}`, "", "", nil},
		"a RedisCluster without storage: a warning": {"RedisCluster", `{"addr":"192.168.1.10:6379"}`, "", "", []string{storage}},
		"no address": {"RedisCluster", `{}`, "", fmt.Sprintf(badAddr, ""), nil},
		"two mistakes": {"RedisCluster", `{"replicasPerMaster":6}`, "",
			"The RedisCluster \"rediscluster-sample\" is invalid: \n* spec.addr: Invalid value: \"\": invalid ip port, ip:port\n" +
				"* spec.replicasPerMaster: Invalid value: 6: must be from 0 to 5", nil},
		"a spec that cannot be decoded": {"RedisCluster", `{"addr":5}`, "",
			`Error from server (BadRequest): admission webhook "webhook" denied the request: the RedisCluster cannot be read: ` +
				`spec.addr must be of type string, and not number`, nil},
		"a spec that takes too long to decode": {"RedisCluster", `{"storage":{"size":"1e-999999999"}}`, "",
			`Error from server (BadRequest): admission webhook "webhook" denied the request: the RedisCluster cannot be read: ` +
				`a number is too large, or a quantity has more than 100 digits or an exponent of more than two`, nil},

		"an update that breaks": {"RedisCluster", `{}`, `{"addr":"1.2.3.4:1"}`, fmt.Sprintf(badAddr, ""), nil},
		"an old error may stay": {"RedisCluster", `{"addr":"foo:bar","size":9}`, `{"addr":"foo:bar"}`, "", nil},
		"a field with an old error must not get another error": {
			"RedisCluster", `{"addr":"foo:baz"}`, `{"addr":"foo:bar"}`, fmt.Sprintf(badAddr, "foo:baz"), nil,
		},
		"the answer has only the new error": {"RedisCluster", `{"addr":"foo:bar","replicasPerMaster":6}`, `{"addr":"foo:bar"}`,
			`The RedisCluster "rediscluster-sample" is invalid: spec.replicasPerMaster: Invalid value: 6: must be from 0 to 5`, nil},
		"a valid object replaces an unreadable one":    {"RedisCluster", `{"addr":"1.2.3.4:1"}`, `{"addr":5}`, "", []string{storage}},
		"no invalid object replaces an unreadable one": {"RedisCluster", `{}`, `{"addr":5}`, fmt.Sprintf(badAddr, ""), nil},
		"an old warning is not repeated":               {"RedisCluster", `{"addr":"1.2.3.4:2"}`, `{"addr":"1.2.3.4:1"}`, "", nil},
		"a new warning is given even if the object has an error": {
			"RedisCluster", `{"addr":"x","replicasPerMaster":0}`, `{"addr":"x"}`, "", []string{replicas},
		},

		"an update causes a warning": {"Application", `{"image":"nginx","replicas":2}`, `{"image":"nginx"}`, "",
			[]string{"spec.image: without a tag, or with latest, two Pods may run different images"}},
	} {
		t.Run(name, func(t *testing.T) {
			old := test.old
			if old != "" {
				old = sample(t, test.kind, old)
			}
			asked := ask(t, test.kind, sample(t, test.kind, test.spec), old)
			got := review(t, h, "validate", test.kind, asked)
			if text := kubectl(got); text != test.want {
				t.Errorf("kubectl would print\n%s\nwant\n%s", text, test.want)
			}
			if !slices.Equal(got.Warnings, test.warnings) {
				t.Errorf("warnings %q, want %q", got.Warnings, test.warnings)
			}
			asked.DryRun = ptr.To(true)
			if dry := review(t, h, "validate", test.kind, asked); kubectl(dry) != test.want || !slices.Equal(dry.Warnings, test.warnings) {
				t.Errorf("with --dry-run=server: %s, warnings %q", kubectl(dry), dry.Warnings)
			}
		})
	}
	t.Run("a write of the status does not check the spec", func(t *testing.T) {
		asked := ask(t, "RedisCluster", sample(t, "RedisCluster", `{}`), sample(t, "RedisCluster", `{"addr":"1.2.3.4:1"}`))
		asked.SubResource = "status"
		if got := review(t, h, "validate", "RedisCluster", asked); !got.Allowed || len(got.Warnings) > 0 {
			t.Errorf("%s, warnings %q", kubectl(got), got.Warnings)
		}
	})
}

func TestDeletionProtection(t *testing.T) {
	for k := range kinds.Custom() {
		for protection, refused := range map[string]bool{"": false, "true": true, "false": false, "yes": false} {
			// The protection also works for invalid objects.
			asked := ask(t, k.Kind, "", annotated(t, k.Kind, `"x"`, protection))
			asked.Name = "" // A DELETE of a collection has no name.
			got := review(t, NewHandler(fake.NewClientset(), nil), "validate", k.Kind, asked)
			want := ""
			if refused {
				want = fmt.Sprintf(`Error from server (Forbidden): admission webhook "webhook" denied the request: %s.%s "%s-sample" is forbidden: `+
					"it is protected: remove the annotation glassback.dev/deletion-protection first", k.Custom.Plural, k.Group, strings.ToLower(k.Kind))
			}
			if text := kubectl(got); text != want || refused && got.Result.Code != http.StatusForbidden {
				t.Errorf("%s with the annotation %q: got %s, want %s", k.Kind, protection, text, want)
			}
		}
	}
	// API servers before 1.15 sent no old object.
	asked := ask(t, "RedisCluster", "", "{}")
	asked.OldObject.Raw = nil
	got := review(t, NewHandler(fake.NewClientset(), nil), "validate", "RedisCluster", asked)
	if got.Allowed || got.Result.Code != http.StatusBadRequest {
		t.Errorf("without the old object: %+v", got.Result)
	}
}

func TestMutate(t *testing.T) {
	const full = `"addr":"1.2.3.4:1","image":"redis:8"`
	for name, test := range map[string]struct {
		kind, spec string
		patch      string // "" for no patch
		warnings   []string
	}{
		"a small size is raised": {"RedisCluster", `{` + full + `,"size":3,"replicasPerMaster":1}`,
			`[{"op":"replace","path":"/spec/size","value":6}]`, []string{"spec.size: 3 is stored as 6"}},
		"a missing size is added without a warning": {
			"RedisCluster", `{` + full + `,"replicasPerMaster":1}`, `[{"op":"add","path":"/spec/size","value":6}]`, nil,
		},
		"an empty image is replaced": {"RedisCluster", `{"image":"","size":6,"replicasPerMaster":0}`,
			`[{"op":"replace","path":"/spec/image","value":"redis:7"}]`, []string{`spec.image: "" is stored as "redis:7"`}},
		"a size that is too large is left":       {"RedisCluster", `{` + full + `,"size":5000,"replicasPerMaster":1}`, "", nil},
		"a size whose low 32 bits are 3 is left": {"RedisCluster", `{"size":4294967299}`, "", nil},
		"a spec that takes too long is left":     {"RedisCluster", `{"size":3,"storage":{"size":"1e-999999999"}}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := sample(t, test.kind, test.spec)
			for operation, asked := range map[string]*admissionv1.AdmissionRequest{
				"create": ask(t, test.kind, object, ""), "update": ask(t, test.kind, object, object),
			} {
				got := review(t, NewHandler(fake.NewClientset(), nil), "mutate", test.kind, asked)
				if text := kubectl(got); text != "" {
					t.Errorf("%s was refused: %s", operation, text)
				}
				if string(got.Patch) != test.patch || !slices.Equal(got.Warnings, test.warnings) {
					t.Errorf("%s: patch %s, warnings %q, want %s and %q", operation, got.Patch, got.Warnings, test.patch, test.warnings)
				}
				if want := admissionv1.PatchTypeJSONPatch; (got.PatchType == want) != (test.patch != "") {
					t.Errorf("%s: patch type %q", operation, got.PatchType)
				}
			}
		})
	}
}

func TestMutateScale(t *testing.T) {
	parent := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "rediscluster-sample", Namespace: "default"}}
	parent.Spec.Size = ptr.To[int32](6)
	failing := func(err error) *fake.Clientset {
		client := fake.NewClientset()
		client.PrependReactor("get", "redisclusters", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return client
	}
	const three = `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"rediscluster-sample"},"spec":{"replicas":3}}`
	for name, test := range map[string]struct {
		client   *fake.Clientset
		scale    string
		result   string // the stored spec
		warnings []string
		err      string
	}{
		"too few replicas are raised": {fake.NewClientset(parent), three, `{"replicas":6}`, []string{"spec.replicas: 3 is stored as 6"}, ""},
		"0 replicas, which an API server leaves out, are raised": {fake.NewClientset(parent), strings.Replace(three, `"replicas":3`, "", 1),
			`{"replicas":6}`, []string{"spec.replicas: 0 is stored as 6"}, ""},
		"enough replicas are left": {fake.NewClientset(parent), strings.Replace(three, "3", "7", 1), `{"replicas":7}`, nil, ""},
		"a deleted parent":         {fake.NewClientset(), three, `{"replicas":3}`, nil, ""},
		"an invalid Scale is left": {fake.NewClientset(parent), strings.Replace(three, "3", `"3"`, 1), `{"replicas":"3"}`, nil, ""},
		"an error of the GET of the parent": {failing(errors.New("connection refused")), three, "", nil,
			`Error from server (InternalError): admission webhook "webhook" denied the request: Internal error occurred: ` +
				`get RedisCluster rediscluster-sample: connection refused`},
		"no permission to get the parent": {
			failing(apierrors.NewForbidden(redisv1.Resource("redisclusters"), "rediscluster-sample", errors.New("no rights"))), three,
			`{"replicas":3}`, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(test.client, nil)
			got := review(t, h, "mutate", "RedisCluster", scale(t, test.scale))
			if text := kubectl(got); text != test.err {
				t.Fatalf("kubectl would print %s, want %s", text, test.err)
			}
			if test.err != "" {
				return
			}
			patch := got.Patch
			if len(patch) == 0 {
				patch = []byte("[]")
			}
			result, err := apply([]byte(test.scale), patch)
			must.Succeed(t, err)
			if spec := print(t, result.(map[string]any)["spec"]); spec != test.result || !slices.Equal(got.Warnings, test.warnings) {
				t.Errorf("the stored spec is %s, with warnings %q, want %s and %q", spec, got.Warnings, test.result, test.warnings)
			}
			// Only the schema checks a Scale.
			if got := review(t, h, "validate", "RedisCluster", scale(t, test.scale)); !got.Allowed || len(got.Warnings) > 0 {
				t.Errorf("the webhook refused the Scale: %+v", got)
			}
		})
	}
	t.Run("the scale of another kind is left", func(t *testing.T) {
		asked := ask(t, "Application", three, three)
		asked.SubResource = "scale"
		if got := review(t, NewHandler(fake.NewClientset(), nil), "mutate", "Application", asked); !got.Allowed || len(got.Patch) > 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// withChange returns a Handler of RedisClusters, whose descriptor change changes, and of ApiExampleAs.
func withChange(t *testing.T, change func(*descriptor.Custom)) *Handler {
	t.Helper()
	d, custom := *kindOf(t, "RedisCluster").Descriptor, *kindOf(t, "RedisCluster").Custom
	change(&custom)
	d.Custom = &custom
	return newHandler(slices.Values([]*descriptor.Descriptor{&d, kindOf(t, "ApiExampleA").Descriptor}), nil, nil)
}

func TestAPanicIsAnswered(t *testing.T) {
	h := withChange(t, func(c *descriptor.Custom) { c.New = func() descriptor.Object { panic(errors.New("a mistake")) } })
	asked := ask(t, "RedisCluster", sample(t, "RedisCluster", `{}`), "")
	for _, verb := range []string{"mutate", "validate", "mutate"} {
		got := review(t, h, verb, "RedisCluster", asked)
		const want = `Error from server (InternalError): admission webhook "webhook" denied the request: Internal error occurred: ` +
			`the review panicked, see the log of glassback`
		if text := kubectl(got); text != want || got.Result.Code != http.StatusInternalServerError {
			t.Errorf("code %d, %s, want %s", got.Result.Code, text, want)
		}
		if got := review(t, h, verb, "ApiExampleA", ask(t, "ApiExampleA", sample(t, "ApiExampleA", `{}`), "")); !got.Allowed {
			t.Errorf("the next review was refused: %+v", got.Result)
		}
	}
}

func TestAReviewTakesNoLongerThanItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withChange(t, func(c *descriptor.Custom) {
			c.Webhook.Get = func(ctx context.Context, _ versioned.Interface, _, _ string) (descriptor.Object, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		began := time.Now()
		got := review(t, h, "mutate", "RedisCluster", scale(t, `{}`))
		const want = `Error from server (InternalError): admission webhook "webhook" denied the request: Internal error occurred: ` +
			`get RedisCluster rediscluster-sample: context deadline exceeded`
		if text := kubectl(got); text != want || time.Since(began) != reviewTimeout {
			t.Errorf("after %s, the answer is %s, want %s", time.Since(began), text, want)
		}
	})
}
