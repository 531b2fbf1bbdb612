// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/descriptor"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
	"github.com/glassback/glassback/pkg/shares"
)

// fill returns as many elements as fit into a text of this length, separated by commas.
func fill(length int, element string) string {
	text := strings.Repeat(element+",", length/(len(element)+1))
	return strings.TrimSuffix(text, ",")
}

// flood has bodies that need much more memory or time than others of their size, unless a limit stops them. Each has a kind, a review
// with %s, and the element that is repeated in each place of %s.
var flood = map[string]struct{ kind, review, element string }{
	"containers": {"MyCronJob", `"object":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}}`, `{}`},
	"containers, stored before": {
		"MyCronJob",
		`"operation":"UPDATE","object":{},"oldObject":{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[%s]}}}}}}`,
		`{}`,
	},
	"machines, and the same before": {
		"RedisCluster", `"operation":"UPDATE","object":{"spec":{"access":{"external":{"hosts":[%s]}}}},` +
			`"oldObject":{"spec":{"access":{"external":{"hosts":[%s]}}}}`, `{}`,
	},
	"variables of the same name":   {"Application", `"object":{"spec":{"env":[%s]}}`, `{"name":"a"}`},
	"variables that are filled in": {"Application", `"object":{"spec":{"env":[%s]}}`, `{"valueFrom":{"fileKeyRef":{}}}`},
	"groups of the user":           {"RedisCluster", `"userInfo":{"groups":[%s]},"object":{}`, `""`},

	// Each of these has one long text. The text needs more bytes when it is encoded again.
	"a UID":                     {"RedisCluster", `"uid":"%s","object":{}`, `<<<<<`},
	"a name":                    {"RedisCluster", `"name":"%s","object":{}`, del},
	"a resource":                {"RedisCluster", `"requestResource":{},"resource":{"resource":"%s"},"object":{}`, del},
	"a spec with a later null":  {"RedisCluster", `"object":{"spec":{"size":3,"addr":"%s"},"spec":null}`, `<<<<<`},
	"bytes that are not UTF-8":  {"RedisCluster", `"object":{"spec":{"size":3,"addr":"%s"}}`, "\xff\xff\xff\xff\xff"},
	"the name of a deleted one": {"RedisCluster", `"operation":"DELETE","oldObject":{"metadata":{"name":"%s",` + protected + `}}`, del},
	"a time":                    {"RedisCluster", `"object":{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z%s"}}`, del},
	"a port":                    {"Application", `"object":{"spec":{"pdb":{"minAvailable":"%s"}}}`, del},
	"an address that is quoted": {"RedisCluster", `"object":{"spec":{"addr":"%s"}}`, del},
	"a directive":               {"RedisCluster", `"object":{"spec":{"config":{"\n%s":"1"}}}`, del},
	"a key that is unknown":     {"RedisCluster", `"object":{"\n%s":1}`, del},
}

// maxAnswer is the length of the longest answer, in bytes.
const maxAnswer = 128 << 10

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
		request = fmt.Sprintf(`"resource":{"group":%q,"version":%q,"resource":%q},`, k.Group, k.Version, k.Custom.Plural) + request
	}
	around := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{` + request + `}}`
	body = strings.ReplaceAll(around, "%s", fill((length-len(around))/strings.Count(around, "%s"), what.element))
	verb := "validate"
	if strings.Contains(body[:len(around)], `"size":3`) || strings.Contains(name, "filled in") {
		verb = "mutate"
	}
	return Path(verb, k.GroupVersionKind), body
}

// sendFrom sends a review from the address number n.
func sendFrom(h *Handler, n byte, path string, length int64, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, body)
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr, r.ContentLength = peer(n).String()+":1", length
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// bodyText is a body that many requests can read at once.
type bodyText interface {
	io.ReaderAt
	Size() int64
}

// attack sends a number of requests at once from four addresses, and returns how often each status was the answer. It fails the test if the
// limits do not get back all that the requests took.
func attack(t testing.TB, h *Handler, requests int, path string, body bodyText) (statuses map[int]int) {
	t.Helper()
	statuses = map[int]int{}
	var mu sync.Mutex
	var attack sync.WaitGroup
	for n := range requests {
		attack.Go(func() {
			w := sendFrom(h, byte(n%4), path, body.Size(), io.NewSectionReader(body, 0, body.Size()))
			mu.Lock()
			defer mu.Unlock()
			statuses[w.Code]++
			if w.Body.Len() > maxAnswer {
				t.Errorf("an answer has %d bytes: %.200s", w.Body.Len(), w.Body)
			}
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusTooManyRequests &&
				w.Code != http.StatusInsufficientStorage {
				t.Errorf("status %d: %.200s", w.Code, w.Body)
			}
		})
	}
	attack.Wait()
	if h.limits.bodies.Left() != bodiesMemory || h.limits.reviews.Left() != reviewsMemory {
		t.Errorf("after all requests, the limits have only %d and %d bytes left", h.limits.bodies.Left(), h.limits.reviews.Left())
	}
	return statuses
}

// TestRequestsGiveBackWhatTheyTook has all requests of the flood.
func TestRequestsGiveBackWhatTheyTook(t *testing.T) {
	for name := range flood {
		t.Run(name, func(t *testing.T) {
			path, body := flooding(t, name, 100<<10)
			attack(t, NewHandler(nil, nil), 8, path, strings.NewReader(body))
		})
	}
}

// TestMemoryOfScales: for a review of a Scale, which has some 500 bytes, the operator reads a RedisCluster, which can have 1.5 MiB.
func TestMemoryOfScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		h := withChange(t, func(c *descriptor.Custom) {
			c.Webhook.Get = func(context.Context, versioned.Interface, string, string) (descriptor.Object, error) {
				reads.Add(1)
				time.Sleep(2 * shareTimeout)
				return &redisv1.RedisCluster{}, nil
			}
		})
		asked := string(body(t, scale(t, `{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":3}}`)))
		const requests = 128
		statuses := attack(t, h, requests, Path("mutate", kindOf(t, "RedisCluster").GroupVersionKind), strings.NewReader(asked))
		if n := int(reads.Load()); n == 0 || n*parentSize > bodiesMemory || statuses[http.StatusOK] != n ||
			statuses[http.StatusTooManyRequests] != requests-n {
			t.Errorf("%d reads, statuses %v", n, statuses)
		}
	})
}

// TestTheLargestUpdate: an update of an object of the maximal size in etcd is admitted, even if another address uses all of its memory
// limit.
func TestTheLargestUpdate(t *testing.T) {
	object := func(minutes int) string {
		script := strings.Repeat(`\u003c`, (maxObject-1000)/6) // An API server encodes "<" as six bytes.
		text := sample(t, "MyCronJob", fmt.Sprintf(cronJob, fmt.Sprintf("*/%d * * * *", minutes)))
		text = strings.Replace(text, `"image":"b"`, `"image":"b","args":["`+script+`"]`, 1)
		if len(text) > maxObject {
			t.Fatalf("the object has %d bytes, which is more than etcd accepts", len(text))
		}
		return text
	}
	h := NewHandler(fake.NewClientset(), nil)
	for _, s := range []*shares.Shares[netip.Addr]{h.limits.bodies, h.limits.reviews} {
		for s.Take(peer(66), 1<<20) {
		}
	}
	asked := ask(t, "MyCronJob", object(5), object(7))
	if got := review(t, h, "validate", "MyCronJob", asked); !got.Allowed {
		t.Errorf("the update was refused: %s", kubectl(got))
	}
}

// TestASlowAttackerDelaysNoOtherClient: an attacker never sends its bodies. It uses at most its share of the memory, and only for the time
// that a normal client needs. All other clients get their answers at once.
func TestASlowAttackerDelaysNoOtherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHandler(fake.NewClientset(), nil)
		path := Path("validate", kindOf(t, "RedisCluster").GroupVersionKind)
		good := body(t, ask(t, "RedisCluster", sample(t, "RedisCluster", `{"addr":"1.2.3.4:1"}`), ""))
		slow, never := io.Pipe()
		var attack sync.WaitGroup
		var refused atomic.Int64
		for range 64 {
			attack.Go(func() {
				if w := sendFrom(h, 66, path, maxBody, slow); w.Code == http.StatusTooManyRequests {
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
			if w := sendFrom(h, n, path, int64(len(good)), bytes.NewReader(good)); w.Code != http.StatusOK || time.Since(began) > 0 {
				t.Errorf("status %d after %s: %s", w.Code, time.Since(began), w.Body)
			}
		}
		time.Sleep(shareTimeout)
		synctest.Wait()
		if held := int64(64) - refused.Load(); (held-1)*maxBody > bodiesMemory/2 || held == 0 {
			t.Errorf("%d requests of the attacker still send their bodies", held)
		}
		never.CloseWithError(io.ErrUnexpectedEOF)
		attack.Wait()
	})
}

// attacked is the name of the environment variable with the path of a flood, for TestMemoryOfAllRequests.
const attacked = "GLASSBACK_ATTACKED"

// TestMemoryOfAllRequests: whatever clients send at once, from four addresses, the memory of the process is limited: a container has 256
// MiB. It measures a process of its own for each flood, which reads the bodies from files: they take none of its memory. Some 60 MiB are
// the pages of the program itself.
func TestMemoryOfAllRequests(t *testing.T) {
	if path := os.Getenv(attacked); path != "" {
		for _, name := range flag.Args() {
			file, err := os.Open(name)
			must.Succeed(t, err)
			info, err := file.Stat()
			must.Succeed(t, err)
			attack(t, NewHandler(nil, nil), 16, path, io.NewSectionReader(file, 0, info.Size()))
		}
		status, err := os.ReadFile("/proc/self/status")
		must.Succeed(t, err)
		os.Stdout.Write(status)
		return
	}
	if testing.Short() {
		t.Skip("it starts a process for each flood")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("SKIPPED, the memory of all requests: only Linux reports it")
	}
	measure := func(t *testing.T, name string, length int, most int64) {
		args, path := []string{"-test.run=^TestMemoryOfAllRequests$"}, ""
		for _, length := range []int{length, 90 << 10} { // The longest body, and one with nearly as many values as there may be.
			var body string
			path, body = flooding(t, name, length)
			file := filepath.Join(t.TempDir(), "body")
			must.Succeed(t, os.WriteFile(file, []byte(body), 0o600))
			args = append(args, file)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		// The operator, too, has a limit for what the garbage collector has not freed yet (package app). This one is lower, so that the
		// result depends on the memory that requests hold, and not on how far the garbage collector is behind.
		cmd.Env = append(os.Environ(), attacked+"="+path, "GOMEMLIMIT=90MiB")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// The peak is not that of wait4(2), which includes the memory of the parent at the start of the child.
		var peak int64
		_, text, _ := strings.Cut(string(out), "VmHWM:")
		if _, err := fmt.Sscan(text, &peak); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		peak >>= 10
		t.Logf("%d MiB", peak)
		if peak > most {
			t.Errorf("%d MiB, want at most %d", peak, most)
		}
	}
	t.Run("of 6.9 MB", func(t *testing.T) { measure(t, "an address that is quoted", 6_900_000, 80) })
	for name := range flood {
		t.Run(name, func(t *testing.T) { measure(t, name, maxBody, 160) })
	}
}

// peer returns the address number n.
func peer(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// stranger is a connection from an address.
type stranger struct {
	net.Conn
	from netip.Addr
}

func (s stranger) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.from, 1234))
}

func TestBoundedListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := listen()
		defer in.Close()
		listener := Bounded(in, func() {})
		var accepted []net.Conn
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				accepted = append(accepted, conn)
			}
		}()
		// admitted connects n times from an address, and returns how many of the connections are accepted.
		admitted := func(from byte, n int) int {
			before := len(accepted)
			for range n {
				_, server := net.Pipe()
				in.accepted <- stranger{server, peer(from)}
			}
			synctest.Wait()
			return len(accepted) - before
		}
		if got := admitted(1, 2*maxConnections); got != maxConnections/2 {
			t.Errorf("one address has %d connections, want %d", got, maxConnections/2)
		}
		if got := admitted(2, 10); got != 10 {
			t.Errorf("another address has %d connections, want 10", got)
		}
		for _, conn := range accepted {
			conn.Close()
			conn.Close() // A second Close gives nothing back.
		}
		if got := admitted(3, 2*maxConnections); got != maxConnections/2 {
			t.Errorf("after all were closed, one address has %d connections, want %d", got, maxConnections/2)
		}
	})
}
