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
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
)

const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"

// kindOf returns the kind with a name.
func kindOf(t testing.TB, name string) kind {
	t.Helper()
	for _, k := range kinds {
		if k.Kind == name {
			return k
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
	gvr := metav1.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.resource}
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

func post(h http.Handler, path, contentType string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// understood returns an answer as the API server decodes it.
func understood(t testing.TB, w *httptest.ResponseRecorder, uid string, mutating bool) *request.AdmissionResponse {
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
	response, err := request.VerifyAdmissionResponse(review.Response.UID, mutating, review)
	if err != nil || string(review.Response.UID) != uid || review.Request != nil {
		t.Fatalf("error %v, UID %q, want %q: %s", err, review.Response.UID, uid, w.Body)
	}
	if response.Allowed != (response.Result == nil) {
		t.Fatalf("allowed: %t, with the status %v", response.Allowed, response.Result)
	}
	return response
}

// review sends a request to the path of a kind, and returns the answer.
func review(t testing.TB, h http.Handler, verb, name string, asked *admissionv1.AdmissionRequest) *request.AdmissionResponse {
	t.Helper()
	w := post(h, Path(verb, kindOf(t, name).GroupVersionKind), "application/json", bytes.NewReader(body(t, asked)))
	return understood(t, w, uid, verb == "mutate")
}

// kubectl returns the text that kubectl prints for a refusal (checkErr in k8s.io/kubectl/pkg/cmd/util). For an allowed request, it returns
// "".
func kubectl(response *request.AdmissionResponse) string {
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
	const review, plain = "application/json", "text/plain"
	long := `"` + strings.Repeat("<", maxText+1) + `"`
	type row struct {
		method, path, contentType, body string
		status                          int
		says                            string
	}
	posted := func(body string, status int, says string) row {
		return row{http.MethodPost, path, review, body, status, says}
	}
	for name, test := range map[string]row{
		"a review":                    posted(good, http.StatusOK, `"allowed":true`),
		"a review, with a time limit": {http.MethodPost, path + "?timeout=5s", review, good, http.StatusOK, `"allowed":true`},
		"a review in UTF-8":           {http.MethodPost, path, "application/json; charset=utf-8", good, http.StatusOK, `"allowed":true`},
		"a content type in capitals":  {http.MethodPost, path, "Application/JSON", good, http.StatusOK, `"allowed":true`},
		"no content type": {
			http.MethodPost, path, "", good, http.StatusUnsupportedMediaType, `the Content-Type must be application/json, not ""`,
		},
		"plain text": {
			http.MethodPost, path, plain, good, http.StatusUnsupportedMediaType, `the Content-Type must be application/json, not "text/plain"`,
		},
		"a malformed content type": {
			http.MethodPost, path, "application/json; charset", good, http.StatusUnsupportedMediaType, "the Content-Type must be application/json",
		},
		"a JSON patch": {
			http.MethodPost, path, "application/json-patch+json", good, http.StatusUnsupportedMediaType, "the Content-Type must be application/json",
		},
		"GET":                        {http.MethodGet, path, review, "", http.StatusMethodNotAllowed, ""},
		"PUT":                        {http.MethodPut, path, review, good, http.StatusMethodNotAllowed, ""},
		"the root":                   {http.MethodPost, "/", review, good, http.StatusNotFound, ""},
		"an unknown path":            {http.MethodPost, "/validate-rediscluster", review, good, http.StatusNotFound, ""},
		"a path below a known one":   {http.MethodPost, path + "/x", review, good, http.StatusNotFound, ""},
		"no body":                    posted("", http.StatusBadRequest, "the body is no AdmissionReview"),
		"a body of the maximal size": posted(padded(maxBody), http.StatusOK, `"allowed":true`),
		"a body of one byte more": posted(padded(maxBody+1), http.StatusInsufficientStorage,
			"the AdmissionReview has 3407873 bytes, and may have 3407872: two objects of 1572864 bytes each, and the fields around them"),
		"half a review": posted(good[:len(good)/2], http.StatusBadRequest, "the body is no AdmissionReview: unexpected end of JSON input"),
		"two reviews":   posted(good+good, http.StatusBadRequest, "the body is no AdmissionReview"),
		"no JSON":       posted("kind: AdmissionReview", http.StatusBadRequest, "the body is no AdmissionReview"),
		"a list":        posted("[]", http.StatusBadRequest, "the body is no AdmissionReview"),
		"null":          posted("null", http.StatusBadRequest, `must be an AdmissionReview of admission.k8s.io/v1, not "" of ""`),
		"another kind": posted(altered(`"AdmissionReview"`, `"ConversionReview"`), http.StatusBadRequest,
			`not "ConversionReview" of "admission.k8s.io/v1"`),
		"another version": posted(altered(`"admission.k8s.io/v1"`, `"admission.k8s.io/v1beta1"`), http.StatusBadRequest,
			`not "AdmissionReview" of "admission.k8s.io/v1beta1"`),
		"a kind in another case": posted(altered(`"kind":"AdmissionReview"`, `"Kind":"AdmissionReview"`), http.StatusBadRequest, `not "" of`),
		"no request": posted(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest,
			"has no request, or its request has no uid"),
		"a request that is null": posted(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`, http.StatusBadRequest,
			"has no request, or its request has no uid"),
		"a request without a UID": posted(altered(uid, ""), http.StatusBadRequest, "has no request, or its request has no uid"),
		"a request of another type": posted(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":"x"}`, http.StatusBadRequest,
			"the body is no AdmissionReview"),
		"a UID that is too long": posted(altered(uid, strings.Repeat("<", maxText+1)), http.StatusBadRequest,
			"the uid of the request, its operation, its resource or the name of its object has more than 1024 bytes"),
		"an operation that is too long": posted(altered(`"CREATE"`, long), http.StatusBadRequest, "has more than 1024 bytes"),
		"a name that is too long": posted(altered(`"name":"rediscluster-sample","namespace":"default","operation"`,
			`"name":`+long+`,"operation"`), http.StatusBadRequest, "has more than 1024 bytes"),
		"a kind that is too long": posted(altered(`"AdmissionReview"`, long), http.StatusBadRequest, `not "<<<<<`),
		"a byte that is not UTF-8": posted(altered("1.2.3.4", "\xff"), http.StatusBadRequest,
			"the body is no AdmissionReview: it is not UTF-8"),
		"an object with the same key twice": posted(altered(`"object":{`, `"object":{},"object":{`), http.StatusBadRequest,
			`"object" is there twice`),
		"a second spec": posted(altered(`"spec":{`, `"spec":null,"spec":{`), http.StatusBadRequest, `"spec" is there twice`),
		"a second spec, whose key has an escape": posted(altered(`"spec":{`, `"\u0073pec":null,"spec":{`), http.StatusBadRequest,
			`"spec" is there twice`),
		"the same unknown field twice": posted(altered(`"spec":{`, `"Spec":1,"Spec":2,"spec":{`), http.StatusOK, `"allowed":true`),
		"a key that is too long": posted(altered(`"spec":{`, `"spec":{"config":{`+long+`:""},`), http.StatusBadRequest,
			"a key has more than 1024 bytes"),
		"an unknown field of a long name": posted(altered(`"spec":{`, `"spec":{`+long+`:"",`), http.StatusOK, `"allowed":true`),
		"a time that is too long": posted(altered(`"metadata":{`, `"metadata":{"creationTimestamp":`+long+`,`),
			http.StatusBadRequest, "a time, or a number that may be a string, has more than 1024 bytes"),
		"another resource is denied": posted(altered(`"resource":"redisclusters"`, `"resource":"pods"`), http.StatusOK, `"code":400`),
		"another group is denied": posted(altered(`"resource":{"group":"bytewang123-redis.wzj.kubebuilder.io"`,
			`"resource":{"group":""`), http.StatusOK, `"code":400`),
		"an object that is a list is denied": posted(altered(`"object":{`, `"object":[],"x":{`), http.StatusOK, `"code":400`),
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(fake.NewClientset())
			r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
			if test.contentType != "" {
				r.Header.Set("Content-Type", test.contentType)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("status %d with %q, want %d with %q", w.Code, w.Body, test.status, test.says)
			}
			if w.Code == http.StatusOK {
				understood(t, w, uid, false)
			}
			if panicked(w) {
				t.Error("the review panicked")
			}
		})
	}
	t.Run("a body that ends too early", func(t *testing.T) {
		broken := io.MultiReader(strings.NewReader(good[:100]), iotest.ErrReader(io.ErrUnexpectedEOF))
		if w := post(NewHandler(fake.NewClientset()), path, review, broken); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), "read the body: unexpected EOF") {
			t.Errorf("status %d with %q", w.Code, w.Body)
		}
	})
	t.Run("a UID of the maximal length", func(t *testing.T) {
		long := strings.Repeat("<", maxText)
		understood(t, post(NewHandler(fake.NewClientset()), path, review, strings.NewReader(altered(uid, long))), long, false)
	})
	t.Run("an answer to a closed connection", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(good))
		r.Header.Set("Content-Type", review)
		w := httptest.NewRecorder()
		if NewHandler(fake.NewClientset()).ServeHTTP(gone{w}, r); w.Body.Len() == 0 || panicked(w) {
			t.Errorf("the handler wrote %q", w.Body)
		}
	})
}

func TestEveryKindHasItsPaths(t *testing.T) {
	h := NewHandler(fake.NewClientset())
	for _, k := range kinds {
		for _, verb := range []string{"mutate", "validate"} {
			path := Path(verb, k.GroupVersionKind)
			for method, status := range map[string]int{
				http.MethodPost: http.StatusUnsupportedMediaType,
				http.MethodGet:  http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed,
			} {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody)); w.Code != status {
					t.Errorf("%s %s: status %d, want %d", method, path, w.Code, status)
				}
			}
		}
	}
}

// gone is a client that has closed its connection.
type gone struct{ *httptest.ResponseRecorder }

func (g gone) Write(p []byte) (int, error) {
	_, _ = g.ResponseRecorder.Write(p)
	return 0, errors.New("broken pipe")
}

// panicked reports whether an answer says that the review panicked.
func panicked(w *httptest.ResponseRecorder) bool {
	return strings.Contains(w.Body.String(), "the review panicked")
}

// TestAnswersAreShort: an answer is short, even if an object has many errors. It has the first errors. After these are corrected, the next
// answer has the others.
func TestAnswersAreShort(t *testing.T) {
	quoted := strings.Repeat("\x7f", 1000) // Go quotes each character as four bytes, and JSON quotes these as five bytes.
	spec := func(directives ...int) string {
		config := make([]string, len(directives))
		for i, n := range directives {
			config[i] = fmt.Sprintf(`"%s%02d":"%s"`, quoted, n, quoted)
		}
		return sample(t, "RedisCluster", `{"addr":"1.2.3.4:1","config":{`+strings.Join(config, ",")+`}}`)
	}
	numbers := make([]int, 64)
	for i := range numbers {
		numbers[i] = i
	}
	for name, test := range map[string]struct {
		object, old string
		causes      int
	}{
		"a new object":                            {spec(numbers...), "", 1},
		"an answer has at least one error":        {spec(3), "", 1},
		"an update without new errors":            {spec(numbers...), spec(numbers...), 0},
		"an update with an error in the last one": {spec(numbers...), spec(numbers[:63]...), 1},
		"short errors":                            {sample(t, "RedisCluster", `{"size":1000,"replicasPerMaster":9,"image":" "}`), "", 4},
		"an update with an error that quotes it":  {sample(t, "RedisCluster", `{"addr":"b"}`), sample(t, "RedisCluster", `{"addr":"a"}`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ask(t, "RedisCluster", test.object, test.old)
			w := post(NewHandler(fake.NewClientset()), Path("validate", kindOf(t, "RedisCluster").GroupVersionKind), "application/json",
				bytes.NewReader(body(t, asked)))
			got := understood(t, w, uid, false)
			causes := 0
			if !got.Allowed {
				causes = len(got.Result.Details.Causes)
			}
			if causes != test.causes || w.Body.Len() > 4*maxErrors {
				t.Errorf("%d causes in %d bytes, want %d: %.300s", causes, w.Body.Len(), test.causes, w.Body)
			}
		})
	}
}

// TestARequestOnTheWrongPathIsRefused: each kind has its path, and a request must be about the kind of its path.
func TestARequestOnTheWrongPathIsRefused(t *testing.T) {
	asked := ask(t, "Application", sample(t, "Application", `{"image":"nginx"}`), "")
	for _, verb := range []string{"mutate", "validate"} {
		got := review(t, NewHandler(fake.NewClientset()), verb, "RedisCluster", asked)
		const want = `Error from server (BadRequest): admission webhook "webhook" denied the request: this path is for redisclusters of ` +
			"bytewang123-redis.wzj.kubebuilder.io/v1, but the request is for applications of app.aiops.org/v1: correct the webhook configuration"
		if text := kubectl(got); text != want || got.Result.Code != http.StatusBadRequest {
			t.Errorf("code %d, %s, want %s", got.Result.Code, text, want)
		}
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
	rows := map[string]row{
		"a RedisCluster": {"RedisCluster", `{"addr":"192.168.1.10:6379","storage":{"size":"1Gi"}}`, "", "", nil},
		"a RedisCluster without storage: a warning": {"RedisCluster", `{"addr":"192.168.1.10:6379"}`, "", "", []string{storage}},
		"an address of IPv6":                        {"RedisCluster", `{"addr":"[::1]:6379","storage":{"size":"1Gi"}}`, "", "", nil},
		"no address":                                {"RedisCluster", `{}`, "", fmt.Sprintf(badAddr, ""), nil},
		"no spec":                                   {"RedisCluster", `null`, "", fmt.Sprintf(badAddr, ""), nil},
		"two mistakes": {"RedisCluster", `{"size":501,"replicasPerMaster":6,"addr":"1.2.3.4:1"}`, "",
			"The RedisCluster \"rediscluster-sample\" is invalid: \n* spec.size: Invalid value: 501: must be from 18 to 500\n" +
				"* spec.replicasPerMaster: Invalid value: 6: must be from 0 to 5", nil},
		"a spec that cannot be decoded": {"RedisCluster", `{"addr":5}`, "",
			`Error from server (BadRequest): admission webhook "webhook" denied the request: the RedisCluster cannot be read: ` +
				`spec.addr must be of type string, and not number`, nil},
		"a spec that takes too long to decode": {"RedisCluster", `{"storage":{"size":"1e-999999999"}}`, "",
			`Error from server (BadRequest): admission webhook "webhook" denied the request: the RedisCluster cannot be read: ` +
				`a number is too large, or a quantity has more than 100 digits or an exponent of more than two`, nil},

		"an update that corrects":          {"RedisCluster", `{"addr":"1.2.3.4:1"}`, `{}`, "", nil},
		"an update that breaks":            {"RedisCluster", `{}`, `{"addr":"1.2.3.4:1"}`, fmt.Sprintf(badAddr, ""), nil},
		"an old error may stay":            {"RedisCluster", `{"addr":"foo:bar","size":9}`, `{"addr":"foo:bar"}`, "", nil},
		"a missing field may stay missing": {"RedisCluster", `{"size":9}`, `{}`, "", nil},
		"a field with an old error must not get another error": {
			"RedisCluster", `{"addr":"foo:baz"}`, `{"addr":"foo:bar"}`, fmt.Sprintf(badAddr, "foo:baz"), nil,
		},
		"the answer has only the new error": {"RedisCluster", `{"addr":"foo:bar","size":501}`, `{"addr":"foo:bar"}`,
			`The RedisCluster "rediscluster-sample" is invalid: spec.size: Invalid value: 501: must be from 6 to 500`, nil},
		"storage cannot be removed": {"RedisCluster", `{"addr":"1.2.3.4:1"}`, `{"addr":"1.2.3.4:1","storage":{"size":"1Gi"}}`,
			`The RedisCluster "rediscluster-sample" is invalid: spec.storage: Forbidden: cannot be added to a cluster or taken from it: ` +
				`its nodes would lose what they hold`, nil},
		"storage cannot be removed from an invalid object": {"RedisCluster", `{}`, `{"storage":{"size":"1Gi"}}`,
			`The RedisCluster "rediscluster-sample" is invalid: spec.storage: Forbidden: cannot be added to a cluster or taken from it: ` +
				`its nodes would lose what they hold`, nil},
		"storage cannot shrink": {
			"RedisCluster", `{"addr":"1.2.3.4:1","storage":{"size":"1Gi"}}`, `{"addr":"1.2.3.4:1","storage":{"size":"2Gi"}}`,
			`The RedisCluster "rediscluster-sample" is invalid: spec.storage.size: Invalid value: "1Gi": cannot be less than it was: ` +
				`volumes do not shrink`, nil,
		},
		"a valid object replaces an unreadable one":    {"RedisCluster", `{"addr":"1.2.3.4:1"}`, `{"addr":5}`, "", []string{storage}},
		"no invalid object replaces an unreadable one": {"RedisCluster", `{}`, `{"addr":5}`, fmt.Sprintf(badAddr, ""), nil},
		"an old warning is not repeated":               {"RedisCluster", `{"addr":"1.2.3.4:2"}`, `{"addr":"1.2.3.4:1"}`, "", nil},
		"a new warning is given": {
			"RedisCluster", `{"addr":"1.2.3.4:1","replicasPerMaster":0}`, `{"addr":"1.2.3.4:1"}`, "", []string{replicas},
		},
		"a new warning is given even if the object has an error": {
			"RedisCluster", `{"addr":"x","replicasPerMaster":0}`, `{"addr":"x"}`, "", []string{replicas},
		},

		"an ApiExampleA": {"ApiExampleA", `{"foo":"bar"}`, "", "", nil},
		"an ApiExampleA with two lines": {"ApiExampleA", `{"foo":"a\nb"}`, "",
			`The ApiExampleA "apiexamplea-sample" is invalid: spec.foo: Invalid value: "a\nb": ` +
				`must be one line of no more than 100 characters, without control characters`, nil},
		"an Application": {"Application", `{"image":"nginx"}`, "", "", nil},
		"an Application with a warning": {"Application", `{"image":"nginx","replicas":2}`, "", "",
			[]string{"spec.image: without a tag, or with latest, two Pods may run different images"}},
		"an update causes a warning": {"Application", `{"image":"nginx","replicas":2}`, `{"image":"nginx"}`, "",
			[]string{"spec.image: without a tag, or with latest, two Pods may run different images"}},
		"an Application with many replicas": {"Application", `{"image":"nginx","replicas":10001}`, "",
			`The Application "application-sample" is invalid: spec.replicas: Invalid value: 10001: must be from 0 to 10000`, nil},
		"an ECSInstance": {"ECSInstance", `{"regionID":"cn-beijing","instanceType":"ecs.g6.large","imageID":"a","vSwitchID":"b"}`, "", "", nil},
		"an ECSInstance with a warning": {"ECSInstance", `{"regionID":"cn-beijing","instanceType":"ecs.g6.large","imageID":"a"}`, "", "",
			[]string{"spec.vSwitchID: without a vSwitch, the operator requests the classic network, which ECS rejects for most accounts"}},
		"an ECSInstance without an image": {"ECSInstance", `{"regionID":"cn-beijing","instanceType":"ecs.g6.large"}`, "",
			`The ECSInstance "ecsinstance-sample" is invalid: spec.imageID: Required value: ` +
				`say what the system disk is made from, like "aliyun_3_x64_20G_alibase_20240528.vhd"`, nil},
		"a MyCronJob": {"MyCronJob", fmt.Sprintf(cronJob, "*/5 * * * *"), "", "", nil},
		"a schedule without a time": {"MyCronJob", fmt.Sprintf(cronJob, "0 0 30 2 *"), "",
			`The MyCronJob "mycronjob-sample" is invalid: spec.schedule: Invalid value: "0 0 30 2 *": never comes: ` +
				`none of its months has such a day`, nil},
		"seconds without a time": {"MyCronJob", fmt.Sprintf(cronJob, "0 0 0 31 2,4 *"), "", `The MyCronJob "mycronjob-sample" is ` +
			`invalid: spec.schedule: Invalid value: "0 0 0 31 2,4 *": never comes: none of its months has such a day`, nil},
		"an old schedule may stay":   {"MyCronJob", fmt.Sprintf(cronJob, "0 0 30 2 *"), fmt.Sprintf(cronJob, "0 0 30 2 *"), "", nil},
		"a schedule with a rare day": {"MyCronJob", fmt.Sprintf(cronJob, "0 0 29 2 *"), "", "", nil},
	}
	for _, addr := range []string{
		"foo:bar", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:70000", "1.2.3.4:06379", "::1:6379", "[::1]", "[fe80::1%eth0]:1",
		"redis.example.com:6379", " 1.2.3.4:1", "1.2.3.4:1\n",
	} {
		rows["the address "+addr] = row{"RedisCluster", print(t, map[string]any{"addr": addr}), "", fmt.Sprintf(badAddr, addr), nil}
	}
	h := NewHandler(fake.NewClientset())
	for name, test := range rows {
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

// TestAMissingAddrHasOneCause: the output of kubectl depends on the number of causes.
func TestAMissingAddrHasOneCause(t *testing.T) {
	for name, spec := range map[string]string{"empty": `{"addr":""}`, "missing": `{}`, "null": `{"addr":null}`} {
		t.Run(name, func(t *testing.T) {
			asked := ask(t, "RedisCluster", sample(t, "RedisCluster", spec), "")
			got := review(t, NewHandler(fake.NewClientset()), "validate", "RedisCluster", asked).Result
			const message = `Invalid value: "": invalid ip port, ip:port`
			want := &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
				Message: `RedisCluster.bytewang123-redis.wzj.kubebuilder.io "rediscluster-sample" is invalid: spec.addr: ` + message,
				Details: &metav1.StatusDetails{
					Group: "bytewang123-redis.wzj.kubebuilder.io", Kind: "RedisCluster", Name: "rediscluster-sample",
					Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.addr", Message: message}},
				},
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestDeletionProtection(t *testing.T) {
	for _, k := range kinds {
		for name, test := range map[string]struct {
			protection string
			refused    bool
		}{
			"without the annotation":  {"", false},
			"with the annotation":     {"true", true},
			"with the annotation off": {"false", false},
			"with another value":      {"yes", false},
		} {
			t.Run(k.Kind+" "+name, func(t *testing.T) {
				// The protection also works for invalid objects.
				asked := ask(t, k.Kind, "", annotated(t, k.Kind, `"x"`, test.protection))
				asked.Name = "" // A DELETE of a collection has no name.
				got := review(t, NewHandler(fake.NewClientset()), "validate", k.Kind, asked)
				want := ""
				if test.refused {
					want = fmt.Sprintf(`Error from server (Forbidden): admission webhook "webhook" denied the request: %s.%s "%s-sample" is forbidden: `+
						"it is protected: remove the annotation glassback.dev/deletion-protection first", k.resource, k.Group, strings.ToLower(k.Kind))
				}
				if text := kubectl(got); text != want {
					t.Errorf("got %s, want %s", text, want)
				}
				if test.refused && got.Result.Code != http.StatusForbidden {
					t.Errorf("code %d", got.Result.Code)
				}
			})
		}
	}
	t.Run("a request without the old object, as from API servers before 1.15", func(t *testing.T) {
		asked := ask(t, "RedisCluster", "", "{}")
		asked.OldObject.Raw = nil
		if got := review(t, NewHandler(fake.NewClientset()), "validate", "RedisCluster", asked); got.Allowed ||
			got.Result.Code != http.StatusBadRequest {
			t.Errorf("got %+v", got.Result)
		}
	})
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
		"a size that is too small for its replicas is raised": {"RedisCluster", `{` + full + `,"size":3,"replicasPerMaster":3}`,
			`[{"op":"replace","path":"/spec/size","value":12}]`, []string{"spec.size: 3 is stored as 12"}},
		"a size of zero is raised": {"RedisCluster", `{` + full + `,"size":0,"replicasPerMaster":1}`,
			`[{"op":"replace","path":"/spec/size","value":6}]`, []string{"spec.size: 0 is stored as 6"}},
		"a negative size is raised": {"RedisCluster", `{` + full + `,"size":-1,"replicasPerMaster":1}`,
			`[{"op":"replace","path":"/spec/size","value":6}]`, []string{"spec.size: -1 is stored as 6"}},
		"a missing size is added without a warning": {
			"RedisCluster", `{` + full + `,"replicasPerMaster":1}`, `[{"op":"add","path":"/spec/size","value":6}]`, nil,
		},
		"a missing size with many replicas": {
			"RedisCluster", `{` + full + `,"replicasPerMaster":5}`, `[{"op":"add","path":"/spec/size","value":18}]`, nil,
		},
		"an empty image is replaced": {"RedisCluster", `{"image":"","size":6,"replicasPerMaster":0}`,
			`[{"op":"replace","path":"/spec/image","value":"redis:7"}]`, []string{`spec.image: "" is stored as "redis:7"`}},
		"an empty spec is filled": {"RedisCluster", `{}`,
			`[{"op":"add","path":"/spec/image","value":"redis:7"},{"op":"add","path":"/spec/replicasPerMaster","value":1},` +
				`{"op":"add","path":"/spec/size","value":6}]`, nil},
		"a spec that is null is replaced": {
			"RedisCluster", `null`, `[{"op":"replace","path":"/spec","value":{"size":6,"replicasPerMaster":1,"image":"redis:7"}}]`, nil,
		},
		"a size that is large enough is left": {"RedisCluster", `{` + full + `,"size":7,"replicasPerMaster":1}`, "", nil},
		"a size that is too large is left":    {"RedisCluster", `{` + full + `,"size":5000,"replicasPerMaster":1}`, "", nil},
		"unknown fields are left": {
			"RedisCluster", `{` + full + `,"size":6,"replicasPerMaster":1,"Size":3,"x":{"size":3}}`, "", nil,
		},
		"a size whose low 32 bits are 3 is left": {"RedisCluster", `{"size":4294967299}`, "", nil},
		"a size beyond 64 bits is left":          {"RedisCluster", `{"size":1e300}`, "", nil},
		"a size that is text is left":            {"RedisCluster", `{"size":"3"}`, "", nil},
		"a size that is no integer is left":      {"RedisCluster", `{"size":3.5}`, "", nil},
		"a spec that is a list is left":          {"RedisCluster", `[]`, "", nil},
		"a spec that takes too long is left":     {"RedisCluster", `{"size":3,"storage":{"size":"1e-999999999"}}`, "", nil},
		"an ApiExampleA has no defaults":         {"ApiExampleA", `{"foo":"bar"}`, "", nil},
		"a complete Application": {"Application", `{"image":"a","replicas":1,"port":1,"service":{"enabled":true,"type":"NodePort"},` +
			`"ingress":{"enabled":false,"className":"a","host":"b","path":"/"}}`, "", nil},
		"an element of a list in an Application": {
			"Application", `{"image":"a","replicas":1,"port":1,"service":{"enabled":true,"type":"NodePort"},` +
				`"ingress":{"enabled":false,"className":"a","host":"b","path":"/"},` +
				`"env":[{"name":"a"},{"name":"b","valueFrom":{"fileKeyRef":{"key":"c"}}}]}`,
			`[{"op":"add","path":"/spec/env/1/valueFrom/fileKeyRef/optional","value":false}]`, nil,
		},
		"a MyCronJob": {"MyCronJob", `{"suspend":true,"concurrencyPolicy":"Forbid","successfulJobsHistoryLimit":0}`,
			`[{"op":"add","path":"/spec/failedJobsHistoryLimit","value":1},{"op":"add","path":"/spec/missedRunPolicy","value":"Latest"}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := sample(t, test.kind, test.spec)
			for operation, asked := range map[string]*admissionv1.AdmissionRequest{
				"create": ask(t, test.kind, object, ""), "update": ask(t, test.kind, object, object),
			} {
				got := review(t, NewHandler(fake.NewClientset()), "mutate", test.kind, asked)
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
	parent := func(replicasPerMaster *int32) *redisv1.RedisCluster {
		r := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "rediscluster-sample", Namespace: "default"}}
		r.Spec.Size, r.Spec.ReplicasPerMaster = ptr.To[int32](6), replicasPerMaster
		return r
	}
	failing := func(err error) *fake.Clientset {
		client := fake.NewClientset()
		client.PrependReactor("get", "redisclusters", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return client
	}
	elsewhere := parent(nil)
	elsewhere.Namespace = "elsewhere"
	const three = `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"rediscluster-sample"},"spec":{"replicas":3}}`
	for name, test := range map[string]struct {
		client   *fake.Clientset
		scale    string
		result   string // the stored spec
		warnings []string
		err      string
	}{
		"too few replicas are raised": {fake.NewClientset(parent(nil)), three, `{"replicas":6}`, []string{"spec.replicas: 3 is stored as 6"}, ""},
		"too few replicas for replicasPerMaster are raised": {fake.NewClientset(parent(ptr.To[int32](3))), three,
			`{"replicas":12}`, []string{"spec.replicas: 3 is stored as 12"}, ""},
		"0 replicas, which an API server leaves out, are raised": {fake.NewClientset(parent(nil)), strings.Replace(three, `"replicas":3`, "", 1),
			`{"replicas":6}`, []string{"spec.replicas: 0 is stored as 6"}, ""},
		"enough replicas are left": {fake.NewClientset(parent(nil)), strings.Replace(three, "3", "7", 1), `{"replicas":7}`, nil, ""},
		"a deleted parent":         {fake.NewClientset(), three, `{"replicas":3}`, nil, ""},
		"a parent elsewhere":       {fake.NewClientset(elsewhere), three, `{"replicas":3}`, nil, ""},
		"an invalid Scale is left": {fake.NewClientset(parent(nil)), strings.Replace(three, "3", `"3"`, 1), `{"replicas":"3"}`, nil, ""},
		"an error of the GET of the parent": {failing(errors.New("connection refused")), three, "", nil,
			`Error from server (InternalError): admission webhook "webhook" denied the request: Internal error occurred: ` +
				`get RedisCluster rediscluster-sample: connection refused`},
		"no permission to get the parent": {
			failing(apierrors.NewForbidden(redisv1.Resource("redisclusters"), "rediscluster-sample", errors.New("no rights"))), three,
			`{"replicas":3}`, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(test.client)
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
			result, err := apply(parse(t, test.scale), patch)
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
		if got := review(t, NewHandler(fake.NewClientset()), "mutate", "Application", asked); !got.Allowed || len(got.Patch) > 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestMutateScaleLeavesTheParentAsItIs: the parent can belong to a cache.
func TestMutateScaleLeavesTheParentAsItIs(t *testing.T) {
	parent := &redisv1.RedisCluster{}
	reviewer := typed[redisv1.RedisCluster, *redisv1.RedisCluster]{
		get:      func(context.Context, string, string) (*redisv1.RedisCluster, error) { return parent, nil },
		replicas: func(r *redisv1.RedisCluster) **int32 { return &r.Spec.Size },
	}
	operations, err := reviewer.mutate(t.Context(), scale(t, `{"spec":{"replicas":3}}`))
	if len(operations) != 1 || err != nil || !reflect.DeepEqual(parent, &redisv1.RedisCluster{}) {
		t.Errorf("%v, error %v, and the parent is %+v", operations, err, parent)
	}
}

// panicking is a reviewer that panics.
type panicking struct{}

func (panicking) shape() *shape { return nil }

func (panicking) mutate(context.Context, *admissionv1.AdmissionRequest) ([]operation, error) {
	panic(errors.New("a mistake"))
}

func (panicking) validate(r *admissionv1.AdmissionRequest) ([]string, error) {
	var none map[string]string
	none[r.Name] = ""
	return nil, nil
}

func TestAPanicIsAnswered(t *testing.T) {
	broken := kindOf(t, "RedisCluster")
	broken.reviewer = func(schema.GroupVersionKind, versioned.Interface) reviewer { return panicking{} }
	h := newHandler([]kind{broken, kindOf(t, "ApiExampleA")}, fake.NewClientset())
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

// waiting is a reviewer that waits until its context ends.
type waiting struct{ panicking }

func (waiting) mutate(ctx context.Context, _ *admissionv1.AdmissionRequest) ([]operation, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAReviewTakesNoLongerThanItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := kindOf(t, "RedisCluster")
		slow.reviewer = func(schema.GroupVersionKind, versioned.Interface) reviewer { return waiting{} }
		began := time.Now()
		got := review(t, newHandler([]kind{slow}, nil), "mutate", "RedisCluster", ask(t, "RedisCluster", sample(t, "RedisCluster", `{}`), ""))
		const want = `Error from server (InternalError): admission webhook "webhook" denied the request: Internal error occurred: ` +
			`context deadline exceeded`
		if text := kubectl(got); text != want || time.Since(began) != reviewTimeout {
			t.Errorf("after %s, the answer is %s, want %s", time.Since(began), text, want)
		}
	})
}

// TestReviewsAtOnce sends many reviews at once, for the race detector.
func TestReviewsAtOnce(t *testing.T) {
	h := NewHandler(fake.NewClientset())
	var reviews sync.WaitGroup
	for range 4 {
		for _, k := range kinds {
			for _, verb := range []string{"mutate", "validate"} {
				asked := ask(t, k.Kind, sample(t, k.Kind, `{}`), "")
				reviews.Go(func() { review(t, h, verb, k.Kind, asked) })
			}
		}
	}
	reviews.Wait()
}

func FuzzHandler(f *testing.F) {
	client := fake.NewClientset(&redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: "rediscluster-sample", Namespace: "default"}})
	h := NewHandler(client)
	paths := []string{"/", "/healthz"}
	for _, k := range kinds {
		paths = append(paths, Path("mutate", k.GroupVersionKind), Path("validate", k.GroupVersionKind))
	}
	for i, path := range paths {
		f.Add(byte(i), "text/plain", []byte(`{}`))
		for _, k := range kinds {
			for _, spec := range []string{
				`{}`, `{"size":3,"addr":"foo:bar","image":""}`, `{"image":"nginx","env":[{"name":"a","valueFrom":{"fileKeyRef":{}}}]}`,
				fmt.Sprintf(cronJob, "0 0 30 2 *"),
			} {
				object := sample(f, k.Kind, spec)
				if !strings.HasSuffix(path, strings.ToLower(k.Kind)) {
					continue
				}
				f.Add(byte(i), "", body(f, ask(f, k.Kind, object, "")))
				f.Add(byte(i), "application/json; charset=utf-8", body(f, ask(f, k.Kind, object, sample(f, k.Kind, `{"storage":{"size":"1Gi"}}`))))
				f.Add(byte(i), "", body(f, ask(f, k.Kind, "", annotated(f, k.Kind, spec, "true"))))
			}
		}
		f.Add(byte(i), "", body(f, scale(f, `{"kind":"Scale","spec":{"replicas":3}}`)))
		f.Add(byte(i), "", body(f, scale(f, `{"kind":"Scale","spec":{}}`)))
	}
	statuses := []int{
		http.StatusOK, http.StatusBadRequest, http.StatusInsufficientStorage, http.StatusUnsupportedMediaType, http.StatusNotFound,
	}
	f.Fuzz(func(t *testing.T, path byte, contentType string, body []byte) {
		if contentType == "" {
			contentType = "application/json"
		}
		client.ClearActions()
		url := paths[int(path)%len(paths)]
		w := post(h, url, contentType, bytes.NewReader(body))
		if panicked(w) || !slices.Contains(statuses, w.Code) {
			t.Fatalf("status %d: %.200s", w.Code, w.Body)
		}
		if w.Code != http.StatusOK {
			return
		}
		asked := &admissionv1.AdmissionReview{}
		must.Succeed(t, json.Unmarshal(body, asked))
		got := understood(t, w, string(asked.Request.UID), strings.HasPrefix(url, "/mutate"))
		if !got.Allowed && got.Result.Code < 400 {
			t.Errorf("refused with %+v", got.Result)
		}
		if len(got.Patch) == 0 {
			return
		}
		var object any
		must.Succeed(t, stdjson.Unmarshal(asked.Request.Object.Raw, &object))
		scale, _ := object.(map[string]any)
		if _, whole := scale["spec"].(map[string]any); asked.Request.SubResource == "scale" && !whole {
			return // No API server sends such a Scale.
		}
		if _, err := apply(object, got.Patch); err != nil {
			t.Errorf("%v, of the patch %s for %s", err, got.Patch, asked.Request.Object.Raw)
		}
	})
}
