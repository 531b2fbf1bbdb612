// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
)

// fill returns as many elements as fit into a text of this length, separated by commas.
func fill(length int, element string) string {
	text := strings.Repeat(element+",", length/(len(element)+1))
	return strings.TrimSuffix(text, ",")
}

// flood has bodies that need much more memory or time than others of their size, unless a limit stops them. Each has a kind, a review
// with %s, and the element that is repeated in each place of %s.
var flood = map[string]struct{ kind, review, element string }{
	"objects in an unknown list": {"MyCronJob", `"object":{"spec":{"x":[%s]}}`, `{}`},
	"maps in an unknown list":    {"RedisCluster", `"object":{"spec":{"size":3,"x":[%s]}}`, `{"":0}`},
	"lists in an unknown list":   {"RedisCluster", `"object":{"spec":{"size":3,"x":[%s]}}`, `[[]]`},
	"containers":                 {"MyCronJob", `"object":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}}`, `{}`},
	"containers, stored before": {
		"MyCronJob",
		`"operation":"UPDATE","object":{},"oldObject":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}}`,
		`{}`,
	},
	"arguments": {"MyCronJob", `"object":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"args":[%s]}]}}}}}}`, `""`},
	"limits": {
		"MyCronJob", `"object":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}}`, `{"resources":{"limits":{"":1}}}`,
	},
	"machines, and the same before": {
		"RedisCluster", `"operation":"UPDATE","object":{"spec":{"access":{"external":{"hosts":[%s]}}}},` +
			`"oldObject":{"spec":{"access":{"external":{"hosts":[%s]}}}}`, `{}`,
	},
	"clients, and the same before": {
		"RedisCluster", `"operation":"UPDATE","object":{"spec":{"networkPolicy":{"from":[%s]}}},` +
			`"oldObject":{"spec":{"networkPolicy":{"from":[%s]}}}`, `{}`,
	},
	"variables of the same name":   {"Application", `"object":{"spec":{"env":[%s]}}`, `{"name":"a"}`},
	"variables that are filled in": {"Application", `"object":{"spec":{"env":[%s]}}`, `{"valueFrom":{"fileKeyRef":{}}}`},
	"owners":                       {"RedisCluster", `"object":{"metadata":{"ownerReferences":[%s]},"spec":{"size":3}}`, `{}`},
	"managers of fields": {
		"RedisCluster", `"object":{"metadata":{"managedFields":[{"fieldsV1":{"a":[%s]}}]},"spec":{"size":3}}`, `{}`,
	},
	"an address that is too long": {"RedisCluster", `"object":{"spec":{"addr":"%s"}}`, `<<<<<`},
	"groups of the user":          {"RedisCluster", `"userInfo":{"groups":[%s]},"object":{}`, `""`},
	"options":                     {"RedisCluster", `"options":{"metadata":{"labels":{%s}}},"object":{}`, `"":""`},

	// Each of these has one long text. The text needs more bytes when it is encoded again.
	"a UID":                     {"RedisCluster", `"uid":"%s","object":{}`, `<<<<<`},
	"a name":                    {"RedisCluster", `"name":"%s","object":{}`, del},
	"a resource":                {"RedisCluster", `"requestResource":{},"resource":{"resource":"%s"},"object":{}`, del},
	"a spec with a later null":  {"RedisCluster", `"object":{"spec":{"size":3,"addr":"%s"},"spec":null}`, `<<<<<`},
	"bytes that are not UTF-8":  {"RedisCluster", `"object":{"spec":{"size":3,"addr":"%s"}}`, "\xff\xff\xff\xff\xff"},
	"line separators":           {"RedisCluster", `"object":{"spec":{"size":3,"addr":"%s"}}`, "\u2028\u2029\u2028"},
	"the name of a deleted one": {"RedisCluster", `"operation":"DELETE","oldObject":{"metadata":{"name":"%s",` + protected + `}}`, del},
	"a time":                    {"RedisCluster", `"object":{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z%s"}}`, del},
	"a port":                    {"Application", `"object":{"spec":{"pdb":{"minAvailable":"%s"}}}`, del},
	"an address that is quoted": {"RedisCluster", `"object":{"spec":{"addr":"%s"}}`, del},
	"a directive":               {"RedisCluster", `"object":{"spec":{"config":{"\n%s":"1"}}}`, del},
	"a key that is unknown":     {"RedisCluster", `"object":{"\n%s":1}`, del},
	"managers of fields of Jobs": {
		"MyCronJob", `"object":{"spec":{"size":3,"jobTemplate":{"metadata":{"managedFields":[{"fieldsV1":[%s]}]}}}}`, `{}`,
	},
}

const (
	del       = "\x7f\x7f\x7f\x7f\x7f" // each character is one byte, and five bytes when Go quotes it in JSON
	protected = `"annotations":{"glassback.dev/deletion-protection":"true"}`
)

// flooding returns a body of the flood with this length or a little less.
func flooding(tb testing.TB, name string, length int) (path, body string) {
	tb.Helper()
	what := flood[name]
	k := kindOf(tb, what.kind)
	request := what.review
	if !strings.Contains(request, `"uid"`) {
		request = `"uid":"1",` + request
	}
	if !strings.Contains(request, `"resource":{`) {
		request = fmt.Sprintf(`"resource":{"group":%q,"version":%q,"resource":%q},`, k.Group, k.Version, k.resource) + request
	}
	around := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{` + request + `}}`
	body = strings.ReplaceAll(around, "%s", fill((length-len(around))/strings.Count(around, "%s"), what.element))
	verb := "validate"
	if strings.Contains(body[:len(around)], `"size":3`) || strings.Contains(name, "filled in") {
		verb = "mutate"
	}
	return Path(verb, k.GroupVersionKind), body
}

// live samples the memory that the garbage collector finds in use. stop returns the maximum in bytes. Meanwhile, the collector runs as
// often as in the product.
func live() (stop func() uint64) {
	percent := debug.SetGCPercent(100)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.GC()
	metrics.Read(sample)
	before, most := sample[0].Value.Uint64(), uint64(0)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.GC() // Each collection measures the memory in use at its start.
			}
		}
	}()
	return func() uint64 {
		close(ended)
		<-done
		debug.SetGCPercent(percent)
		return most - min(before, most)
	}
}

// attack sends a number of requests at once from four addresses, and calls answered with the status of each answer. It fails the test if
// the limits do not get back all that the requests took.
func attack(t testing.TB, h *Handler, requests int, path, body string, answered func(status int)) (statuses map[int]int) {
	t.Helper()
	statuses = map[int]int{}
	var mu sync.Mutex
	var attack sync.WaitGroup
	for n := range requests {
		attack.Go(func() {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr = peer(byte(n%4)).String() + ":1234"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			answered(w.Code)
			mu.Lock()
			defer mu.Unlock()
			statuses[w.Code]++
			if w.Body.Len() > reviewSize {
				t.Errorf("an answer has %d bytes: %.200s", w.Body.Len(), w.Body)
			}
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusTooManyRequests &&
				w.Code != http.StatusInsufficientStorage {
				t.Errorf("status %d: %.200s", w.Code, w.Body)
			}
		})
	}
	attack.Wait()
	if h.limits.bodies.left != shippedMemory/5 || h.limits.objects.left != shippedMemory/5 {
		t.Errorf("after all requests, the limits have only %d and %d bytes left", h.limits.bodies.left, h.limits.objects.left)
	}
	return statuses
}

// TestRequestsGiveBackWhatTheyTook has all requests of the flood.
func TestRequestsGiveBackWhatTheyTook(t *testing.T) {
	for name := range flood {
		t.Run(name, func(t *testing.T) {
			path, body := flooding(t, name, 100<<10)
			attack(t, NewHandler(nil), 8, path, body, func(int) {})
		})
	}
}

// BenchmarkMemoryOfAllRequests measures the memory of all requests together: two fifths of the shipped limit at most, whatever they contain.
func BenchmarkMemoryOfAllRequests(b *testing.B) {
	for name := range flood {
		length := maxBody
		switch name {
		case "containers", "containers, stored before", "arguments", "limits", "variables of the same name", "variables that are filled in",
			"machines, and the same before", "clients, and the same before", "owners", "groups of the user", "options":
			length = 100 << 10 // Larger objects have too many elements.
		case "line separators":
			length = maxBody / 2
		}
		b.Run(name, func(b *testing.B) {
			path, body := flooding(b, name, length)
			for b.Loop() {
				stop := live()
				attack(b, NewHandler(nil), 8, path, body, func(int) {})
				b.ReportMetric(float64(stop())/(shippedMemory/5*2), "ofLimit")
			}
		})
	}
}

// TestMemoryOfScales: for a review of a Scale, which has some 500 bytes, the operator reads a RedisCluster, which can have 1.5 MiB. The
// limit includes the memory of the RedisCluster.
func TestMemoryOfScales(t *testing.T) {
	parent := sample(t, "RedisCluster", `{"size":6,"addr":"`+strings.Repeat("a", maxObject-1000)+`"}`)
	const requests = 128
	for name, subresource := range map[string]string{"plain": "scale", "with escapes": `\u0073\u0063\u0061\u006c\u0065`} {
		t.Run(name, func(t *testing.T) {
			var reads atomic.Int64
			var pending sync.WaitGroup // requests whose object was not read yet, and that were not refused
			pending.Add(requests)
			client, err := versioned.NewForConfig(&rest.Config{QPS: -1, Transport: transport(func(*http.Request) (*http.Response, error) {
				reads.Add(1)
				wait := readerFunc(func([]byte) (int, error) { // This is called after the object was read and before it is decoded.
					pending.Done()
					pending.Wait()
					return 0, io.EOF
				})
				return &http.Response{
					StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(io.MultiReader(strings.NewReader(parent), wait)),
				}, nil
			})})
			must.Succeed(t, err)
			review := strings.Replace(string(body(t, scale(t, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":3}}`))),
				`"subResource":"scale"`, `"subResource":"`+subresource+`"`, 1)
			path := Path("mutate", kindOf(t, "RedisCluster").GroupVersionKind)
			statuses := attack(t, NewHandler(client), requests, path, review, func(status int) {
				if status == http.StatusTooManyRequests {
					pending.Done()
				}
			})
			if n := reads.Load(); n == 0 || n*parentSize > shippedMemory/5 || statuses[http.StatusOK] != int(n) ||
				statuses[http.StatusTooManyRequests] != requests-int(n) {
				t.Errorf("%d reads at once, statuses %v", n, statuses)
			}
		})
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestTheLargestUpdate: an update of an object of the maximal size in etcd is admitted, even if another address uses all of its memory
// limit.
func TestTheLargestUpdate(t *testing.T) {
	object := func(replicas int) string {
		text := sample(t, "MyCronJob", fmt.Sprintf(cronJob, fmt.Sprintf("*/%d * * * *", replicas)))
		script := strings.Repeat(`echo "<&>"; `, maxObject)
		var written []byte
		for length := maxObject / 3; len(written) < maxObject-1000; length += (maxObject - len(written)) / 3 {
			// An API server encodes "<" as six bytes.
			with := strings.Replace(text, `"image":"b"`, `"image":"b","args":[`+print(t, script[:length])+`]`, 1)
			var value any
			must.Succeed(t, json.Unmarshal([]byte(with), &value))
			written = []byte(print(t, value))
		}
		if len(written) > maxObject {
			t.Fatalf("the object has %d bytes, which is more than etcd accepts", len(written))
		}
		return string(written)
	}
	h := NewHandler(fake.NewClientset())
	attacker := h.limits.account("10.0.0.66:1")
	defer attacker.close()
	for _, s := range []*shares{h.limits.bodies, h.limits.objects} {
		for s.take(attacker.from, 1<<20) {
		}
	}
	asked := ask(t, "MyCronJob", object(5), object(7))
	text := body(t, asked)
	t.Logf("the review has %d bytes, the limit is %d", len(text), maxBody)
	if got := review(t, h, "validate", "MyCronJob", asked); !got.Allowed {
		t.Errorf("the update was refused: %s", kubectl(got))
	}
}

// TestASlowAttackerDelaysNoOtherClient: an attacker never sends its bodies. It uses at most its share of the memory, and only for the time
// that a normal client needs. All other clients get their answers at once.
func TestASlowAttackerDelaysNoOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(fake.NewClientset())
		path := Path("validate", kindOf(t, "RedisCluster").GroupVersionKind)
		post := func(from byte, length int64, body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, path, body)
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr, r.ContentLength = peer(from).String()+":1", length
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		good := body(t, ask(t, "RedisCluster", sample(t, "RedisCluster", `{"addr":"1.2.3.4:1"}`), ""))
		slow, never := io.Pipe()
		var attack sync.WaitGroup
		var refused atomic.Int64
		for range 64 {
			attack.Go(func() {
				if w := post(66, maxBody, slow); w.Code == http.StatusTooManyRequests {
					refused.Add(1)
					if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(),
						"the requests of 10.0.0.66 already use all the memory that they may") {
						t.Errorf("headers %v: %s", w.Header(), w.Body)
					}
				}
			})
		}
		synctest.Wait()
		for n := range byte(10) {
			began := time.Now()
			if w := post(n, int64(len(good)), bytes.NewReader(good)); w.Code != http.StatusOK || time.Since(began) > 0 {
				t.Errorf("status %d after %s: %s", w.Code, time.Since(began), w.Body)
			}
		}
		time.Sleep(shareTimeout)
		synctest.Wait()
		if held := int64(64) - refused.Load(); held*bodyCopies*maxBody > shippedMemory/5 || held == 0 {
			t.Errorf("%d requests of the attacker still use memory", held)
		}
		never.CloseWithError(io.ErrUnexpectedEOF)
		attack.Wait()
	})
}

// TestUsersSeeTheLimit: the handler refuses a large request with an HTTP error instead of a review. The API server reports this error to
// users.
func TestUsersSeeTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		length int
		flood  string
		full   bool // whether the limit has no memory left
		want   string
	}{
		"a body that is too large": {maxBody + 100, "objects in an unknown list", false,
			`an error on the server ("the AdmissionReview has 34079%d bytes, and may have 3407872: ` +
				`two objects of 1572864 bytes each, and the fields around them") has prevented the request from succeeding`},
		"an object with too many elements": {100 << 10, "containers", false,
			`an error on the server ("the objects of the AdmissionReview take %d bytes of memory, strings not counted, and may take 2097152: ` +
				`they have too many list elements or map entries") has prevented the request from succeeding`},
		"too many requests": {1000, "objects in an unknown list", true,
			"the server has received too many requests and has asked us to try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(nil)
			server := httptest.NewServer(h)
			defer server.Close()
			if test.full {
				h.limits.bodies.left = 0
			}
			config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs}}
			client, err := rest.UnversionedRESTClientFor(config)
			must.Succeed(t, err)
			path, body := flooding(t, test.flood, test.length)
			err = client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).MaxRetries(0).Do(t.Context()).Error()
			want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(test.want), "%d", "[0-9]+") + "$")
			if err == nil || !want.MatchString(err.Error()) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
